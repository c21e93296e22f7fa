"""Support theory: does a training support identify every component? (Wiedemer et al. 2023)

    python -m cgjax.main --config=configs/support.py                 a small table of verdicts
    python -m cgjax.main --config=configs/support.py:<row>[,<size>]  one study

Most rows train nothing. Their sizes: default and paper audit 256 values of each component in
`table` and `partners`, 32 or 64 in other rows, fast at most 64; smoke takes seconds. Rows of
TRAINED train small models, all seeds and supports at once; nobody has published them, so `paper` is
`fast`.
"""

from cgjax.config import split_variant
from cgjax.config.declare import base, declare, declare_training, key, names_in
from cgjax.data import sources
from cgjax.experiments.sprites.options import EIGHT, SUPPORTS
from cgjax.published import PUBLISHED

# row: (what it shows, expected time at the default size, its keys beside `data.seed`, changes)
ROWS = {
    "demo": (
        "Which supports identify both sprites, and at which pixels they do not",
        "half a minute",
        ("image_size", "n_values", "n_partners", "supports"),
        {"supports": ("orthogonal", "orthogonal_star", "diagonal_narrow", "orthogonal_gap"),
         "n_values": 32},
    ),
    "table": (
        "Every support against hard, soft and alpha composition: share of values that pass",
        "2.5 minutes",
        ("image_size", "n_values", "n_partners", "supports"),
        {},
    ),
    "partners": (
        "The diagonal: its verdict by width and by number of partners",
        "5 minutes",
        ("image_size", "n_values", "partner_counts", "deltas"),
        {},
    ),
    "predict": (
        "Audits of the recorded runs' supports against their scores: rank correlation",
        "2 minutes",
        ("image_size", "n_values", "n_partners", "n_unseen", "record"),
        {"n_values": 64},
    ),
    "openness": (
        "What supports leave open before training, against the paper's R2 and recorded errors",
        "4 minutes",
        ("image_size", "n_samples", "n_asked", "n_pixels", "lengths", "noise", "record",
         "n_recorded"),
        {},
    ),
    "design": (
        "Planes chosen until every slot is identified, for two to four sprites",
        "20 seconds",
        ("image_size", "n_values", "slot_counts", "n_candidates", "exact", "most"),
        {"image_size": 32, "n_values": 32},
    ),
    "relaxed": (
        "What C ignores need not be known: the condition that only asks about the rest",
        "40 seconds",
        ("image_size", "n_values", "n_partners", "n_unseen"),
        {"image_size": 16, "n_values": 64, "n_partners": 1024, "n_unseen": 64},
    ),
    "opacity": (
        "Saturated opacities explain a trained alpha model (--config.data.run=<workdir>)",
        "a minute",
        ("n_values", "n_partners", "n_unseen", "run", "part"),
        {"n_values": 32, "run": "runs/sprites/orthogonal_rgba_cured", "part": "shared"},
    ),
    "certificate": (
        "Which premises of the theorem hold for a trained model (--config.data.run=<workdir>)",
        "a minute",
        ("n_values", "n_partners", "run", "part", "softness"),
        {"n_values": 64},
    ),
    "bound": (
        "How errors grow outside the support: the predicted amplification against recorded runs",
        "145 s of CPU time",
        ("image_size", "n_samples", "n_asked", "n_pixels", "length", "noises", "record",
         "n_recorded"),
        {"n_samples": 120, "n_asked": 80, "n_pixels": 3},
    ),
}  # fmt: skip

# Rows that train.
_PICTURES = (
    "data.images", "data.is_made_up", "data.image_size", "data.pair_supports", "data.n_train",
    "data.batch", "data.n_samples", "data.n_asked", "data.n_pixels", "data.length", "data.noise",
    "model.hidden", "optim.lr", "eval.n",
)  # fmt: skip
_BUMPS = ("data.n_train", "data.batch", "model.hidden", "optim.lr", "eval.n")
_MODELS = ("network", "table", "monolithic")
# row: (what it shows, expected time at the default size, its keys, its models, changes)
TRAINED = {
    "digits": (
        "MNIST digits in front of each other: which unseen pairs are drawn right?",
        "185 seconds of CPU time",
        _PICTURES,
        _MODELS,
        {},
    ),
    "cut_outs": (
        "The same with discs cut out of CIFAR-10 images",
        "100 seconds of CPU time",
        _PICTURES,
        _MODELS,
        {"data.images": "cifar10"},
    ),
    "unknown_c": (
        "C is learned: what is left of the components, with and without one known point",
        "220 seconds of CPU time",
        (*_BUMPS, "data.n_known"),
        ("known", "learned"),
        {},
    ),
    "step_c": (
        "C is a step: straight-through against smoothed training",
        "100 seconds of CPU time",
        (*_BUMPS, "model.sharpness"),
        ("straight_through", "smoothed"),
        {},
    ),
}

KEYS = {
    "image_size": key(64, "pixels along each side", choices=(8, 16, 32, 64)),
    "supports": key(EIGHT, "supports to audit", choices=tuple(SUPPORTS), distinct=True),
    "n_values": key(256, "values of z_k* per component", low=1),
    "n_partners": key(48, "points of P' where the support is not made of planes", low=1),
    "n_unseen": key(64, "points of Q per value, for the relaxed condition", low=1),
    "deltas": key((0.03, 0.05, 0.07, 0.1, 0.2), "half widths of the diagonal", above=0, high=0.7,
                  distinct=True),
    "partner_counts": key((48, 512), "numbers of partners", low=1, distinct=True),
    "slot_counts": key((2, 3, 4), "numbers of sprites", low=2, high=6, distinct=True),
    "n_candidates": key(24, "planes to choose from", low=1),
    "exact": key(False, "search all sets of planes, small ones first; else greedy"),
    "most": key(8, "planes per slot at most", low=1),
    "record": key("", "folder of recorded sprites runs; empty: the package's own"),
    "n_samples": key(300, "samples of P", low=8),
    "n_asked": key(200, "samples of Q", low=2),
    "n_pixels": key(4, "pixels along each side of the tested grid", low=1),
    "lengths": key((0.3, 0.5, 0.7, 1.0), "over which components may be smooth, ascending, in units "
                   "of a latent's spread: the shortest that the samples resolve counts", above=0),
    "noise": key(0.01, "relative error with which f is known on P", above=0, high=1),
    "n_recorded": key(100, "recorded supports that are asked about at most", low=3),
    "length": key(0.7, "over which components are smooth, in units of a latent's spread", above=0),
    "noises": key((0.01, 0.03, 0.1, 0.3, 1.0), "relative errors on P, ascending", above=0, high=1,
                  distinct=True),
    "run": key("runs/sprites/demo", "workdir of a finished sprites run"),
    "part": key("compositional", "which of its models"),
    "softness": key(1.0, "width in pixels of the edges of the certificate's sprites", above=0),
}  # fmt: skip

TRAINED_KEYS = {
    "data.images": key("mnist", "data set of the pictures", choices=("mnist", "cifar10")),
    "data.is_made_up": key(False, "made-up images in place of the data set; no claim is judged"),
    "data.image_size": key(16, "pixels along each side", low=8, high=64),
    "data.pair_supports": key(
        names_in("experiments.sprites.support.pictures", "SUPPORTS")[1:], "supports beside `all`",
        choices=names_in("experiments.sprites.support.pictures", "SUPPORTS")[1:], distinct=True),
    "data.n_train": key(8192, "training scenes of each support", low=1),
    "data.batch": key(32, "scenes of one step", low=1),
    "data.n_samples": key(400, "samples of P, of the audit", low=8),
    "data.n_asked": key(4, "samples of Q for each pair, of the audit", low=1),
    "data.n_pixels": key(10, "pixels that the audit tests", low=1),
    "data.length": key(0.3, "over which components are smooth, in units of a latent's spread",
                       above=0),
    "data.noise": key(0.03, "relative error with which f is known on P", above=0, high=1),
    "data.n_known": key((0, 1, 24), "pixels at which components are known at one point", low=0,
                        high=24, distinct=True),
    "model.hidden": key(128, "width of dense layers", low=1),
    "model.sharpness": key((3.0, 10.0, 30.0), "of the sigmoid that replaces the step", above=0,
                           distinct=True),
    "optim.lr": key(2e-3, "first learning rate; falls to 0 along a cosine", above=0,
                    is_traced=True),
    "eval.n": key(8, "scenes of each pair, or of each evaluation set", low=1),
}  # fmt: skip

TIMES = {
    "default": "the time in brackets, on two CPU cores",
    "smoke": "seconds",
    "fast": "a quarter of the default",
    "paper": "as the default",
}
TRAINED_TIMES = TIMES | {
    "fast": "digits 105 and cut_outs 45 seconds on one H200; others as the default",
    "paper": "as fast",
}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS | TRAINED)
    if row in TRAINED:
        return trained(row, size)
    _, _, names, changes = ROWS[row]
    config = base("support")
    config.row, config.size = row, size
    declare(config, {"data.seed": key(0, "draws values and partners", low=0)})
    declare(config, {f"data.{name}": KEYS[name] for name in names})
    if row == "certificate":
        doc = "C of the model, for the theory"
        choices = names_in("experiments.sprites.compositions", "COMPOSITIONS")
        declare(config, {"model.composition": key("occlude_sigmoid", doc, choices=choices)})
    config.data.update(changes)
    if (row, size) == ("openness", "paper"):
        config.data.n_samples = 3000
    if size == "fast" and "n_values" in names:
        config.data.n_values = min(config.data.n_values, 64)
    if size == "smoke":
        smoke(config)
    return config


def trained(row, size):
    """The config of a row that trains."""
    _, _, names, kinds, changes = TRAINED[row]
    config = base("support")
    config.row, config.size = row, size
    declare_training(config)
    declare(config, {"data.seed": key(0, "draws scenes and samples", low=0)})
    declare(config, {name: TRAINED_KEYS[name] for name in names})
    doc = "models to train"
    declare(config, {"model.kinds": key(kinds, doc, choices=kinds, distinct=True)})
    is_of_pictures = "data.images" in names
    if not is_of_pictures:
        config.model.hidden = 64
        config.data.update({"n_train": 4096, "batch": 64})
        config.eval.n = 1024
    config.update_from_flattened_dict(changes)
    steps = {"default": 400, "smoke": 4}.get(size, 8000)
    if not is_of_pictures and size != "smoke":
        steps = 3000
    per_call = max(steps // 10, 2)
    config.train.update({"steps": steps, "steps_per_call": per_call, "log_every": per_call})
    config.eval.every = config.checkpoint.every = max(steps // 5, per_call)
    if size == "smoke":
        small = {"n_train": 16, "batch": 4, "n_samples": 24, "n_asked": 1, "n_pixels": 3}
        small |= {"pair_supports": ("absent in front", "planes"), "is_made_up": True}
        config.data.update({name: value for name, value in small.items() if name in config.data})
        config.model.hidden, config.eval.n = 8, 2 if is_of_pictures else 48
        return config
    config.train.seeds = (0, 1, 2, 3, 4)
    if is_of_pictures and size != "default":
        config.data.update({"batch": 64, "n_train": 32_768, "n_samples": 600, "n_pixels": 12})
        config.model.hidden, config.eval.n = 256, 16
        config.checkpoint.every = steps  # a state has 0.4 GB
    if is_of_pictures and size == "default":
        config.train.seeds, config.model.kinds = (0, 1, 2), ("table", "monolithic")
        # The default size needs no download.
        config.data.is_made_up = not sources.is_here(config.data.images)
    return config


def smoke(config):
    """Seconds: few values of small images."""
    small = {
        "image_size": 16,
        "n_values": 4,
        "n_partners": 4,
        "n_unseen": 4,
        "n_candidates": 6,
        "n_samples": 24,
        "n_asked": 12,
        "n_pixels": 2,
    }
    small |= {"deltas": (0.05, 0.2), "partner_counts": (4, 8), "slot_counts": (2,)}
    small |= {"lengths": (1.0,), "n_recorded": 3, "noises": (0.03, 0.3)}
    if "supports" in config.data:
        small["supports"] = config.data.supports[:3]
    config.data.update({name: value for name, value in small.items() if name in config.data})


# Recomputed numbers, by the names of `published`.
EXPECT = {
    "demo": ("table", "orthogonal/step_back"),
    "table": ("table", "orthogonal/step_back"),
    "partners": ("partners", "delta 0.1, 512 partners"),
}


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, time, *_) in (ROWS | TRAINED).items():
        study, metric = EXPECT.get(name, ("", ""))
        expect = f"{metric} {PUBLISHED['support'][study][metric]['mean']:g}" if study else ""
        times = TRAINED_TIMES if name in TRAINED else TIMES
        yield {"name": name, "doc": f"{doc} ({time})", "times": times, "expect": expect}
