"""Predict: which theory predicts what composes? A benchmark on models of all five papers.

    python -m cgjax.main --config=configs/predict.py             twenty pairs of a model and a task
    python -m cgjax.main --config=configs/predict.py:demo,paper  all pairs, three seeds each
    python -m cgjax.main --config=configs/predict.py:later,paper pairs that were added later
    python -m cgjax.main --config=configs/predict.py:pretrained  frozen pretrained layers
    python -m cgjax.main --config=predict --config.eval.own=mine:norm   with a predictor of your own

A program trains all seeds of several pairs at once, in a sub-folder of its name; PROGRAMS below
lists them as rows of the families' configs with the changes that make them small. A finished
program is read from disk. `cgjax/experiments/predict/rules.toml` defines every predictor.
"""

from cgjax.config import split_variant
from cgjax.config.declare import base, declare, declare_parts, key

ROWS = {
    "demo": "Thirteen predictors on trained networks: which one tells what composes?",
    "later": "The same on pairs that were added later: digits, SCAN, images, pretrained BERT",
    "pretrained": "The same on frozen pretrained layers with linear probes",
}
KEYS = {
    "train.seeds": key((0, 1, 2), "replicas of each pair", low=0, high=2**32 - 1, is_axis=True),
    "pair.row": key("", "a row of a family, which is one program"),
    "pair.changes": key((), "to that row's keys, as on the command line", items=str,
                        may_be_empty=True),
    "eval.n_train": key(256, "training inputs that predictors use, at most", low=4),
    "eval.n_new": key(256, "unseen inputs for scores, at most", low=4),
    "eval.iterations": key(100, "of conjugate gradients, for the linearised network", low=1),
    "eval.own": key("", "your predictors: module:function, separated by commas"),
}  # fmt: skip

PRETRAINED_KEYS = {
    "train.seeds": key((0, 1, 2, 3), "draws of the known combinations", low=0, high=2**32 - 1,
                       is_axis=True),
    "pretrained.backbones": key(("efficientnet_lite0",), "networks with trained weights",
                                choices=("efficientnet_lite0", "resnet50", "vgg16", "minilm")),
    "pretrained.sets": key(("shapes", "sprites"), "factor sets",
                           choices=("shapes", "sprites", "digits", "objects", "words")),
    "pretrained.seen": key((2, 4), "known values of the second factor with each of the first",
                           low=1),
    "pretrained.side": key(96, "side of the images in pixels", choices=(64, 96, 128, 160, 224)),
    "pretrained.repeats": key(6, "inputs of each combination", low=2, high=12),
}  # fmt: skip
PRETRAINED_SIZES = {
    "smoke": {"sets": ("sprites",), "seen": (4,), "side": 64, "repeats": 2},
    "paper": {
        "backbones": ("efficientnet_lite0", "resnet50", "vgg16", "minilm"),
        "sets": ("shapes", "sprites", "digits", "objects", "words"), "seen": (1, 2, 4),
    },
}  # fmt: skip


def length(steps, every=None):
    """Training of so many steps, in calls of `every`."""
    every = every or steps
    names = ("train.steps_per_call", "train.log_every", "eval.every", "checkpoint.every")
    return (f"train.steps={steps}", *(f"{name}={every}" for name in names))


SPRITES = ("data.image_size=16", "optim.lr=0.003", *length(1500))
SLOTS = (*SPRITES, "model.component.hidden=64")
ADDITION = (
    "extrapolation", "asymmetric", "interpolation", "both", "interpolation_3", "extrapolation_3",
    "dispersed_0", "dispersed_1",
)  # fmt: skip
RICH_AND_LAZY = ("model.hidden=200", "model.scales=(0.01,1.0)", "optim.lrs=(0.04,0.005)")
BUMPS = (
    "data.encoding=onehot", "data.polarity=positive", "data.n=12",
    "data.regions=('donut_3_8','corner_5','cross_4_7')", "data.copies=(0,1)",
    "eval.layers=false", "optim.lr=0.002", *length(1500),
)  # fmt: skip
FIELDS = ("optim.lr=0.01", "optim.weight_decay=0.0")
PENALTIES = ("reg.null_axis=(0.0,0.001)", "reg.nuclear=(0.0,0.0)", "reg.lam_entropy=(0.0,0.0)",
             "reg.vec_variance=(0.0,0.0)", "reg.rank_tail=(0.0,0.0)",
             "reg.factor_axis=(0.0,0.0)")  # fmt: skip
PLANE = (
    "data.settings=A", "train.epochs=200", "eval.epochs=200", "eval.at=()", "eval.keep=()",
    "eval.n_points=500", "eval.n_jacobian=64", "eval.grid=9", "model.scales=(0.3,1.0)",
    "model.bias_stds=(0.0,0.0)",
)  # fmt: skip
LANGUAGE = ("train.epochs=30", "eval.epochs=10", "checkpoint.epochs=30")


def replaced(changes, *more):
    """The changes, of which `more` replaces those to the same keys."""
    names = {change.partition("=")[0] for change in more}
    return (*(c for c in changes if c.partition("=")[0] not in names), *more)


def network(name, *more):
    """A decoder of bumps; the name comes first, because the network decides which keys exist."""
    return (f"model.name={name}", *replaced(BUMPS, *more))


def tasks(*names):
    """Training sets of one program of dense networks."""
    return f"data.tasks=({','.join(repr(name) for name in names)},)"


# Predictors use fewer inputs of pairs that cost more.
FEWER = {"n_train": 64, "n_new": 96, "iterations": 50}
SOME = {"n_train": 128, "n_new": 96, "iterations": 30}

# program: (row of its family, changes to it, changes to `eval` of this config)
PROGRAMS = {
    "sprites_compositional": ("sprites:orthogonal_compositional", SLOTS, {}),
    "sprites_learned": (
        "sprites:orthogonal_compositional", (*SLOTS, "model.composition=learned_mlp"), {},
    ),
    "sprites_monolithic": (
        "sprites:orthogonal_monolithic", (*SPRITES, "model.monolith.hidden=128"), {},
    ),
    "kernels_addition": (
        "kernels:addition_rich",
        (tasks(*(f"addition_{name}" for name in ADDITION)), *RICH_AND_LAZY), {},
    ),
    "kernels_addition_deep": (
        "kernels:addition_rich",
        (tasks(*(f"addition_{name}" for name in ADDITION[:4])), "model.depth=2",
         *replaced(RICH_AND_LAZY, "model.scales=(0.3,1.0)")), {},
    ),
    "kernels_context": (
        "kernels:addition_rich", (tasks("cd_1", "cd_2", "cd_3"), *RICH_AND_LAZY), {},
    ),
    "kernels_equivalence": ("kernels:addition_rich", (tasks("te_2_2"), *RICH_AND_LAZY), {}),
    "bumps_mlp": ("bumps:phase", network("mlp", "model.mlp.width=128"), {}),
    "bumps_mlp_bump_code": (
        "bumps:phase", network("mlp", "model.mlp.width=128", "data.encoding=bump"), {},
    ),
    "bumps_embedding": (
        "bumps:phase",
        network("embed", *PENALTIES, "data.copies=0", "data.stripes=none", *length(1000)), {},
    ),
    "bumps_product": ("bumps:phase", network("product", *FIELDS, *PENALTIES), {}),
    "bumps_profiles": (
        "bumps:phase", network("product", *FIELDS, "model.product.stripes=true"), {},
    ),
    "plane_plain": (
        "resistance:plane", (*PLANE, "reg.penalties=(0.0,0.01,0.1)"), {},
    ),
    "plane_towers": (
        "resistance:plane", (*PLANE, "model.towers=true", "reg.penalties=(0.0,0.1)"), {},
    ),
    "plane_wide": (
        "resistance:plane", (*PLANE, "model.width=32", "reg.penalties=(0.0,0.1)"), {},
    ),
    "plane_heads": ("resistance:plane", (*PLANE, "model.heads=2"), {}),
    "plane_few": (
        "resistance:plane", (*PLANE, "data.n_points=60", "reg.penalties=(0.0,0.1)"), {},
    ),
    **{
        f"language_{number}_{held_out}_{size}": (
            "subnetworks:joint",
            (f"data.number={number}", f"data.held_out={held_out}", f"model.hidden={size}",
             *LANGUAGE), FEWER,
        )
        for number in ("singular", "plural")
        for held_out in ("combinations", "words")
        for size in (16, 32)
    },
}  # fmt: skip

DIGITS = (
    "data.widths=(2,3,5)", "eval.inputs=train", "eval.n_samples=50", "eval.n_jacobian=0",
    "eval.n_information=0", "eval.at=()", "data.batch=32", *length(300),
)  # fmt: skip
SCAN = ("data.settings=A", "data.batch=64", "eval.at=()", *length(600))
IMAGES = (
    "data.n_total=2000", "data.n_val=20", "data.n_pool=50", "optim.optimiser=adam",
    "optim.lr=0.001", "train.epochs=12", "eval.epochs=12", "checkpoint.epochs=12",
)  # fmt: skip
MINILM = (
    "model.start=pretrained", "data.tokens=wordpiece", "model.hidden=384", "model.layers=6",
    "model.heads=12", "optim.lr=0.0001", "data.n_train=200", "data.n_val=20", "data.n_test=50",
    "data.batch=16", "train.epochs=2", "eval.epochs=2", "checkpoint.epochs=2",
)  # fmt: skip

# Pairs that were added after the others were scored: blocks of their own.
LATER = {
    **{
        f"digits_{name}": ("resistance:mnist", (*DIGITS, *changes), SOME)
        for name, changes in {
            "appendix": (),
            "deep": ("model.arch=three_conv",),
            "towers": ("model.arch=three_conv", "model.towers=true"),
            "heads": ("model.arch=three_conv", "model.heads=2"),
        }.items()
    },
    **{
        f"scan_{size}": ("resistance:scan", (*SCAN, f"model.encoder={size}"), SOME)
        for size in (8, 16, 32)
    },
    **{
        f"images_{task}_{distance}": (
            "kernels:addition_mnist",
            (f"data.tasks={task}", f"data.distances={distance}", *IMAGES), SOME,
        )
        for task in ("addition_extrapolation", "addition_interpolation", "addition_both", "cd_1",
                     "cd_3")
        for distance in (0, 20)
    },
    **{
        f"minilm_{number}_{held_out}": (
            "subnetworks:joint",
            (f"data.number={number}", f"data.held_out={held_out}", *MINILM), FEWER,
        )
        for number in ("singular", "plural")
        for held_out in ("combinations", "words")
    },
}  # fmt: skip

# Twenty pairs at default size; one program at its family's smoke size tests the path.
DEFAULT = ("sprites_compositional", "kernels_context", "plane_plain")
SMOKE = {
    "kernels_context": (
        "kernels:addition_rich,smoke",
        (tasks("cd_1"), "model.scales=(0.01,1.0)", "optim.lrs=(0.04,0.005)"), {},
    ),
}  # fmt: skip
LATER_DEFAULT = ("scan_8",)  # needs no data set
LATER_SMOKE = {"scan": ("resistance:scan,smoke", ("data.settings=A",), {})}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    config = base("predict")
    config.row, config.size = row, size
    if row == "pretrained":
        declare(config, PRETRAINED_KEYS)
        config.pretrained.update(PRETRAINED_SIZES.get(size, {}))
        if size == "smoke":
            config.train.seeds = (0,)
        return config
    declare(config, KEYS)
    if size == "smoke":
        config.train.seeds = (0, 1)
        config.eval.update({"n_train": 16, "n_new": 16, "iterations": 4})
    every, few, least = (
        (LATER, LATER_DEFAULT, LATER_SMOKE) if row == "later" else (PROGRAMS, DEFAULT, SMOKE)
    )
    programs = {"smoke": least, "default": {name: every[name] for name in few}}
    declare_parts(
        config,
        {
            name: {"pair": {"row": row, "changes": changes}, **({"eval": sizes} if sizes else {})}
            for name, (row, changes, sizes) in programs.get(size, every).items()
        },
    )
    return config


TIMES = {
    "default": "four to seven minutes on two CPU cores, mostly compiling",
    "smoke": "seconds, mostly compiling",
    "fast": "as paper",
    "paper": "six minutes on 16 CPU cores, a process for each program: 40 minutes of CPU time",
}


LATER_TIMES = {
    "default": "not measured on quiet cores",
    "smoke": "seconds, mostly compiling",
    "fast": "as paper",
    "paper": "not measured as a whole; MiniLM about five minutes of CPU time a pair",
}


def describe_rows():
    """One line per row for `--list`."""
    for name, doc in ROWS.items():
        times = LATER_TIMES if name == "later" else TIMES
        yield {"name": name, "doc": doc, "times": times, "expect": ""}
