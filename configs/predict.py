"""Across papers: numbers of five theories before training, against the error after it.

    python -m cgjax.main --config=configs/across.py          all pairs of a model and a split
    python -m cgjax.main --config=configs/across.py:smoke    one small pair: tests the whole path

A pair is a row of a family's config with one model and one split; PAIRS below lists them with the
changes that make them small. A pair trains in a sub-folder of its name; a finished pair is read
from disk. `cgjax/experiments/across/README.md` defines each theory's number.
"""

from cgjax.config import split_variant
from cgjax.config.declare import base, declare, declare_parts, key

ROWS = {"demo": "What five theories say of networks before training, beside their error after it"}
KEYS = {
    "train.seeds": key((0, 1, 2), "replicas of each pair", low=0, high=2**32 - 1, is_axis=True),
    "pair.row": key("", "a row of a family: one model, one split"),
    "pair.changes": key((), "to that row's keys, as on the command line", items=str,
                        may_be_empty=True),
    "eval.n_train": key(256, "training inputs that theories use, at most", low=4),
    "eval.n_new": key(256, "new inputs for errors, at most", low=4),
    "eval.iterations": key(100, "of conjugate gradients, for the linearised network", low=1),
    "masks.keep": key(0.05, "share of the weights in each routine's mask", above=0, high=0.5),
}  # fmt: skip

VECTORS = (
    "data.n_train=1024",
    "data.sizes=1024",
    "data.batch=32",
    "data.n_draws=200",
    "eval.measures=()",
    "optim.lr=0.01",
    "train.steps=4000",
    "train.steps_per_call=1000",
    "train.log_every=1000",
    "eval.every=4000",
    "checkpoint.every=4000",
)
KERNELS = ("model.hidden=200",)
RICH, LAZY = ("model.scales=0.01", "optim.lrs=0.04"), ("model.scales=1.0", "optim.lrs=0.005")
BUMPS = (
    "data.encoding=onehot",
    "data.polarity=positive",
    "data.regions=donut_4_11",
    "eval.layers=false",
    "optim.lr=0.002",
    "train.steps=1000",
    "eval.every=1000",
    "checkpoint.every=1000",
)
BARE = (*BUMPS, "data.stripes=none", "data.copies=0")
STRIPED = (*BUMPS, "data.stripes=null_stripe", "data.copies=1")
NARROW = "model.mlp.width=128"
FIELDS = ("optim.lr=0.01", "optim.weight_decay=0.0")
PLANE = (
    "train.epochs=200",
    "eval.epochs=200",
    "eval.at=()",
    "eval.keep=()",
    "eval.n_points=500",
    "eval.n_jacobian=64",
    "eval.grid=9",
)
LANGUAGE = ("train.epochs=30", "eval.epochs=10", "checkpoint.epochs=30")


def without(changes, *names):
    """The changes, without those to the keys `names`."""
    return tuple(change for change in changes if change.partition("=")[0] not in names)


def network(name, changes, *more):
    """A decoder of bumps; the name comes first, because the network decides which keys exist."""
    return (f"model.name={name}", *without(changes, *(m.partition("=")[0] for m in more)), *more)


# Theories use fewer inputs of pairs that cost more.
FEWER = {"n_train": 64, "n_new": 96, "iterations": 50}

# pair: (row of its family, changes to it, changes to `eval` of this config)
PAIRS = {
    **{
        f"vectors_{model}_{support}": (f"vectors:{model}_{support}", VECTORS, {})
        for model, supports in (
            ("mlp", ("random", "diagonal", "orthogonal")),
            ("compositional", ("random", "diagonal", "orthogonal")),
            ("hessian", ("diagonal", "orthogonal")),
        )
        for support in supports
    },
    **{
        f"kernels_{regime}_{task}": (
            "kernels:addition_rich",
            (f"data.tasks={task}", *KERNELS, *scale),
            {},
        )
        for task in ("addition_extrapolation", "addition_interpolation", "cd_1", "cd_3", "te_2_2")
        for regime, scale in (("rich", RICH), ("lazy", LAZY))
    },
    **{
        f"bumps_{name}": ("bumps:phase", network(*changes), {})
        for name, changes in {
            "mlp": ("mlp", BARE, NARROW),
            "mlp_stripes": ("mlp", STRIPED, NARROW),
            "mlp_bump_code": ("mlp", BARE, NARROW, "data.encoding=bump"),
            "embedding": ("embed", BARE),
            "product": ("product", BARE, *FIELDS),
            "product_stripes": ("product", STRIPED, *FIELDS),
            "product_flat": ("product", BARE, *FIELDS, "reg.null_axis=0.001"),
            "profiles": ("product", BARE, *FIELDS, "model.product.stripes=true"),
        }.items()
    },
    **{
        f"plane_{name}_{setting}": (
            "resistance:plane",
            (f"data.settings={setting}", *PLANE, *changes),
            {},
        )
        for name, changes in (
            ("plain", ()),
            ("towers", ("model.towers=true",)),
            ("heads", ("model.heads=2",)),
        )
        for setting in ("A", "control")
    },
    **{
        f"language_{size}_{held_out}": (
            "subnetworks:joint",
            (f"data.held_out={held_out}", f"model.hidden={size}", *LANGUAGE),
            FEWER,
        )
        for size in (16, 32)
        for held_out in ("combinations", "words")
    },
}

# One pair at its family's smoke size: it tests the whole path, but gives no correlation.
SMOKE = {"kernels_lazy_cd_1": ("kernels:addition_rich,smoke", ("data.tasks=cd_1", *LAZY), {})}


def get_config(arg=""):
    """`arg` is "" or "<size>"."""
    row, size = split_variant(arg, ROWS)
    config = base("across")
    config.row, config.size = row, size
    declare(config, KEYS)
    if size == "smoke":
        config.train.seeds = (0, 1)
        config.eval.update({"n_train": 16, "n_new": 16, "iterations": 4})
    parts = SMOKE if size == "smoke" else PAIRS
    declare_parts(
        config,
        {
            name: {"pair": {"row": row, "changes": changes}, **({"eval": sizes} if sizes else {})}
            for name, (row, changes, sizes) in parts.items()
        },
    )
    return config


TIMES = {
    "default": "estimated ten minutes of CPU time, mostly compiling",
    "smoke": "seconds, mostly compiling",
    "fast": "as the default",
    "paper": "as the default",
}


def describe_rows():
    """One line per row for `--list`."""
    for name, doc in ROWS.items():
        yield {"name": name, "doc": doc, "times": TIMES, "expect": ""}
