"""Config keys of each kind of study, besides those of the training loop."""

from cgjax.config.declare import key, names_in

ARCHITECTURES = names_in("experiments.resistance.models", "ARCHITECTURES")
INITS = names_in("experiments.resistance.models", "INITS")
LOSSES = names_in("experiments.resistance.models", "LOSSES")
DIGITS = names_in("experiments.resistance.pairs", "DIGITS")
DISTRIBUTIONS = names_in("experiments.resistance.pairs", "DISTRIBUTIONS")
PLANE_SETTINGS = names_in("experiments.resistance.plane", "SETTINGS")
SCAN_SETTINGS = names_in("experiments.resistance.scan", "TRAINING")
FORMS = names_in("nets.conv", "FORMS")


NETS = {
    "data.batch": key(64, "samples per update", low=1),
    "model.init": key("glorot", "initialisation of kernels and biases", choices=INITS),
    "model.scales": key((1.0,), "of initial kernels; one run per scale, in one program", above=0,
                        is_traced=True),
    "model.heads": key(1, "1: only the target Y_1; 2: also a head for Y_2", choices=(1, 2)),
    "model.towers": key(False, "a tower per half of the input; the second has a gate"),
    "optim.name": key("adam", "optimiser", choices=names_in("core.optim", "OPTIMISERS")),
    "optim.lrs": key((1e-3,), "learning rates; one run per rate, in one program", above=0,
                     distinct=True, is_traced=True),
    "optim.loss": key("cross_entropy", "loss of each head", choices=LOSSES),
    "reg.penalties": key((0.0,), "weights of D_2 squared", low=0, distinct=True, is_traced=True),
    "eval.n_jacobian": key(256, "inputs of the derivatives", low=0),
    "eval.early": key(200, "the last of the paper's steps that counts as early", low=1),
}  # fmt: skip
PAIRS = NETS | {
    "data.digits": key("mnist", "data set; no claim is judged on synthetic", choices=DIGITS),
    "data.widths": key((2, 10), "number of labels of Y_2, from Y_1 on: 2 is A, 10 is B", low=1,
                       high=10, distinct=True),
    "data.rhos": key((1.0,), "dose: share of samples that follow data.widths", low=0, high=1,
                     distinct=True, is_traced=True),
    "data.overlaid": key(False, "digits on the same pixels, X_2 mirrored at its diagonal"),
    "data.absent": key((), "shares of samples without X_2: one more setting B for each", low=0,
                       high=1, items=float, may_be_empty=True, distinct=True, is_traced=True),
    "model.arch": key("appendix", "architecture of the convolutions", choices=ARCHITECTURES),
    "model.hidden": key(64, "units of the dense layer", low=1),
    "model.form": key("auto", "implementation of convolutions", choices=FORMS),
    "eval.n_samples": key(2000, "samples of each evaluation set", low=10),
    "eval.n_information": key(5000, "samples for information after training; 0: none", low=0),
    "eval.inputs": key(("train",), "distributions of the inputs of derivatives",
                       choices=DISTRIBUTIONS, distinct=True),
}  # fmt: skip
PLANE = NETS | {
    "data.settings": key(("A", "control"), "control: X_2 has no information",
                         choices=PLANE_SETTINGS, distinct=True),
    "data.n_points": key(250, "fixed training points", low=10),
    "data.step_unit": key("epoch", "meaning of the paper's step", choices=("epoch", "update")),
    "model.bias_stds": key((0.0,), "deviations of initial biases, one per scale", low=0,
                           is_traced=True),
    "model.width": key(8, "units of each hidden layer", low=1),
    "model.n_hidden": key(3, "hidden layers", low=1),
    "eval.n_points": key(1500, "fresh points of each evaluation set", low=10),
    "eval.grid": key(101, "points along each side of the panels", low=3),
}  # fmt: skip
SCAN = {
    "data.batch": key(256, "lines per update", low=1),
    "data.settings": key(("A", "resample_slots"), "A, and interpretations of B",
                         choices=SCAN_SETTINGS, distinct=True),
    "model.embedding": key(32, "entries of a word's embedding", low=1),
    "model.encoder": key(16, "state size per direction; the decoder's is four times that", low=1),
    "optim.lr": key(0.01, "first learning rate", above=0, is_traced=True),
    "optim.decay": key(0.96, "factor on the rate per 100 steps", above=0, high=1,
                       is_traced=True),
    "eval.n_samples": key(512, "lines of each evaluation set", low=10),
    "eval.n_whole": key(20_910, "most lines of each part to decode after training", low=1),
    "eval.n_jacobian": key(32, "lines of the derivatives; 0: none", low=0),
    "eval.early": key(300, "the last step that counts as early", low=1),
}  # fmt: skip
# Additional keys of some studies.
ONE_STEP = {
    "eval.one_step": key(0.01, "length of the step whose effect is measured", above=0),
    "eval.n_step": key(2048, "samples of that step (digits)", low=1),
}
GRADIENTS = {
    "optim.gradient": key("reverse", "method of computing it", choices=(
        "reverse", "forward", "finite", "evolution", "gauss_newton")),
    "optim.difference": key(0.01, "step of finite differences, deviation of an evolution strategy",
                            above=0),
}  # fmt: skip
OPTIMISERS = GRADIENTS | {
    "optim.n_pairs": key(128, "pairs of directions of an evolution strategy", low=1),
}
CROSSING = {
    "optim.average": key(False, "use the mean of all iterates as the solution"),
    "eval.levels": key((0.2, 0.1, 0.05, 0.02), "highest training losses of the bands", above=0,
                       distinct=True),
    "eval.band": key(0.1, "width of a band, as a share of its highest loss", above=0, high=1),
    "search.level": key(0.1, "one of eval.levels: chooses learning rates, and is drawn", above=0),
    "search.n_sets": key(100, "training sets; seed s has set s modulo their number", low=1),
}  # fmt: skip
SEARCH = {
    "model.fixed_biases": key(False, "biases keep their initial values"),
    "search.n_draws": key(100_000_000, "draws of guess and check per start; 0: none", low=0),
    "search.batch": key(10_000, "draws at a time", low=1),
    "search.n_keep": key(20, "guesses kept per set and band", low=1),
    "search.walk_steps": key((1_000, 10_000, 100_000), "lengths of random walks; (): no walks",
                             low=1, distinct=True, may_be_empty=True),
    "search.walk_scale": key(0.1, "step of a walk, as a share of the start's deviation", above=0,
                             high=1),
}  # fmt: skip
LANDSCAPE = {"eval.n_line": key(25, "points on the line between two solutions", low=3)}
TANGENT = {"eval.n_split": key(12, "inputs of the split kernel", low=2)}
