"""Claims in words of Lippl and Stachenfeld 2025, laid out as those of sprites; literals only."""

STATED = {
    "kernels": {
        "leak_shrinks_with_salience": {
            "sentence": "The higher the salience of single components, the less leaks",
            "where": "figure 3a and b, proposition 5.1",
            "chains": [
                [
                    ("leak", "slope, p=1, S=0.50"),
                    ("leak", "slope, p=1, S=0.45"),
                    ("leak", "slope, p=1, S=0.40"),
                    ("leak", "slope, p=1, S=0.35"),
                    ("leak", "slope, p=1, S=0.30"),
                ]
            ],
        },
        "partial_exposure_is_harder": {
            "sentence": "Partial exposure leaves a smaller margin than invariance",
            "where": "figure of partial exposure",
            "chains": [
                [("partial", "invariance, k=0.25"), ("partial", "partial exposure, k=0.25")]
            ],
        },
        "context_tasks_are_nested": {
            "sentence": "Fewer kernels solve CD-2 than CD-1, and fewer still CD-3",
            "where": "figure 3d",
            "chains": [
                [
                    ("phase", "CD-1 solved, svm"),
                    ("phase", "CD-2 solved, svm"),
                    ("phase", "CD-3 solved, svm"),
                ],
            ],
        },
        "context_wins_at_rep_2": {
            "sentence": "At representation 2, CD-3 is answered from the context alone more than "
            "from the right conjunctions",
            "where": "figure 3e",
            "chains": [
                [("magnitudes", "rep_2, CD-3: context"), ("magnitudes", "rep_2, CD-3: right")]
            ],
        },
        "depth_makes_lookup_tables": {
            "sentence": "The deeper a wide random network, the less salient single components are "
            "and the more their full conjunction",
            "where": "figure 2, proposition B.2",
            "chains": [
                [
                    ("salience", "{0}, depth 1: S(1;3)"),
                    ("salience", "{0}, depth 5: S(1;3)"),
                    ("salience", "{0}, depth 20: S(1;3)"),
                ],
                [
                    ("salience", "{0}, depth 20: S(3;3)"),
                    ("salience", "{0}, depth 5: S(3;3)"),
                    ("salience", "{0}, depth 1: S(3;3)"),
                ],
            ],
            "each": ("step", "relu"),
        },
        "rich_networks_solve_equivalence": {
            "sentence": "Rich networks solve transitive equivalence, lazy ones do not",
            "where": "figure 4a",
            "chains": [
                [
                    ("te_rich", "mse/te_2_2, sigma 1e-06: accuracy"),
                    ("te_rich", "mse/te_2_2, sigma 1: accuracy"),
                ],
            ],
        },
        "rich_networks_help_interpolation_only": {
            "sentence": "Rich networks add better than lazy ones in interpolation, and worse from "
            "an anchor at the end",
            "where": "supplement, rich and lazy",
            "chains": [
                [
                    ("addition_rich", "interpolation, sigma 1e-06: slope"),
                    ("addition_rich", "interpolation, sigma 1: slope"),
                ],
                [
                    ("addition_rich", "asymmetric, sigma 1: slope"),
                    ("addition_rich", "asymmetric, sigma 1e-06: slope"),
                ],
            ],
        },
        "lazy_networks_keep_their_features": {
            "sentence": "Training leaves the features of lazy networks as they were: their "
            "salience of single components is the same",
            "where": "supplement, rich and lazy, similarities",
            "equal": [
                [
                    ("addition_rich", "{0}, sigma 1: S(1;2) after"),
                    ("addition_rich", "{0}, sigma 1: S(1;2) before"),
                ]
            ],
            "each": ("extrapolation", "asymmetric", "interpolation", "both"),
        },
        "memorization_grows_with_depth": {
            "sentence": "In CD-3 dense networks memorize more, the deeper they are",
            "where": "supplement, deep networks",
            "chains": [
                [
                    ("cd_deep", "depth_4/cd_3: memorization share"),
                    ("cd_deep", "depth_3/cd_3: memorization share"),
                    ("cd_deep", "depth_2/cd_3: memorization share"),
                    ("cd_deep", "depth_1/cd_3: memorization share"),
                ],
            ],
        },
        "equivalence_dips_first": {
            "sentence": "On transitive equivalence accuracy falls below chance before it rises",
            "where": "supplement, deep networks",
            "chains": [
                [
                    ("te_deep", "depth_{0}/te_2_2: accuracy"),
                    0.5,
                    ("te_deep", "depth_{0}/te_2_2: lowest mean accuracy"),
                ]
            ],
            "each": (1, 2, 3, 4),
        },
        "digits_apart_leak_less": {
            "sentence": "The further digits are apart, the less the sums of ConvNets shrink",
            "where": "figure 5, figure of values by distance",
            "chains": [
                [("addition_mnist", "{0}, d=20: slope"), ("addition_mnist", "{0}, d=0: slope")]
            ],
            "each": ("extrapolation", "interpolation", "both", "asymmetric"),
        },
        "extrapolation_leaks_less_apart": {
            "sentence": "With the anchor in the middle, sums shrink less where digits are apart",
            "where": "figure 5, figure of values by distance",
            "chains": [
                [
                    ("addition_mnist", "extrapolation, d=20: slope"),
                    ("addition_mnist", "extrapolation, d=0: slope"),
                ],
            ],
        },
        "inside_or_outside_is_alike": {
            "sentence": "With two anchors it makes no difference whether new items lie between "
            "them or beyond: sums shrink alike",
            "where": "figure of values by distance; proposition 5.1 says so of kernels",
            "equal": [
                [
                    ("addition_mnist", "interpolation, d=0: slope"),
                    ("addition_mnist", "both, d=0: slope"),
                ]
            ],
        },
        "inside_or_outside_is_alike_apart": {
            "sentence": "The same of digits that are apart",
            "where": "figure of values by distance",
            "equal": [
                [
                    ("addition_mnist", "interpolation, d={0}: slope"),
                    ("addition_mnist", "both, d={0}: slope"),
                ]
            ],
            "each": (5, 10, 15, 20),
        },
        "known_sums_do_not_mind_distance": {
            "sentence": "On known combinations of new images, errors barely depend on how far "
            "digits are apart (a factor of 1.2, which is ours)",
            "where": "figure of values by distance, in-distribution MSE",
            "equal": [
                [("addition_mnist", "{0}, d=20: in mse"), ("addition_mnist", "{0}, d=0: in mse")]
            ],
            "each": ("extrapolation", "interpolation", "both", "asymmetric"),
            "factor": 1.2,
        },
        "two_anchors_leak_less": {
            "sentence": "With two anchors in place of one, sums shrink less",
            "where": "figure 5, figure of values by distance",
            "chains": [
                [
                    ("addition_mnist", "both, d={0}: slope"),
                    ("addition_mnist", "extrapolation, d={0}: slope"),
                ]
            ],
            "each": (0, 20),
        },
        "shortcut_wins_apart": {
            "sentence": "Digits apart, ConvNets solve CD-3 worse, and below chance",
            "where": "figure 5d, figure of accuracy by distance",
            "chains": [
                [
                    ("cd_mnist", "cd_3, d=0: comp accuracy"),
                    ("cd_mnist", "cd_3, d=20: comp accuracy"),
                ],
                [0.5, ("cd_mnist", "cd_3, d=20: comp accuracy")],
            ],
        },
        "easier_contexts_gain_apart": {
            "sentence": "Digits apart, ConvNets solve CD-1 and CD-2 better",
            "where": "figure of accuracy by distance",
            "chains": [
                [("cd_mnist", "{0}, d=20: comp accuracy"), ("cd_mnist", "{0}, d=0: comp accuracy")]
            ],
            "each": ("cd_1", "cd_2"),
        },
        "context_alone_in_cd_3": {
            "sentence": "ConvNets answer CD-3 from the context alone, and CD-1 from the right "
            "conjunctions",
            "where": "figure 5d",
            "chains": [
                [
                    ("cd_mnist", "cd_3, d=20: magnitude context"),
                    ("cd_mnist", "cd_3, d=20: magnitude right"),
                ],
                [
                    ("cd_mnist", "cd_1, d=20: magnitude right"),
                    ("cd_mnist", "cd_1, d=20: magnitude context"),
                ],
            ],
        },
        "convnets_solve_equivalence_apart": {
            "sentence": "Digits apart, trained ConvNets solve the transitive equivalence that no "
            "fixed representation can",
            "where": "figure 4d",
            "chains": [
                [
                    ("te_mnist", "te_5_5_hubs_4, d=20: comp accuracy"),
                    ("te_mnist", "te_5_5_hubs_4, d=0: comp accuracy"),
                ],
                [("te_mnist", "te_5_5_hubs_4, d=20: comp accuracy"), 0.5],
            ],
        },
        "larger_networks_fail_cd_3_too": {
            "sentence": "ResNets and vision transformers have CD-1 above chance, and CD-3 below",
            "where": "figure of CIFAR-10 accuracy",
            "chains": [
                [
                    ("cd_cifar_{0}", "cd_1, d=0: comp accuracy"),
                    0.5,
                    ("cd_cifar_{0}", "cd_3, d=0: comp accuracy"),
                ]
            ],
            "each": ("resnet", "vit"),
        },
    },
}
