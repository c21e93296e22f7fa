"""Our own findings on how many combinations must be seen, and which; no paper has these numbers.

Held-out R2 of 0.8 counts as composition, as in `configs/coverage.py`. Literals only.
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
_EVERY = (
    ("addition", "mlp"),
    ("addition", "transformer"),
    ("bumps", "mlp"),
    ("bumps", "transformer"),
    ("sprites", "mlp"),
    ("sprites", "transformer"),
    ("teacher", "mlp"),
    ("teacher", "transformer"),
)

# Claims in words; `published.claims` describes the layout.
CLAIMS = {
    "two_blocks_stay_apart": {
        "kind": "own",
        "sentence": "Where no known combination joins two blocks of values, networks of the least "
        "and of the greatest width do not compose across the blocks, with all other combinations "
        "known",
        "where": _WHERE,
        "each": _EVERY,
        "chains": [
            [0.8, ("{0}", "{0}_{1}/blocks, all known: held-out R2")],
            [0.8, ("{0}", "{0}_{1}/blocks, least width: held-out R2")],
        ],
    },
    "bridges_help": {
        "kind": "own",
        "sentence": "Sets of one size compose better across the blocks if some combinations join "
        "the blocks",
        "where": _WHERE,
        "each": _EVERY,
        "chains": [
            [
                ("{0}", "{0}_{1}/blocks, most bridges: held-out R2"),
                ("{0}", "{0}_{1}/blocks, all known: held-out R2"),
            ]
        ],
    },
    "one_bridge_is_not_enough": {
        "kind": "own",
        "sentence": "One combination that joins two blocks connects the graph, and networks still "
        "do not compose across the blocks",
        "where": _WHERE,
        "each": _EVERY,
        "chains": [[0.8, ("{0}", "{0}_{1}/blocks, one bridge: held-out R2")]],
    },
    "permuted_targets_do_not_carry_over": {
        "kind": "own",
        "sentence": "With targets permuted over combinations nothing composes, whatever is known",
        "where": _WHERE,
        "each": _EVERY,
        "chains": [[0.8, ("{0}", "{0}_{1}/permuted, all known: held-out R2")]],
    },
}
