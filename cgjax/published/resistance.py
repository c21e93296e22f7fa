"""Claims of "Gradient Descent Resists Compositionality", and a prototype's numbers; literals only.

The paper prints curves and no number: its claims are orderings. A `sentence` gives their sense, not
their wording; thresholds (0.05, 0.5, 0.001) are ours. The numbers are of other code with
the paper's settings (PyTorch for digits, NumPy for the plane, JAX for SCAN), mean and standard
deviation over seeds; a deviation of 0 is unknown.
"""

PAPER = "Anonymous, under review"

ROWS = {
    "mnist": "Two digits side by side, the second one telling (A) or not (B)",
    "plane": "Two coordinates, the second one telling (A) or not (control)",
    "scan": "SCAN's jump split as it is (A) and with action words drawn anew (B)",
}

# `published.reading.read` describes the layout of these tables.
# fmt: off
TABLES = (
    {"kind": "recomputed", "metrics": {"mnist": "{line}: {column}"}, "error": 0.0,
     "where": "figure 3a at step 200, 5 seeds of 600 samples", "n": 5,
     "columns": ("train accuracy", "test accuracy", "S_2"), "lines": {
         "A": ((0.974, 0.008), (0.736, 0.021), (0.375, 0.0)),
         "B": ((0.935, 0.014), (0.935, 0.012), (0.204, 0.0)),
     }},
    {"kind": "recomputed", "metrics": {"plane": "{line}: {column}"}, "error": 0.0,
     "where": "figure 5 at step 1024, 5 seeds", "n": 5,
     "columns": ("train accuracy", "test accuracy", "S_2"), "lines": {
         "A": ((0.996, 0.001), (0.872, 0.114), (0.081, 0.0)),
         "control": ((0.994, 0.003), (0.997, 0.005), (0.048, 0.0)),
     }},
    {"kind": "recomputed", "metrics": {"scan": "{line}: test accuracy, whole set"}, "error": 0.0,
     "where": "figure 3b at step 2,000, 2 seeds", "n": 2, "columns": ("",), "lines": {
         "A": ((0.0021, 0.0017),),
         "B": ((0.9999, 0.0),),
     }},
)
# fmt: on

# What a part of a row is called in a claim.
PARTS = {
    "": "",
    "overlaid/": "overlaid: ",
    "beside/": "side by side: ",
    "digits/": "digits: ",
    "plane/": "plane: ",
    "he/": "he: ",
    "updates/": "updates: ",
    "playground/": "demo: ",
    "appendix_categorical_hinge/": "appendix: ",
    "three_conv_categorical_hinge/": "three conv: ",
    "appendix_one_vs_rest_hinge/": "appendix, rest: ",
    "three_conv_one_vs_rest_hinge/": "three conv, rest: ",
    "guess: test accuracy at loss 0.1": "guess: test, loss 0.1",
    "guess: S_2 at loss 0.1": "guess: S_2, loss 0.1",
    "guess: interventional information at loss 0.1": "guess: I_do, loss 0.1",
    "walk of 100,000 steps: test accuracy at loss 0.02": "walk: test, loss 0.02",
    "walk of 100,000 steps: S_2 at loss 0.02": "walk: S_2, loss 0.02",
    "walk of 100,000 steps: interventional information at loss 0.02": "walk: I_do, loss 0.02",
}
DIGITS = {
    "demo": ("digits/",),
    "mnist": ("",),
    "architectures": (
        "appendix_categorical_hinge/",
        "appendix_one_vs_rest_hinge/",
        "three_conv_categorical_hinge/",
        "three_conv_one_vs_rest_hinge/",
    ),
}
# What SGD is compared with: differences by training set, each the mean over starts.
COMPOSES = (
    "guess: test accuracy at loss 0.1",
    "walk of 100,000 steps: test accuracy at loss 0.02",
)
USES_X_2 = (
    "guess: S_2 at loss 0.1",
    "walk of 100,000 steps: S_2 at loss 0.02",
    "guess: interventional information at loss 0.1",
    "walk of 100,000 steps: interventional information at loss 0.02",
)
# Claims in words; `published.claims` describes the layout. In the digits' runs "A" is compared
# with "B", on the plane with "control".
CLAIMS = {
    "a_trains_faster": {
        "claim": "{words}A trains faster",
        "sentence": "training accuracy increases faster in A than in B",
        "where": "figure 3a",
        "chains": [
            [("{row}", "{part}A: early train accuracy"), ("{row}", "{part}B: early train accuracy")]
        ],
        "rows": DIGITS,
    },
    "a_learns_faster": {
        "claim": "A is faster on the {words}",
        "sentence": "training accuracy increases faster in A than in B",
        "where": "figure 3b",
        "chains": [
            [
                ("{row}", "A: early accuracy on the {part}"),
                ("{row}", "B: early accuracy on the {part}"),
            ]
        ],
        "rows": {"scan": ("bare word", "rest")},
    },
    "a_has_the_larger_gap": {
        "claim": "{words}A has the larger gap",
        "sentence": "the gap between training and test is much larger in A",
        "where": "figures 3a and 3b",
        "chains": [[("{row}", "{part}A: gap"), ("{row}", "{part}B: gap")]],
        "rows": {**DIGITS, "scan": ("",), "heal": ("digits/",)},
    },
    "b_has_hardly_a_gap_0_05": {
        "claim": "{words}B has hardly a gap (0.05)",
        "sentence": "in B training and test stay close",
        "where": "figure 3a",
        "chains": [[0.05, ("{row}", "{part}B: gap")]],
        "rows": {"demo": ("digits/",), "mnist": ("",)},
    },
    "a_uses_x_2_more": {
        "claim": "{words}A uses X_2 more",
        "sentence": "dY/dX_j is not zero after an update where X_j is informative",
        "where": "proposition 4",
        "chains": [[("{row}", "{part}A: S_2"), ("{row}", "{part}B: S_2")]],
        "rows": {"demo": ("digits/",), "mnist": ("",)},
    },
    "x_2_is_used_where_all_pairs_occur": {
        "claim": "all pairs may occur: {words} below B",
        "sentence": "networks use X_2 where it is informative, not only where pairs are new (at "
        "0.99 some pairs of the test do not occur in training by chance)",
        "where": "proposition 4, figure 3a",
        "chains": [[("{row}", "B: test accuracy"), ("{row}", "{part}: test accuracy")]],
        "metric": "{part}: test accuracy",
        "rows": {"dose": ("rho 0.9", "rho 0.99")},
    },
    "new_pairs_add_to_it": {
        "claim": "new pairs: A below {words}",
        "sentence": "the test has combinations that do not occur in training",
        "where": "figure 3a, its test",
        "chains": [[("{row}", "{part}: test accuracy"), ("{row}", "A: test accuracy")]],
        "metric": "A: test accuracy",
        "rows": {"dose": ("rho 0.99",)},
    },
    "telling_harms_where_all_pairs_occur": {
        "kind": "finding",
        "claim": "{words}all seen: rho 0.9 below B",
        "sentence": "X_2 that tells lowers test accuracy where all pairs occur in training",
        "where": "open question: entangled inputs",
        "chains": [
            [("{row}", "{part}B: test accuracy"), ("{row}", "{part}rho 0.9: test accuracy")]
        ],
        "metric": "{part}rho 0.9: test accuracy",
        "rows": {"overlaid": ("overlaid/", "beside/")},
    },
    "telling_harms_more_than_rare_pairs": {
        "kind": "finding",
        "claim": "{words}as rare: rho 0.9 below B",
        "sentence": "where pairs of the test are equally rare, test accuracy is lower if X_2 tells "
        "than if it is absent and never tells",
        "where": "open question: entangled inputs",
        "chains": [
            [
                ("{row}", "{part}B, X_2 absent 0.9: test accuracy"),
                ("{row}", "{part}rho 0.9: test accuracy"),
            ]
        ],
        "metric": "{part}rho 0.9: test accuracy",
        "rows": {"overlaid": ("overlaid/", "beside/")},
    },
    "entangled_digits_fail_in_a": {
        "kind": "finding",
        "claim": "{words}test: A below B",
        "sentence": "entangled digits, too, fail on new pairs where X_2 tells",
        "where": "open question: entangled inputs",
        "chains": [[("{row}", "{part}B: test accuracy"), ("{row}", "{part}A: test accuracy")]],
        "metric": "{part}A: test accuracy",
        "rows": {"overlaid": ("overlaid/", "beside/")},
    },
    "telling_widens_the_gap": {
        "kind": "finding",
        "claim": "{words}gap: B below A",
        "sentence": "training less test accuracy is larger where X_2 tells, entangled or not",
        "where": "open question: entangled inputs",
        "chains": [[("{row}", "{part}A: gap"), ("{row}", "{part}B: gap")]],
        "metric": "{part}A: gap",
        "rows": {"overlaid": ("overlaid/", "beside/")},
    },
    "a_tells_of_y_2_when_x_2_is_free": {
        "claim": "{words}A tells of Y_2 when X_2 is free",
        "sentence": "the conditional independence property is violated",
        "where": "propositions 1 and 4",
        "chains": [
            [
                ("{row}", "{part}A: interventional information"),
                ("{row}", "{part}B: interventional information"),
            ]
        ],
        "rows": {"mnist": ("",)},
    },
    "a_fits_faster_at_first": {
        "claim": "{words}A fits faster at first",
        "sentence": "training is faster at first where X_2 is informative (the control is ours)",
        "where": "figure 5",
        "chains": [
            [
                ("{row}", "{part}A: early train accuracy"),
                ("{row}", "{part}control: early train accuracy"),
            ]
        ],
        "rows": {"plane": ("",)},
    },
    "a_fails_more_on_the_test": {
        "claim": "{words}A fails more on the test",
        "sentence": "the boundary is not the vertical line",
        "where": "figures 5 and 6",
        "chains": [
            [("{row}", "{part}control: test accuracy"), ("{row}", "{part}A: test accuracy")]
        ],
        "metric": "{part}A: test accuracy",
        "rows": {
            "demo": ("plane/",),
            "plane": ("",),
            "starts": ("he/", "updates/", "playground/"),
            "heal": ("plane/",),
        },
    },
    "a_uses_x_2_more_on_the_plane": {
        "claim": "{words}A uses X_2 more",
        "sentence": "dY/dX_j is not zero after an update where X_j is informative",
        "where": "proposition 4",
        "chains": [[("{row}", "{part}A: S_2"), ("{row}", "{part}control: S_2")]],
        "rows": {"demo": ("plane/",), "plane": ("",)},
    },
    "a_tells_of_y_2_when_x_2_is_free_on_the_plane": {
        "claim": "{words}A tells of Y_2 when X_2 is free",
        "sentence": "the conditional independence property is violated",
        "where": "propositions 1 and 4",
        "chains": [
            [
                ("{row}", "{part}A: interventional information"),
                ("{row}", "{part}control: interventional information"),
            ]
        ],
        "rows": {"plane": ("",)},
    },
    "an_early_step_raises_d": {
        "claim": "{words}a step raises D_1 + D_2",
        "sentence": "dY/dX is not zero after an update where X is informative",
        "where": "proposition 3",
        "chains": [[("{row}", "{part}A: early one step on A: D_1 + D_2"), 0.0]],
        "rows": {"one_step": ("plane/", "digits/")},
    },
    "an_early_step_raises_information": {
        "claim": "{words}a step raises I(Y_1; answer)",
        "sentence": "a lower loss means more information about the target",
        "where": "proposition 3, argument",
        "chains": [[("{row}", "{part}A: early one step on A: I of the target"), 0.0]],
        "rows": {"one_step": ("plane/", "digits/")},
    },
    "a_step_raises_d_2_x_2_telling": {
        "claim": "{words}a step raises D_2, X_2 telling",
        "sentence": "dY/dX_j is not zero after an update where X_j is informative",
        "where": "proposition 4",
        "chains": [[("{row}", "{part}A: early one step on A: D_2"), 0.0]],
        "rows": {"one_step": ("plane/", "digits/")},
    },
    "more_than_with_x_2_re_drawn": {
        "claim": "{words}more than with X_2 re-drawn",
        "sentence": "dY/dX_j is not zero after an update where X_j is informative",
        "where": "proposition 4",
        "chains": [
            [
                ("{row}", "{part}A: early one step on A: D_2"),
                ("{row}", "{part}A: early one step on re-drawn: D_2"),
            ]
        ],
        "rows": {"one_step": ("plane/", "digits/")},
    },
    "head_1_uses_x_2_more_in_a": {
        "claim": "{words}head 1 uses X_2 more in A",
        "sentence": "dY_i/dX_j is not zero for j != i after an update",
        "where": "proposition 5",
        "chains": [[("{row}", "{part}plane/A: S_2"), ("{row}", "{part}plane/control: S_2")]],
        "rows": {"heads": ("",)},
    },
    "head_2_uses_x_1_more_in_a": {
        "claim": "{words}head 2 uses X_1 more in A",
        "sentence": "dY_i/dX_j is not zero for j != i after an update",
        "where": "proposition 5",
        "chains": [
            [
                ("{row}", "{part}plane/A: S_1 of head 2"),
                ("{row}", "{part}plane/control: S_1 of head 2"),
            ]
        ],
        "rows": {"heads": ("",)},
    },
    "updates_do_not_cancel_0_5": {
        "claim": "{words}updates do not cancel (0.5)",
        "sentence": "the updates are unlikely to be cancelled",
        "where": "proposition 5, argument",
        "chains": [[("{row}", "{part}plane/A: mean heads: ratio of norms"), 0.5]],
        "rows": {"heads": ("",)},
    },
    "towers_do_not_repair_a": {
        "claim": "{words}towers do not repair A",
        "sentence": "architecture alone cannot solve it",
        "where": "abstract",
        "chains": [
            [
                ("{row}", "{part}plane_towers/control, penalty 0: test accuracy"),
                ("{row}", "{part}plane_towers/A, penalty 0: test accuracy"),
            ]
        ],
        "metric": "{part}plane_towers/A, penalty 0: test accuracy",
        "rows": {"remedies": ("",)},
    },
    "towers_leave_a_s_information_y_1_given": {
        "claim": "{words}towers leave A's information, Y_1 given",
        "sentence": "architecture alone cannot solve it",
        "where": "abstract",
        "chains": [
            [
                ("{row}", "{part}plane_towers/A, penalty 0: conditional information"),
                ("{row}", "{part}plane_towers/control, penalty 0: conditional information"),
            ]
        ],
        "rows": {"remedies": ("",)},
    },
    "towers_leave_a_s_information_x_2_free": {
        "claim": "{words}towers leave A's information, X_2 free",
        "sentence": "architecture alone cannot solve it",
        "where": "abstract",
        "chains": [
            [
                ("{row}", "{part}plane_towers/A, penalty 0: interventional information"),
                ("{row}", "{part}plane_towers/control, penalty 0: interventional information"),
            ]
        ],
        "rows": {"remedies": ("",)},
    },
    "a_s_end_is_nearer_to_the_start": {
        "claim": "{words}A's end is nearer to the start",
        "sentence": "gradient descent brings parameters closer to the non-compositional solution",
        "where": "figure 1, right",
        "chains": [
            [
                ("{row}", "{part}distance from start to control"),
                ("{row}", "{part}distance from start to A"),
            ]
        ],
        "metric": "{part}distance from start to A",
        "rows": {"landscape": ("",)},
    },
    "forward_mode_the_same_curves_1e_3": {
        "claim": "{words}forward mode: the same curves (1e-3)",
        "sentence": "the bias is not caused by how the gradient is computed",
        "where": "introduction",
        "chains": [[0.001, ("{row}", "{part}forward: largest difference of S_2, 16 steps")]],
        "rows": {"gradients": ("",)},
    },
    "sgd_composes_less": {
        "only": "training sets with solutions of both",
        "claim": "SGD below {words}",
        "sentence": "the bias is caused by gradient descent: its networks compose less",
        "where": "title and introduction",
        "chains": [[0.0, ("{row}", "sgd less {part}")]],
        "rows": {"control": COMPOSES},
    },
    "sgd_uses_x_2_more": {
        "only": "training sets with solutions of both",
        "claim": "SGD above {words}",
        "sentence": "the bias is caused by gradient descent: its networks use X_2 more",
        "where": "title and introduction",
        "chains": [[("{row}", "sgd less {part}"), 0.0]],
        "rows": {"control": USES_X_2},
    },
}

# Why ours does not match, and what could tell; `published.claims` describes the layout.
_NOT_ONLY_DESCENT = (
    "published: the propositions say that a step raises the dependence on X_2, not that other "
    "networks of the same loss depend on it less; random walks find networks that depend more",
    "the same comparison with digits and with larger networks, where walks reach the loss",
)
_TARGET_LOGIT = (
    "settings: the recomputed S_2 is that of the target's logit on 64 inputs, ours that of all ten "
    "centred logits on 256; it has no spread",
    "S_2 of the target's logit on the same networks",
)
CAUSES = {
    "mnist.a_s_2": _TARGET_LOGIT,
    "control.sgd_below_walk_test_loss_0.02": _NOT_ONLY_DESCENT,
    "control.sgd_above_walk_s_2_loss_0.02": _NOT_ONLY_DESCENT,
    "control.sgd_above_walk_i_do_loss_0.02": _NOT_ONLY_DESCENT,
}
