"""The keys that each kind of study reads, beside those of the training loop."""

from cgjax.config.declare import key
from cgjax.core.optim import OPTIMISERS
from cgjax.experiments.resistance.models import ARCHITECTURES, INITS, LOSSES
from cgjax.experiments.resistance.training import pairs, plane, scan
from cgjax.nets.conv import FORMS

NETS = {
    "data.batch": key(64, "samples of one update", low=1),
    "model.init": key("glorot", "of kernels and biases", choices=tuple(INITS)),
    "model.scales": key((1.0,), "of initial kernels; several are runs of one program", above=0,
                        is_traced=True),
    "model.heads": key(1, "1: the target Y_1 alone; 2: a head for Y_2 too", choices=(1, 2)),
    "model.towers": key(False, "a tower for each half of the input, the second one gated"),
    "optim.name": key("adam", "the rule of updates", choices=tuple(OPTIMISERS)),
    "optim.lrs": key((1e-3,), "learning rates; several are runs of one program", above=0,
                     distinct=True, is_traced=True),
    "optim.loss": key("cross_entropy", "of each head", choices=tuple(LOSSES)),
    "reg.penalties": key((0.0,), "weights of D_2 squared", low=0, distinct=True, is_traced=True),
    "eval.n_jacobian": key(256, "inputs at which derivatives are taken", low=0),
    "eval.early": key(200, "the paper's steps up to which learning counts as early", low=1),
}  # fmt: skip
PAIRS = NETS | {
    "data.digits": key("mnist", "any: made-up digits where MNIST is absent", choices=pairs.DIGITS),
    "data.widths": key((2, 10), "Y_2 is one of so many from Y_1 on: 2 is A, 10 is B", low=1,
                       high=10, distinct=True),
    "data.rhos": key((1.0,), "dose: share of samples that follow that rule", low=0, high=1,
                     distinct=True, is_traced=True),
    "model.arch": key("appendix", "convolutions", choices=tuple(ARCHITECTURES)),
    "model.hidden": key(64, "units of the dense layer", low=1),
    "model.form": key("auto", "of convolutions", choices=FORMS),
    "eval.n_samples": key(2000, "of each set that scores a run", low=10),
    "eval.n_information": key(5000, "samples of the information after training; 0: none", low=0),
    "eval.inputs": key(("train",), "distributions at which derivatives are taken",
                       choices=pairs.DISTRIBUTIONS, distinct=True),
}  # fmt: skip
PLANE = NETS | {
    "data.settings": key(("A", "control"), "control: X_2 tells nothing", choices=plane.SETTINGS,
                         distinct=True),
    "data.n_points": key(250, "fixed training points", low=10),
    "data.step_unit": key("epoch", "what the paper's step is", choices=("epoch", "update")),
    "model.bias_stds": key((0.0,), "deviations of initial biases, one for each scale", low=0,
                           is_traced=True),
    "model.width": key(8, "units of each hidden layer", low=1),
    "model.n_hidden": key(3, "hidden layers", low=1),
    "eval.n_points": key(1500, "fresh points of each set that scores a run", low=10),
    "eval.grid": key(101, "points along a side of the panels", low=3),
}  # fmt: skip
SCAN = {
    "data.batch": key(256, "lines of one update", low=1),
    "data.settings": key(("A", "resample_slots"), "A, and readings of B", choices=scan.SETTINGS,
                         distinct=True),
    "model.embedding": key(32, "entries of a word's embedding", low=1),
    "model.encoder": key(16, "state of each direction; the decoder's is four times that", low=1),
    "optim.lr": key(0.01, "first learning rate", above=0, is_traced=True),
    "optim.decay": key(0.96, "of the rate, continuously", above=0, high=1, is_traced=True),
    "optim.decay_every": key(100, "steps in which the rate decays once", low=1),
    "eval.n_samples": key(512, "lines of each set that scores a run", low=10),
    "eval.n_whole": key(20_910, "lines of each part decoded after training, at most", low=1),
    "eval.n_jacobian": key(32, "lines at which derivatives are taken; 0: none", low=0),
    "eval.early": key(300, "steps up to which learning counts as early", low=1),
}  # fmt: skip
# What some studies read in addition.
ONE_STEP = {
    "eval.one_step": key(0.01, "length of the step whose effect is measured", above=0),
    "eval.n_step": key(2048, "samples behind that step (digits)", low=1),
}
GRADIENTS = {
    "optim.gradient": key("reverse", "how it is computed", choices=(
        "reverse", "forward", "finite", "evolution", "gauss_newton")),
    "optim.difference": key(0.01, "step of finite differences, deviation of an evolution strategy",
                            above=0),
}  # fmt: skip
CROSSING = GRADIENTS | {
    "optim.n_pairs": key(128, "of directions, of an evolution strategy", low=1),
    "optim.damping": key(0.01, "of Gauss-Newton", above=0),
    "optim.average": key(False, "the mean of all iterates is the solution"),
    "eval.levels": key((0.3, 0.2, 0.1, 0.05, 0.02), "training losses whose first crossing is kept",
                       above=0, distinct=True),
    "search.level": key(0.1, "the one of eval.levels that metrics are of", above=0),
    "search.n_draws": key(200_000, "of guess and check, for each start; 0: none", low=0),
    "search.n_sets": key(4, "training sets among which the draws are divided", low=1),
    "search.n_keep": key(100, "solutions kept of each set and level", low=1),
    "search.walk_steps": key(100_000, "of a Metropolis walk, at most; 0: none", low=0),
    "search.walk_scale": key(0.03, "deviation of its steps", above=0),
    "search.walk_decay": key(0.999, "of its ceiling, each step", above=0, high=1),
}  # fmt: skip
LANDSCAPE = {"eval.n_line": key(25, "points of the line between two solutions", low=3)}
TANGENT = {"eval.n_split": key(12, "inputs of the kernel that is split", low=2)}
