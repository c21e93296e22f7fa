"""Claims in words of Wiedemer et al. 2023 and its side experiments; literals only.

`STATED` {family: {name: claim}}: a `sentence` in our words, `where` the paper says so, and
`chains` of sides from the greatest to the least, each (row, metric) or a number, or `equal`, pairs
of sides that do not differ, by more than a `tolerance` or a `factor` where one is stated; `each`
has the words that stand for {0}, {1} in them.
"""

STATED = {
    "sprites": {
        "only_compositional_carries_over": {
            "sentence": "Trained on three planes, a network per sprite renders the whole cube far "
            "better than one network does",
            "where": "theorem 1, table, orthogonal rows",
            "chains": [
                [("orthogonal_compositional", "r2_all"), ("orthogonal_monolithic", "r2_all")]
            ],
        },
        "monolithic_fails_outside": {
            "sentence": "Outside its support one network is worse than the mean image",
            "where": "table, orthogonal monolithic",
            "chains": [[0, ("orthogonal_monolithic", "r2_all")]],
        },
        "gap_breaks_it": {
            "sentence": "Without compositional support, a band of places missing, scores fall",
            "where": "table, orthogonal gap",
            "chains": [[("orthogonal_compositional", "r2_all"), ("orthogonal_gap", "r2_all")]],
        },
        "missing_plane_breaks_it": {
            "sentence": "Without sufficient support, a plane missing, scores fall",
            "where": "table, orthogonal*",
            "chains": [[("orthogonal_compositional", "r2_all"), ("orthogonal_star", "r2_all")]],
        },
        "narrow_diagonal_breaks_it": {
            "sentence": "The narrower the diagonal, the worse the whole cube is rendered",
            "where": "table, diagonal rows",
            "chains": [
                [
                    ("diagonal_broad", "r2_all"),
                    ("diagonal", "r2_all"),
                    ("diagonal_narrow", "r2_all"),
                ]
            ],
        },
        "which_support_does_not_matter": {
            "sentence": "Where both conditions hold, it makes no difference which support a "
            "network per sprite is trained on",
            "where": "table, rows with both conditions",
            "equal": [[("{0}", "r2_all"), ("orthogonal_compositional", "r2_all")]],
            "each": ("orthogonal_normal", "orthogonal_broad", "diagonal", "diagonal_broad"),
        },
        "condition_is_not_necessary": {
            "sentence": "With opacities no support can be sufficient, and the error is lower still",
            "where": "table, alpha row",
            "chains": [[("orthogonal_compositional", "mse_all"), ("orthogonal_rgba", "mse_all")]],
        },
    },
    "support": {
        "back_needs_two_planes": {
            "sentence": "One position of the front sprite always hides the same pixels: the back "
            "sprite is identified from two planes, not from one",
            "where": "sufficient support, orthogonal and orthogonal*",
            "chains": [[("table", "orthogonal/step_back"), ("table", "orthogonal_star/step_back")]],
        },
        "opacities_are_never_identified": {
            "sentence": "With opacities the condition fails where that of occlusion holds",
            "where": "alpha compositing",
            "chains": [[("table", "random/step_front_own"), ("table", "random/alpha_front")]],
        },
    },
    "vectors": {
        "network_per_part_generalises": {
            "sentence": "Latents outside the support are recovered by a network per part, and not "
            "by one network",
            "where": "notebook plots",
            "chains": [
                [("compositional_diagonal", "r2_all"), ("mlp_diagonal", "r2_all")],
                [("compositional_orthogonal", "r2_all"), ("mlp_orthogonal", "r2_all")],
            ],
        },
        "contrast_helps_single_parts_only": {
            "sentence": "A contrast in the loss helps one network where parts come one at a time, "
            "and not where they share their latents",
            "where": "notebook plots",
            "chains": [
                [("regularised_orthogonal", "r2_all"), ("mlp_orthogonal", "r2_all")],
                [("mlp_diagonal", "r2_all"), ("regularised_diagonal", "r2_all")],
            ],
        },
    },
}
