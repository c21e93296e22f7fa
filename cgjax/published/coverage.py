"""Our own findings on how many combinations must be seen, and which; no paper has these numbers.

Held-out R2 of 0.8 counts as composition, as in `configs/coverage.py`. Parts whose networks do not
fit their training sets (transformers on images) are in no claim. Literals only.
"""

PAPER = ""

ROWS = {
    "addition": "Combinations needed for addition tables",
    "bumps": "Combinations needed for bumps",
    "sprites": "Combinations needed for a front and a back sprite",
    "teacher": "Combinations of modules needed to imitate a hypernetwork",
}

TABLES = ()

_WHERE = "open question: scaling of coverage"
_BOTH = ("mlp", "transformer")

# Claims in words; `published.claims` describes the layout.
CLAIMS = {
    "addition_is_linear": {
        "kind": "finding",
        "sentence": "Combinations needed for addition grow linearly with the number of values "
        "(exponent 1, to 0.25), not with their square",
        "where": _WHERE,
        "each": _BOTH,
        "equal": [[("addition", "addition_{0}/n: exponent of each seed"), 1.0]],
        "tolerance": 0.25,
    },
    "sprites_grow_below_square": {
        "kind": "finding",
        "sentence": "Combinations of sprites that an MLP needs grow more slowly than the power 1.5 "
        "of the number of values",
        "where": _WHERE,
        "chains": [[1.5, ("sprites", "sprites_mlp/n: exponent of each seed")]],
    },
    "modules_grow_below_square": {
        "kind": "finding",
        "sentence": "Combinations of modules needed to imitate a hypernetwork grow more slowly "
        "than the square of their number, though all combinations grow exponentially",
        "where": _WHERE,
        "each": _BOTH,
        "chains": [[2.0, ("teacher", "teacher_{0}/n: exponent of each seed")]],
    },
    "bumps_need_a_share": {
        "kind": "finding",
        "sentence": "On bumps an MLP with 80 % of the table does not pass R2 0.8, and combinations "
        "needed for R2 0.5 grow faster than the power 1.5 of the number of values",
        "where": _WHERE,
        "chains": [
            [("bumps", "bumps_mlp/n, R2 0.5: exponent of each seed"), 1.5],
            [0.8, ("bumps", "bumps_mlp/connected, all known: held-out R2")],
        ],
    },
    "width_replaces_no_data": {
        "kind": "finding",
        "sentence": "Combinations needed for addition do not depend on the width, over a factor of "
        "8 (exponent 0, to 0.2)",
        "where": _WHERE,
        "each": _BOTH,
        "equal": [[("addition", "addition_{0}/width: exponent of each seed"), 0.0]],
        "tolerance": 0.2,
    },
    "two_blocks_of_addition_stay_apart": {
        "kind": "finding",
        "sentence": "On addition, where no known combination joins two blocks of values, networks "
        "of the least and of the greatest width do not compose across the blocks (R2 below 0.8)",
        "where": _WHERE,
        "each": _BOTH,
        "chains": [
            [0.8, ("addition", "addition_{0}/blocks, all known: held-out R2")],
            [0.8, ("addition", "addition_{0}/blocks, least width: held-out R2")],
        ],
    },
    "two_blocks_of_modules_stay_apart": {
        "kind": "finding",
        "sentence": "Where no known combination joins two blocks of modules, networks do not "
        "compose across the blocks (R2 below 0.8)",
        "where": _WHERE,
        "each": _BOTH,
        "chains": [[0.8, ("teacher", "teacher_{0}/blocks, all known: held-out R2")]],
    },
    "two_blocks_of_sprites_compose": {
        "kind": "finding",
        "sentence": "On sprites an MLP composes across blocks that no known combination joins "
        "(R2 above 0.8)",
        "where": _WHERE,
        "chains": [[("sprites", "sprites_mlp/blocks, all known: held-out R2"), 0.8]],
    },
    "one_bridge_of_addition_is_not_enough": {
        "kind": "finding",
        "sentence": "On addition one combination that joins two blocks raises R2 across them and "
        "does not suffice (R2 below 0.8)",
        "where": _WHERE,
        "each": _BOTH,
        "chains": [
            [
                0.8,
                ("addition", "addition_{0}/blocks, one bridge: held-out R2"),
                ("addition", "addition_{0}/blocks, all known: held-out R2"),
            ]
        ],
    },
    "bridges_of_modules_help": {
        "kind": "finding",
        "sentence": "Of sets of one size, the one in which the most combinations join two blocks "
        "of modules has a higher R2 across them than the one without any",
        "where": _WHERE,
        "each": _BOTH,
        "chains": [
            [
                ("teacher", "teacher_{0}/blocks, most bridges: held-out R2"),
                ("teacher", "teacher_{0}/blocks, all known: held-out R2"),
            ]
        ],
    },
    "permuted_targets_do_not_carry_over": {
        "kind": "finding",
        "sentence": "With targets permuted over combinations nothing composes, though all that can "
        "be trained is known (R2 below 0.8)",
        "where": _WHERE,
        "each": (
            ("addition", "mlp"),
            ("addition", "transformer"),
            ("bumps", "mlp"),
            ("sprites", "mlp"),
            ("teacher", "mlp"),
            ("teacher", "transformer"),
        ),
        "chains": [[0.8, ("{0}", "{0}_{1}/permuted, all known: held-out R2")]],
    },
}
