"""Config keys of each kind of study, besides those of the training loop."""

from cgjax.config.declare import key
from cgjax.experiments.kernels.dense.networks import TRAINED
from cgjax.experiments.kernels.images.networks import NETS
from cgjax.experiments.kernels.scores import LOSSES
from cgjax.experiments.kernels.tasks import ADDITION_SETS as ADDITION
from cgjax.experiments.kernels.tasks import is_task

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
                         choices=TRAINED),
    "optim.lrs": key((2e-3,), "learning rate of every scale", above=0, is_traced=True),
    "optim.loss": key("mse", "minimised loss", choices=tuple(LOSSES)),
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
    "model.net": key("convnet", "network", choices=tuple(NETS)),
    "model.dtype": key("float32", "dtype of activations", choices=("float32", "bfloat16")),
    "optim.lr": key(1e-4, "learning rate", above=0, is_traced=True),
    "optim.loss": key("mse", "minimised loss", choices=tuple(LOSSES)),
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
