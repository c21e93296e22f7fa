"""Rows and sizes of the image experiments, for `configs/kernels.py`."""

from cgjax.experiments.kernels.tasks import ADDITION_SETS as ADDITION
from cgjax.experiments.kernels.tasks import CD_SETS as CD

TE = ("te_5_5_hubs_1", "te_5_5_hubs_4")

# What a data set and a network bring along, as published.
_SETS = {
    "mnist": {"data.images": "mnist", "data.n_pool": 200, "data.n_total": 20_000},
    "cifar": {"data.images": "cifar10", "data.n_pool": 4000, "data.n_total": 40_000,
              "data.augment": True},
}  # fmt: skip
_NETS = {
    "convnet": {
        "model.net": "convnet", "optim.optimiser": "sgd", "optim.lr": 1e-4, "train.epochs": 100,
        "eval.layers": (2, 5, 8, 11, 13, 16, 18), "eval.layer": 11,
    },
    "resnet": {
        "model.net": "resnet", "optim.optimiser": "adam", "optim.lr": 1e-3, "train.epochs": 100,
        "eval.layers": (1, 3, 5, 7, 9, 10), "eval.layer": 9,
    },
    "vit": {
        "model.net": "vit", "optim.optimiser": "adam", "optim.lr": 1e-4, "train.epochs": 200,
        "eval.layers": (1, 2, 3, 4, 5, 6), "eval.layer": 5,
    },
}  # fmt: skip
_ALL_DISTANCES = {"data.distances": (0, 5, 10, 15, 20)}
_LOGISTIC = {"optim.loss": "logistic"}

# row: (what it shows, study, changes)
ROWS = {
    "addition_mnist": (
        "ConvNets add digits: values shrink by the leak, less so the further digits are apart",
        "images",
        {**_SETS["mnist"], **_NETS["convnet"], **_ALL_DISTANCES, "data.tasks": ADDITION},
    ),
    "cd_mnist": (
        "ConvNets and context: the shortcut wins CD-3 once digits are apart",
        "images",
        {**_SETS["mnist"], **_NETS["convnet"], **_ALL_DISTANCES, **_LOGISTIC, "data.tasks": CD,
         "data.n_total": 30_000},
    ),
    "te_mnist": (
        "ConvNets and transitive equivalence, which no kernel solves",
        "images",
        {**_SETS["mnist"], **_NETS["convnet"], **_ALL_DISTANCES, **_LOGISTIC, "data.tasks": TE,
         "train.epochs": 150},
    ),
    **{
        f"{name}_cifar_{net}": (
            f"{title} {what} of CIFAR-10 images",
            "images",
            {**_SETS["cifar"], **_NETS[net], **changes, "data.tasks": members},
        )
        for net, title in (("resnet", "A ResNet:"), ("vit", "A vision transformer:"))
        for name, what, members, changes in (
            ("addition", "addition", ADDITION, {}),
            ("cd", "context dependence", CD, _LOGISTIC),
            ("te", "transitive equivalence (not in the paper)", TE, _LOGISTIC),
        )
    },
}  # fmt: skip


def declare(config):
    """Keys that only image rows use."""
    with config.unlocked():
        config.data.update(
            {
                "images": "mnist",
                "distances": (0,),
                "n_pool": 200,  # training images of each class
                "n_total": 20_000,  # training samples, spread over the training combinations
                "n_val": 100,  # samples of each combination in either validation set
                "augment": False,
                "synthetic": 0,  # so many made-up images instead of the data set; 0: the data set
            }
        )
        config.model.update(
            {
                "net": "convnet",
                "dtype": "float32",  # of activations
                "convnet": {"channels": (32, 32, 64, 64), "hidden": (512, 1024)},
                "resnet": {"channels": (16, 32, 64, 128)},
                "vit": {"dim": 256, "depth": 4, "heads": 6, "head_dim": 64, "mlp_dim": 256},
            }
        )
        config.train.epochs = 1
        # epochs: between evaluations; layers: whose kernels are analysed; layer: the one that the
        # metrics name; ntk: samples of each combination in tangent kernels, 0 for none
        config.eval.update({"epochs": 10, "layers": (), "layer": 0, "ntk": 0})
        config.checkpoint.epochs = 10


def resize(config, size: str) -> None:
    """default: a small network, few images, on a laptop; fast: the record; paper: as published."""
    tasks = config.data.tasks
    config.data.batch = 128
    if size in ("fast", "paper"):
        # On a GPU, convolutions of several seeds at once are slow, matrix products are not.
        config.train.at_once = 2 if config.model.net == "vit" else 1
        config.eval.ntk = 4 if config.row == "addition_mnist" else 0
    if size == "paper":
        config.train.seeds = tuple(range(10))
        return
    if size == "fast":
        pick = {"addition": (0, 3), "cd": (0, 1, 2), "te": (1,)}[config.row.split("_")[0]]
        if "cifar" in config.row and config.row.startswith("cd"):
            pick = (0, 2)
        config.data.tasks = tuple(tasks[i] for i in pick)
        config.data.distances = (0, 20) if config.data.images == "mnist" else (0,)
        config.train.seeds = (0, 1, 2) if config.data.images == "mnist" else (0, 1)
        return
    config.train.seeds = (0,) if size == "default" else (0, 1)
    config.data.tasks, config.data.distances = tasks[:1], config.data.distances[::4]
    config.data.update({"n_total": 2000, "n_val": 20})
    config.model.convnet.update({"channels": (8, 8, 16, 16), "hidden": (64, 64)})
    config.model.resnet.channels = (8, 8, 16, 16)
    config.model.vit.update({"dim": 64, "depth": 4, "heads": 2, "head_dim": 32, "mlp_dim": 64})
    config.train.epochs, config.eval.epochs = 10, 2
    if size == "smoke":
        config.data.update({"synthetic": 400, "n_pool": 20, "n_total": 200, "n_val": 12})
        config.data.distances = config.data.distances[:1]
        config.data.batch = 32
        config.train.epochs, config.eval.epochs = 1, 1
        config.model.convnet.update({"channels": (4, 4, 4, 4), "hidden": (8, 8)})
        config.model.resnet.channels = (4, 4, 4, 4)
        config.eval.layers = config.eval.layers[:2]
