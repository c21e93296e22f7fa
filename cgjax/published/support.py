"""Shares of values that pass the rank condition, failing pixels, median smallest singular values.

Not the paper's, which computes no rank: measured once with other code. Both implementations draw
the values that they test. So the error of a number of failing pixels is that of a difference of two
means: our sd over 256 values times sqrt(1/n + 1/256), with n = 40 or 60 values of the other code.
Shares on diagonals that depend on the drawn values have the tolerance 0.08. Literals only.
"""

PAPER = ""

ROWS = {
    "table": "Share of a sprite's values that a support identifies",
    "partners": "Back sprite on the diagonal, by its width and number of partners",
}

# `published.reading.read` describes the layout of these tables.
# fmt: off
TABLES = (
    {"kind": "recomputed", "metrics": {"table": "{line}/{column}"}, "error": 0.0,
     "scale": 1.0, "computed": True,
     "where": "an independent implementation, 40 values, 48 partners",
     "columns": ("step_back", "step_front_own", "step_front", "sigmoid_front", "sigmoid_back",
                 "alpha_front"),
     "lines": {
         "random": (1.0, 1.0, 0.0, 1.0, 1.0, 0.0),
         "orthogonal": (1.0, 1.0, 0.0, 1.0, 1.0, 0.0),
         "orthogonal_star": (0.0, 1.0, 0.0, 1.0, 1.0, 0.0),
         "orthogonal_broad": (1.0, 1.0, 0.0, 1.0, 1.0, 0.0),
         "diagonal_broad": (1.0, 1.0, 0.0, 1.0, 1.0, 0.0),
         "diagonal": (None, 1.0, 0.0, 1.0, 1.0, 0.0),
         "diagonal_narrow": (None, 1.0, 0.0, 1.0, 1.0, 0.0),
         "orthogonal_gap": (1.0, None, None, None, None, 0.0),
     }},
    {"kind": "recomputed", "metrics": {"table": "{line}/{column}"}, "error": 0.0,
     "tolerance": 0.08, "computed": True,
     "where": "an independent implementation, 40 values, 48 partners",
     "columns": ("step_back",), "lines": {
         "diagonal": (0.9,),
         "diagonal_narrow": (0.1,),
     }},
    {"kind": "recomputed", "metrics": {"table": "{line}/{column}"}, "error": 0.0,
     "scale": 1.0, "computed": True,
     "where": "the share of x outside the gap from 0.05 to 0.45",
     "columns": ("step_front_own", "sigmoid_front"), "lines": {
         "orthogonal_gap": ((0.6, 0.031), (0.6, 0.031)),  # of 256 values
     }},
    {"kind": "recomputed", "metrics": {"table": "{line}/step_back {column}"}, "error": 0.5,
     "computed": True,
     "where": "an independent implementation, 40 values, 48 partners",
     "columns": ("failing pixels",), "lines": {
         "orthogonal_star": (40.0,),
         # The formula gives 3.8, with which this number would match. The mean of 1,000 values of
         # ours is 24.7, further away, so the smaller error stays.
         "diagonal_narrow": ((17.0, 3.2),),
     }},
    {"kind": "recomputed", "metrics": {"table": "{line}/{column} sigma"}, "error": 0.0005,
     "computed": True,
     "where": "an independent implementation, 40 values, 48 partners",
     "columns": ("sigmoid_front", "sigmoid_back"), "lines": {
         "orthogonal": (0.147, 0.619),
         "orthogonal_star": (0.147, 0.214),
         "orthogonal_broad": (0.626, 0.714),
     }},
    {"kind": "recomputed", "metrics": {"partners": "{line}, {column} partners"}, "error": 0.0,
     "tolerance": 0.08, "computed": True,
     "where": "an independent implementation, 60 values", "columns": (48, 512), "lines": {
         "delta 0.2": (1.0, 1.0),
         "delta 0.1": (0.92, 0.97),
         "delta 0.07": (0.37, 0.58),
         "delta 0.05": (0.1, 0.18),
         "delta 0.03": (0.0, 0.0),
     }},
    {"kind": "recomputed", "metrics": {"partners": "{line}, {column} partners: failing pixels"},
     "error": 0.05, "computed": True,
     "where": "an independent implementation, 60 values", "columns": (48, 512), "lines": {
         "delta 0.2": (0.0, 0.0),  # no value fails: the error of rounding
         "delta 0.1": ((1.0, 0.46), (0.1, 0.21)),
         "delta 0.07": ((9.5, 1.68), (4.3, 1.16)),
         "delta 0.05": ((20.0, 3.12), (18.0, 2.67)),
         "delta 0.03": ((50.0, 4.93), (45.0, 4.73)),
     }},
)
# fmt: on

# Claims in words; `published.claims` describes the layout.
CLAIMS = {
    "back_needs_two_planes": {
        "sentence": "One position of the front sprite always hides the same pixels: the back "
        "sprite is identified from two planes, not from one",
        "computed": True,
        "where": "sufficient support, orthogonal and orthogonal*",
        "chains": [[("table", "orthogonal/step_back"), ("table", "orthogonal_star/step_back")]],
    },
    "opacities_are_never_identified": {
        "sentence": "With opacities no support satisfies the condition: on none of eight supports "
        "is any value of the front sprite identified at all pixels",
        "computed": True,
        "where": "alpha compositing",
        "equal": [[("table", "{0}/alpha_front"), 0]],
        "tolerance": 0.0,
        "each": (
            "random",
            "orthogonal",
            "orthogonal_star",
            "orthogonal_broad",
            "diagonal_broad",
            "diagonal",
            "diagonal_narrow",
            "orthogonal_gap",
        ),
    },
    "determined_pairs_are_drawn_right": {
        "kind": "finding",
        "sentence": "Of pairs of real pictures that training never shows, a learned table of "
        "pictures draws those right that the support determines, more often than those that it "
        "leaves open",
        "where": "open question: real images as sprites",
        "chains": [
            [
                ("{0}", "table/determined pairs drawn right"),
                ("{0}", "table/open pairs drawn right"),
            ]
        ],
        "each": (("cut_outs",), ("digits",)),
    },
    "openness_orders_unseen_pairs": {
        "kind": "finding",
        "sentence": "What supports leave open of pairs of real pictures orders unseen pairs of all "
        "supports by their error after training",
        "where": "open question: real images as sprites",
        "chains": [[("{0}", "table/tau-b(open, error)"), 0]],
        "each": (("cut_outs",), ("digits",)),
    },
    "wrong_pairs_are_more_open": {
        "kind": "finding",
        "sentence": "Of two unseen pairs of one support, the one that a table of pictures draws "
        "wrong is the more open one, more often than not",
        "where": "open question: real images as sprites",
        "chains": [[("{0}", "table/wrong pairs more open within supports"), 0.5]],
        "each": (("cut_outs",), ("digits",)),
    },
    "counting_tells_wrong_pairs_as_well": {
        "kind": "finding",
        "sentence": "How often their pictures are shown tells wrong pairs of a support about as "
        "often (to 0.1)",
        "where": "open question: real images as sprites, control",
        "equal": [
            [
                ("{0}", "table/wrong pairs more open within supports"),
                ("{0}", "table/wrong pairs shown less within supports"),
            ]
        ],
        "tolerance": 0.1,
        "each": (("cut_outs",), ("digits",)),
    },
    "planes_suffice_for_components": {
        "kind": "finding",
        "sentence": "Scenes in which one picture varies at a time suffice for a table of pictures, "
        "not for one network for both (error of unseen pairs at most, and above, twice that of a "
        "model that saw everything)",
        "where": "open question: real images as sprites",
        "chains": [
            [
                ("{0}", "monolithic/{1}: error of unseen pairs"),
                2.0,
                ("{0}", "table/{1}: error of unseen pairs"),
            ]
        ],
        "each": (
            ("cut_outs", "planes"),
            ("cut_outs", "one front"),
            ("digits", "planes"),
            ("digits", "one front"),
        ),
    },
    "counting_orders_digits_better": {
        "kind": "finding",
        "sentence": "Of digits, the share of scenes that show the rarer picture orders unseen "
        "pairs better than openness",
        "where": "open question: real images as sprites, control",
        "chains": [
            [("digits", "table/tau-b(not shown, error)"), ("digits", "table/tau-b(open, error)")]
        ],
    },
    "one_network_has_the_contrast_too": {
        "kind": "finding",
        "sentence": "One network for both pictures, about which the theory says nothing, draws "
        "determined pairs right more often than open ones, too",
        "where": "open question: real images as sprites, control",
        "chains": [
            [
                ("{0}", "monolithic/determined pairs drawn right"),
                ("{0}", "monolithic/open pairs drawn right"),
            ]
        ],
        "each": (("cut_outs",), ("digits",)),
    },
    "openness_is_about_components": {
        "kind": "finding",
        "sentence": "It draws fewer of the determined pairs right than a table of pictures for "
        "front and back",
        "where": "open question: real images as sprites, control",
        "chains": [
            [
                ("{0}", "table/determined pairs drawn right"),
                ("{0}", "monolithic/determined pairs drawn right"),
            ]
        ],
        "each": (("cut_outs",), ("digits",)),
    },
    "a_learned_c_leaves_one_function": {
        "kind": "finding",
        "sentence": "With C learned, the best function of one number maps the back component to "
        "the true one better than the best affine map, whose R2 is lower than with C known",
        "where": "open question: unknown C",
        "chains": [
            [
                ("unknown_c", "learned/everything, 0 pixels known: back, any function"),
                ("unknown_c", "learned/everything, 0 pixels known: back, affine"),
            ],
            [
                ("unknown_c", "known/everything, 0 pixels known: back, affine"),
                ("unknown_c", "learned/everything, 0 pixels known: back, affine"),
            ],
        ],
    },
    "a_soft_surrogate_matters": {
        "kind": "finding",
        "sentence": "Trained through a step, a softer sigmoid ends higher, straight-through or "
        "smoothed",
        "where": "open question: C that is not differentiable",
        "chains": [
            [
                ("step_c", "{0}/everything, 3 sharpness: r2_all"),
                ("step_c", "{0}/everything, 10 sharpness: r2_all"),
                ("step_c", "{0}/everything, 30 sharpness: r2_all"),
            ]
        ],
        "each": (("straight_through",), ("smoothed",)),
    },
    "amplification_bounds_recorded_errors": {
        "kind": "finding",
        "sentence": "No recorded seed's squared error grows more outside its support than the "
        "amplification at a noise of 0.1 says",
        "computed": True,
        "where": "open question: approximate fit",
        "chains": [[1, ("bound", "noise 0.1: runs above the bound")]],
    },
    "the_bound_is_not_tight": {
        "kind": "finding",
        "sentence": "Fewer than half of these seeds come within a factor 5 of that bound",
        "computed": True,
        "where": "open question: approximate fit",
        "chains": [[0.5, ("bound", "noise 0.1: share within a factor 5")]],
    },
}

# Why ours does not match, and what could tell; `published.claims` describes the layout.
CAUSES = {
    "table.orthogonal_gap_": (
        "chance: the audit passes exactly the drawn values outside the gap; 136 of 256 are there "
        "in the recorded draw, two standard errors below 0.6",
        "more values: of 2,048 drawn ones 0.589 lie outside the gap and pass, and no other does",
    ),
    "table.diagonal_narrow_step_back_failing_pixels": (
        "unknown: perhaps chance, the difference is 1.8 sampling errors of 3.8; ours are exactly "
        "the pixels that the front sprite covers in all 48 partners, counted without a Jacobian "
        "too: 24.7 ± 0.7 in 1,000 values. The other implementation has 40 values; fewer than 2.5 % "
        "of draws of 40 have a mean below 17.9",
        "the other implementation with the same values and partners: with partners of any shape, "
        "for one, the mean would be 20.5 ± 0.8",
    ),
    "partners.delta_0.07_48_partners": (
        "chance: the share of the other implementation is of 60 values and has the error 0.06; of "
        "1,024 other values ours passes 0.43, one such error above 0.37",
        "the other implementation with 1,000 values",
    ),
}
