"""Kernels: additivity, memorization leak, shortcut bias (Lippl and Stachenfeld 2025).

    python -m cgjax.main --config=configs/kernels.py                 dense networks, rich and lazy
    python -m cgjax.main --config=configs/kernels.py:<row>[,<size>]  one study

Closed-form rows have one size and take seconds to minutes; network rows have the usual sizes.

The row `demo` shows the paper's claim on dense networks (thirty seeds; two minutes on two CPU
cores). Slope of lazy networks: 0.743 on extrapolation, 0.855 on interpolation (paper: 0.746,
0.848). Slope of rich networks: 0.763, 0.998, and 0.366 on asymmetric (paper: 0.761, 0.994, 0.368).
Accuracy on transitive equivalence: rich 1, lazy 0.51.
"""

from cgjax.config import split_variant
from cgjax.config.declare import (
    base,
    declare,
    declare_parts,
    declare_training,
    key,
    names_in,
    undeclare,
)
from cgjax.experiments.kernels.tasks import ADDITION_SETS as ADDITION
from cgjax.experiments.kernels.tasks import ANCHOR_SETS as ANCHORS
from cgjax.experiments.kernels.tasks import CD_SETS as CD
from cgjax.experiments.kernels.tasks import DISPERSED_SETS as DISPERSED
from cgjax.experiments.kernels.tasks import is_task
from cgjax.published import PUBLISHED

LOSSES = names_in("experiments.kernels.scores", "LOSSES")

EQUIVALENCE = ("te_5_5_hubs_1", "te_5_5_hubs_4")
SCALES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)

# The paper searches for a learning rate in each run. Here each scale has one rate, which reaches
# `optim.stop`. Only the solution is analysed, not the path.
ADDITION_LRS = (0.04,) * 5 + (0.02, 5e-3)
RICH_AND_LAZY = {"model": {"scales": (1e-6, 1.0)}}
ADDITION_PART = {"data": {"tasks": ADDITION}, "optim": {"lrs": (0.04, 5e-3)}, **RICH_AND_LAZY}
# 1,000 units, as in the paper's text; its configuration files have 10,000.
EQUIVALENCE_PART = {
    "data": {"tasks": ("te_2_2",)},
    "optim": {"lrs": (0.1, 1e-3), "stop": 1e-6},
    "train": {"steps_per_call": 10, "log_every": 10},
    "eval": {"every": 10},
    **RICH_AND_LAZY,
}
# Depth changes the program, so each depth is a part. Networks reach the published loss long before
# the paper's 100,000 steps; the limit here is 20,000. Everything else is as published, except the
# fixed rate of cd_deep and te_deep. The paper's settings of te_deep are not published.
DEPTHS = {f"depth_{depth}": {"model": {"depth": depth}} for depth in (1, 2, 3, 4)}
DEEP = {
    "parts": DEPTHS, "model.hidden": 100, "model.scales": (0.1,), "optim.optimiser": "adam",
    "optim.lrs": (1e-4,), "train.steps": 20_000, "train.steps_per_call": 100,
    "train.log_every": 100, "eval.every": 100, "checkpoint.every": 5000,
}  # fmt: skip
# Published settings of each image data set and each network.
MNIST = {
    "data.images": "mnist", "data.n_pool": 200, "data.n_total": 20_000,
    "data.distances": (0, 5, 10, 15, 20),
}  # fmt: skip
CIFAR = {
    "data.images": "cifar10", "data.n_pool": 4000, "data.n_total": 40_000, "data.augment": True,
}  # fmt: skip
CIFAR_DISTANCES = (0, 8, 16, 24)  # whole patches of the ViT
CONVNET = {
    "model.net": "convnet", "optim.optimiser": "sgd", "optim.lr": 1e-4, "train.epochs": 100,
    "eval.layers": (2, 5, 8, 11, 13, 16, 18), "eval.layer": 11,
}  # fmt: skip
RESNET = {
    "model.net": "resnet", "optim.optimiser": "adam", "optim.lr": 1e-3, "train.epochs": 100,
    "eval.layers": (1, 3, 5, 7, 9, 10), "eval.layer": 9,
}  # fmt: skip
VIT = {
    "model.net": "vit", "optim.optimiser": "adam", "optim.lr": 1e-4, "train.epochs": 200,
    "eval.layers": (1, 2, 3, 4, 5, 6), "eval.layer": 5,
}  # fmt: skip
NETWORKS = {"convnet": CONVNET, "resnet": RESNET, "vit": VIT}
TINY = {  # sizes of the networks of `smoke`
    "convnet": {"channels": (4, 4, 4, 4), "hidden": (8, 8)},
    "resnet": {"channels": (4, 4, 4, 4)},
    "vit": {},
}
LOGISTIC = {"optim.loss": "logistic"}
CD_MNIST = {**MNIST, **CONVNET, "data.tasks": CD, "data.n_total": 30_000}
TE_MNIST = {**MNIST, **CONVNET, "data.tasks": EQUIVALENCE, "train.epochs": 150}

# row: (what it shows, study, changes). The "parts" of a dense study are trained one after another,
# each with its own keys, in a sub-folder of its name.
ROWS = {
    "demo": (
        "30 rich and 30 lazy networks: slopes of new sums; only rich networks solve TE",
        "dense",
        {
            "parts": {"addition": ADDITION_PART, "equivalence": EQUIVALENCE_PART},
            "train.seeds": tuple(range(30)),
        },
    ),
    "tasks": ("Training combinations and targets of the tasks", "tasks", {}),
    "salience": ("Salience of conjunctions by depth of a wide random network", "salience", {}),
    "leak": ("Memorization leak in closed form: slope by salience and anchors", "leak", {}),
    "partial": ("Margins of invariance and partial exposure in closed form", "partial", {}),
    "phase": ("Which kernels solve CD-1, CD-2 and CD-3: shortcut bias", "phase", {}),
    "context_share": (
        "Shortcut bias if the context is a larger or smaller part of the input than a feature",
        "context_share",
        {"data.n_saliences": 45},
    ),
    "transitive": (
        "No kernel solves transitive equivalence; every kernel solves transitive ordering",
        "transitive",
        {},
    ),
    "perturbed": (
        "Additivity and slope of kernels that are not quite compositional, by their spread",
        "perturbed",
        {},
    ),
    "design": (
        "Training pairs and saliences chosen to reduce the leak, against the paper's training sets",
        "design",
        {},
    ),
    "magnitudes": ("Values by type of conjunction in a machine's solution of CD", "magnitudes", {}),
    "dispersed": ("Addition without anchors: error by salience, 50 training sets", "dispersed", {}),
    "addition_rich": (
        "Dense networks on addition from rich to lazy",
        "dense",
        {"data.tasks": ADDITION, "model.scales": SCALES, "optim.lrs": ADDITION_LRS},
    ),
    "addition_anchors": (
        "Dense networks on addition by number of anchors, p = 1 to 4 (anchors: our choice)",
        "dense",
        {"data.tasks": ANCHORS, "optim.lrs": (0.04, 5e-3), "model.scales": (1e-6, 1.0)},
    ),
    "addition_deep": (
        "Dense networks on addition by depth",
        "dense",
        {**DEEP, "data.tasks": ADDITION},
    ),
    "cd_rich": (
        "Context dependence from rich to lazy: regression solves CD-3, logistic takes the shortcut",
        "dense",
        {
            "data.tasks": CD,
            "model.scales": SCALES,
            "train.steps": 5000,
            "train.seeds": (0, 1, 2),
            "parts": {
                "mse": {"optim": {"loss": "mse", "lrs": (0.1,) * 5 + (0.05, 5e-3)}},
                "logistic": {
                    "optim": {"loss": "logistic", "lrs": (1.0,) * 5 + (0.5, 0.2), "stop": 1e-3}
                },
            },
        },
    ),
    "cd_deep": (
        "Context dependence by depth: memorization grows",
        "dense",
        {**DEEP, "data.tasks": CD, "optim.loss": "logistic"},
    ),
    "te_rich": (
        "Transitive equivalence: rich networks solve it, no kernel does",
        "dense",
        {
            "parts": {
                "mse": EQUIVALENCE_PART,
                "logistic": EQUIVALENCE_PART
                | {"optim": {"loss": "logistic", "lrs": (0.5, 0.15), "stop": 1e-3}},
            }
        },
    ),
    "te_deep": (
        "Transitive equivalence by depth",
        "dense",
        {
            **DEEP,
            "data.tasks": ("te_2_2",),
            "optim.loss": "logistic",
            "train.seeds": tuple(range(30)),  # five times the paper's six: see `group_means`
            # Every step in which all pairs may be correct for the first time.
            "train.steps_per_call": 1,
            "train.log_every": 1,
            "eval.at": tuple(range(1, 1001)),
        },
    ),
    "frozen": (
        "Readouts of frozen features: initial ones act as kernels, trained ones as their networks",
        "dense",
        {
            "eval.frozen": True,
            "parts": {
                "addition": ADDITION_PART,
                "equivalence": EQUIVALENCE_PART,
                "readout": {
                    "data": {"tasks": ADDITION},
                    "model": {"trained": "readout"},
                    "optim": {"lrs": (5e-3,), "stop": 1e-6},
                },
            },
        },
    ),
    "addition_mnist": (
        "ConvNets add digits: the leak shrinks values, less if digits are further apart",
        "images",
        {**MNIST, **CONVNET, "data.tasks": ADDITION},
    ),
    "addition_mnist_dispersed": (
        "ConvNets add digits without anchors: three dispersed training sets",
        "images",
        {**MNIST, **CONVNET, "data.tasks": DISPERSED},
    ),
    "addition_mnist_anchors": (
        "ConvNets add digits by number of anchors, p = 1 to 4 (anchors: our choice)",
        "images",
        {**MNIST, **CONVNET, "data.tasks": ANCHORS},
    ),
    "cd_mnist": (
        "ConvNets on context dependence: the shortcut wins on CD-3 if digits are apart",
        "images",
        {**CD_MNIST, **LOGISTIC},
    ),
    "cd_mnist_mse": ("ConvNets on context dependence, squared error", "images", CD_MNIST),
    "te_mnist": (
        "ConvNets on transitive equivalence, which no kernel solves: one or four hubs per class",
        "images",
        {**TE_MNIST, **LOGISTIC},
    ),
    "te_mnist_mse": ("ConvNets on transitive equivalence, squared error", "images", TE_MNIST),
    "salience_mnist": (
        "Untrained ConvNets: salience by number of images, with and without self-products",
        "untrained",
        {**MNIST, **CONVNET, "data.tasks": ADDITION[:1], "data.distances": (0, 20)},
    ),
    **{
        f"salience_cifar_{net['model.net']}": (
            f"{title} salience by number of images, with and without self-products",
            "untrained",
            {**CIFAR, **net, "data.tasks": ADDITION[:1]},
        )
        for net, title in ((RESNET, "Untrained ResNets:"), (VIT, "Untrained ViTs:"))
    },
    **{
        f"{name}_cifar_{net['model.net']}": (
            f"{title} {what}",
            "images",
            {**CIFAR, **net, **changes},
        )
        for net, title in ((RESNET, "A ResNet:"), (VIT, "A vision transformer:"))
        for name, what, changes in (
            ("addition", "addition of CIFAR-10 images", {"data.tasks": ADDITION}),
            ("cd", "context dependence of CIFAR-10 images", {"data.tasks": CD, **LOGISTIC}),
            ("te", "transitive equivalence of CIFAR-10 images (not in the paper)",
             {"data.tasks": EQUIVALENCE, **LOGISTIC}),
            ("distances", "addition of CIFAR-10 images by distance (pixels: our choice)",
             {"data.tasks": ADDITION, "data.distances": CIFAR_DISTANCES}),
        )
    },
}  # fmt: skip

# By kind of study. Closed forms have one size. So do dense networks, except that cd_rich has six
# seeds instead of three at `paper`.
_SAME = {"fast": "as the default", "paper": "as the default"}
TIMES = {
    "untrained": {"default": "minutes on two CPU cores", "smoke": "seconds",
                  "fast": "as the default", "paper": "not measured; ten seeds instead of three"},
    "closed forms": {"default": "seconds to minutes on two CPU cores", "smoke": "seconds", **_SAME},
    "dense": {"default": "minutes on two CPU cores (demo: 2)", "smoke": "seconds",
              **_SAME},
    "images": {"default": "minutes on two CPU cores", "smoke": "seconds, mostly compiling",
               "fast": "7 minutes for each task and distance on one H200 (ResNet 1.5 to 3, ViT 8)",
               "paper": "MNIST: 3 to 17 minutes for each task and distance on one H200, the longer "
                        "ones beside other runs; ResNet 18 and ViT 42, scaled by seeds"},
}  # fmt: skip


# The metric of a row in `--list`, if it is not the first published one.
EXPECT = {
    "phase": "all three solved", "cd_mnist": "cd_3, d=20: comp accuracy",
    "cd_cifar_resnet": "cd_3, d=0: comp accuracy", "cd_cifar_vit": "cd_3, d=0: comp accuracy",
}  # fmt: skip


# --- keys of each kind of study, besides those of the training loop -------------------------------

# Closed-form studies and their keys.
DEPTH = {"data.depth": key(20, "layers of the random networks", low=1)}
SALIENCES = {"data.n_saliences": key(51, "saliences along an axis", low=2)}
N_GRID = {"data.n_grid": key(50, "kernels along each side of the phase map", low=3)}
SETS = {
    "data.training_sets": key(
        tuple(range(1, 51)), "seeds of dispersed training sets", low=0, distinct=True
    )
}
CLOSED_FORMS = {
    "tasks": {}, "leak": {}, "partial": {}, "transitive": {}, "magnitudes": {},
    "salience": DEPTH, "phase": N_GRID, "context_share": SALIENCES | DEPTH, "perturbed": SETS,
    "design": SETS, "dispersed": SALIENCES | SETS,
}  # fmt: skip
DENSE = {
    "data.tasks": key(ADDITION, "training sets on the same grid", test=is_task, wanted="tasks",
                      distinct=True),
    "model.hidden": key(1000, "width of the hidden layers", low=1),
    "model.depth": key(1, "hidden layers", low=1),
    "model.scales": key((1.0,), "scales of the initial weights, rich to lazy", above=0,
                        distinct=True, is_traced=True),
    "model.trained": key("all", "trained layers: all, or only the readout, from zero",
                         choices=names_in("experiments.kernels.dense", "TRAINED")),
    "optim.lrs": key((2e-3,), "learning rate of every scale", above=0, is_traced=True),
    "optim.loss": key("mse", "minimised loss", choices=LOSSES),
    "optim.optimiser": key("gd", "optimiser, on full batches", choices=("gd", "adam")),
    "optim.stop": key(1e-4, "training loss at which a network stops", low=0),
    # The paper's means exclude these networks too.
    "eval.converged": key(1e-3, "networks with a larger final training loss are excluded", above=0),
    "eval.frozen": key(False, "also fit readouts of features before and after training"),
}  # fmt: skip
IMAGES = {
    "data.tasks": key(ADDITION, "training sets", test=is_task, wanted="tasks", distinct=True),
    "data.images": key("mnist", "data set", choices=("mnist", "cifar10")),
    "data.distances": key((0,), "pixels between images", low=0, high=64, distinct=True),
    "data.n_pool": key(200, "training images of each class", low=1),
    "data.n_total": key(20_000, "training samples, over the training combinations", low=1),
    "data.n_val": key(100, "samples of each combination in each validation set", low=1),
    "data.batch": key(128, "samples per step", low=1),
    "data.augment": key(False, "crop and flip training images at random"),
    "data.synthetic": key(
        0, "synthetic images that replace the data set; 0: use the data set", low=0
    ),
    "model.net": key("convnet", "network", choices=names_in("experiments.kernels.images", "NETS")),
    "model.dtype": key("float32", "dtype of activations", choices=("float32", "bfloat16")),
    "optim.lr": key(1e-4, "learning rate", above=0, is_traced=True),
    "optim.loss": key("mse", "minimised loss", choices=LOSSES),
    "optim.optimiser": key("sgd", "optimiser; sgd has momentum 0.9", choices=("sgd", "adam")),
    "eval.layers": key((2,), "layers whose kernels are analysed", low=0, distinct=True),
    "eval.layer": key(0, "layer of the metrics", low=0),
    "eval.ntk": key(0, "samples of each combination in tangent kernels; 0: none", low=0),
}
# Of studies that look at networks before training.
UNTRAINED = {
    **{name: IMAGES[name] for name in (
        "data.tasks", "data.images", "data.distances", "data.n_pool", "data.n_total", "data.n_val",
        "data.synthetic", "model.net", "model.dtype", "eval.layer",
    )},
    "train.seeds": key((0,), "one network each", low=0, high=2**32 - 1, is_axis=True),
    "eval.n_images": key((4, 11, 30), "images of each combination", low=2, distinct=True),
}  # fmt: skip
SIZES_OF = {
    "convnet": {
        "model.convnet.channels": key((32, 32, 64, 64), "channels of the convolutions", low=1),
        "model.convnet.hidden": key((512, 1024), "widths of the dense layers", low=1),
    },
    "resnet": {"model.resnet.channels": key((16, 32, 64, 128), "channels of the blocks", low=1)},
    "vit": {
        "model.vit.dim": key(256, "dimension of tokens", low=1),
        "model.vit.depth": key(4, "blocks", low=1),
        "model.vit.heads": key(6, "attention heads", low=1),
        "model.vit.head_dim": key(64, "dimension of each head", low=1),
        "model.vit.mlp_dim": key(256, "width of the dense layers", low=1),
    },
}


# --- configs --------------------------------------------------------------------------------------


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    _, study, changes = ROWS[row]
    config = base("kernels")
    with config.unlocked():
        config.row, config.size, config.study = row, size, study
    if study in CLOSED_FORMS:
        declare(config, CLOSED_FORMS[study])
        config.update_from_flattened_dict(changes)
        if size == "smoke":
            small = {"depth": 3, "n_grid": 6, "n_saliences": 3, "training_sets": (1, 2)}
            data = config.get("data", {})
            data.update({name: value for name, value in small.items() if name in data})
        return config
    if study == "untrained":
        declare(config, UNTRAINED)
        set_untrained(config, changes)
        return config
    if study == "images":
        declare_training(config, in_epochs=True)
        declare(config, IMAGES)
        config.eval.epochs = config.checkpoint.epochs = 10
        config.update_from_flattened_dict(changes)
        resize_images(config, size)
        return config
    declare_training(config)
    declare(config, DENSE)
    config.train.update({"seeds": tuple(range(6)), "steps": 4000, "steps_per_call": 50})
    config.train.log_every = 50
    config.eval.every, config.checkpoint.every = 50, 1000
    config.update_from_flattened_dict({k: v for k, v in changes.items() if k != "parts"})
    if size == "paper" and row == "cd_rich":
        config.train.seeds = tuple(range(6))
    parts = changes.get("parts", {})
    if size == "smoke":
        smoke(config)
        short = ("train", "eval")  # `smoke` sets them for all parts
        parts = {
            name: {section: keys for section, keys in part.items() if section not in short}
            for name, part in parts.items()
        }
    declare_parts(config, parts)
    return config


def smoke(config):
    """Few steps of narrow networks, in seconds."""
    config.model.hidden = 20
    config.train.update({"seeds": (0, 1), "steps": 20, "steps_per_call": 10, "log_every": 10})
    config.eval.update({"every": 10, "at": (), "converged": 1e9})
    config.checkpoint.every = 10


CHOICES = ("model.net",)


def adapt(config):
    """Sets the optimiser, layers and sizes of a newly chosen network."""
    if config.study == "untrained":
        set_untrained(config, {**ROWS[config.row][2], **NETWORKS[config.model.net]})
        return
    config.update_from_flattened_dict({**ROWS[config.row][2], **NETWORKS[config.model.net]})
    resize_images(config, config.size)


def set_untrained(config, changes):
    """Sets those of the changes whose keys a study of untrained networks declares."""
    config.update_from_flattened_dict({k: v for k, v in changes.items() if k in UNTRAINED})
    declare_sizes(config)
    config.train.seeds = tuple(range(10 if config.size == "paper" else 3))
    if config.size == "smoke":
        config.data.update({"synthetic": 400, "n_pool": 20, "n_total": 200, "n_val": 12})
        config.train.seeds, config.eval.n_images = (0, 1), (2, 12)
        config.model[config.model.net].update(TINY[config.model.net])


def declare_sizes(config):
    """Declares the sizes of the row's network only."""
    for net, sizes in SIZES_OF.items():
        (declare if net == config.model.net else undeclare)(config, sizes)


def resize_images(config, size: str) -> None:
    """default: small network, few images (laptop); fast: recorded runs; paper: as published."""
    declare_sizes(config)
    tasks = config.data.tasks
    if size in ("fast", "paper"):
        # On a GPU, convolutions of several seeds at once are slow without the package's own kernels
        # (float32, one GPU). Matrix products are not slow.
        config.train.at_once = {"convnet": 0, "resnet": 1, "vit": 2}[config.model.net]
        config.eval.ntk = 4 if config.row == "addition_mnist" else 0
    if size == "paper":
        config.train.seeds = tuple(range(10))
        return
    if size == "fast":
        few = {ADDITION: (0, 3), ANCHORS: (0, 3, 4, 6)}.get(tasks, range(len(tasks)))
        config.data.tasks = tuple(tasks[i] for i in few)
        config.data.distances = config.data.distances[:: max(1, len(config.data.distances) - 1)]
        config.train.seeds = (0, 1, 2) if config.data.images == "mnist" else (0, 1)
        return
    config.train.seeds = (0,) if size == "default" else (0, 1)
    config.data.tasks, config.data.distances = tasks[:1], config.data.distances[::4]
    config.data.update({"n_total": 2000, "n_val": 20})
    small = {
        "convnet": {"channels": (8, 8, 16, 16), "hidden": (64, 64)},
        "resnet": {"channels": (8, 8, 16, 16)},
        "vit": {"dim": 64, "depth": 4, "heads": 2, "head_dim": 32, "mlp_dim": 64},
    }
    net = config.model.net
    config.model[net].update(small[net])
    config.train.epochs, config.eval.epochs = 10, 2
    if size == "smoke":
        config.data.update({"synthetic": 400, "n_pool": 20, "n_total": 200, "n_val": 12})
        config.data.distances = config.data.distances[:1]
        config.data.batch = 32
        config.train.epochs, config.eval.epochs = 1, 1
        config.model[net].update(TINY[net])
        config.eval.layers = config.eval.layers[:2]


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, study, _) in ROWS.items():
        numbers = PUBLISHED["kernels"].get(name, {})
        first = EXPECT.get(name, next(iter(numbers), ""))
        expect = f"{first} {numbers[first]['mean']:g}" if first else ""
        expect += " (recomputed)" if first and numbers[first]["kind"] == "recomputed" else ""
        times = TIMES["closed forms" if study in CLOSED_FORMS else study]
        yield {"name": name, "doc": doc, "times": times, "expect": expect}
