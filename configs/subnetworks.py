"""Subnetworks: does a network hold a module for each part of a rule? (Lepori, Serre, Pavlick)

    python -m cgjax.main --config=configs/subnetworks.py                 BERT, and two known answers
    python -m cgjax.main --config=configs/subnetworks.py:<row>[,<size>]  one rule, or one question

ROWS below lists the rows. Sizes are default (a BERT of two layers on some templates, a ResNet of
four blocks on small images; minutes on two CPU cores), smoke, fast (the paper's language networks
on its data, pre-registered masks trained for a third of its length; reduced vision; for one
accelerator) and paper (its lengths and its 24 configurations). Results include the paper's numbers
for its rules. Ours use disjoint splits and a closed vocabulary unless a key says otherwise.
"""

from cgjax.config import split_variant
from cgjax.config.declare import Dotted, base, declare, declare_parts, declare_training, nested
from cgjax.experiments.subnetworks import keys as known
from cgjax.experiments.subnetworks.language import FAMILIES
from cgjax.published import PUBLISHED

# Base training: learning rate and batch, from scratch and pretrained.
CHOSEN = {
    "agreement_singular": (1e-4, 32, 1e-5, 32),
    "agreement_plural": (1e-5, 32, 1e-5, 32),
    "anaphora_singular": (1e-4, 64, 1e-3, 64),
    "anaphora_plural": (1e-4, 64, 1e-4, 32),
}
MINILM = {"model.hidden": 384, "model.layers": 6, "model.heads": 12, "masks.layers": (0, 3, 4)}
PRETRAINED = {**MINILM, "data.tokens": "wordpiece", "masks.lrs": (1e-4, 1e-2)}
RANDOM = {"model.start": "random"}


def language(name: str) -> dict:
    """A rule of language: from scratch in two shapes, pretrained, and untrained controls."""
    rule, number = name.split("_")
    lr, batch, pretrained_lr, pretrained_batch = CHOSEN[name]
    few = {"data.n_train": 2500, "data.n_val": 200, "data.n_test": 200, "data.n_eval": 200}
    return {
        **(few if rule == "anaphora" else {}),
        "data.rule": rule,
        "data.number": number,
        "data.templates": FAMILIES[rule],
        "data.batch": batch,
        "optim.lr": lr,
        "parts": {
            "scratch": {},
            "scratch_minilm": MINILM,
            "pretrained": {
                **PRETRAINED,
                "model.start": "pretrained",
                "optim.lr": pretrained_lr,
                "data.batch": pretrained_batch,
            },
            "random_weights": {**RANDOM, "masks.selected_by": "scratch"},
            "pretrained_random_weights": {
                **PRETRAINED,
                **RANDOM,
                "masks.selected_by": "pretrained",
            },
        },
    }


# Learning rate and batch for vision: ResNet-50, Wide ResNet-50, and ResNet-50 after SimCLR.
VISION = {
    "inside_contact": {"resnet50": (1e-4, 32), "wideresnet50": (1e-4, 32), "simclr": (1e-4, 32)},
    "inside_number": {"resnet50": (1e-3, 32), "wideresnet50": (1e-3, 32), "simclr": (1e-3, 64)},
    "number_contact": {"resnet50": (1e-3, 32), "wideresnet50": (1e-3, 64), "simclr": (1e-4, 64)},
}
LONG = {"data.n_train": 10_000, "optim.patience": 75}
STAGES = {"masks.layers": (0, 3, 4)}


def vision(rule: str, condition: str = "resnet50") -> dict:
    """One rule of vision under one condition."""
    lr, batch = VISION[rule][condition]
    network = {"model.start": "simclr"} if condition == "simclr" else {"model.arch": condition}
    return {"data.rule": rule, "optim.lr": lr, "data.batch": batch, **network}


def with_random_weights(rule: str) -> dict:
    """Trained networks, and the same networks untrained: masks of both have one configuration."""
    wide = vision(rule, "wideresnet50")
    return {
        "resnet50": {},
        "random_weights": {**RANDOM, "masks.selected_by": "resnet50"},
        "wideresnet50": wide,
        "wideresnet50_random_weights": {**wide, **RANDOM, "masks.selected_by": "wideresnet50"},
    }


def rules(condition: str, names=tuple(VISION)) -> dict:
    """A part for each rule."""
    return {"parts": {name: vision(name, condition) for name in names}, **LONG}


BUILT = {name: {"model.arch": name} for name in ("modular", "template")}
COMBINATIONS = {"data.held_out": "combinations"}
GRID = {"masks.s0s": (0.05, 0.1, 0.0, -0.05), "masks.lrs": (1e-2, 1e-4), "masks.layers": (0, 2, 3)}
# row: (what it shows, study, changes). "parts" run one after another, each in its sub-folder.
ROWS = {
    "demo": (
        "A small BERT on agreement, both masks, beside networks whose structure is known",
        "rule", {"parts": {"bert": {}, **BUILT}},
    ),
    **{name: (f"{name.replace('_', ', ')}: scratch and pretrained BERT", "rule", language(name))
       for name in CHOSEN},
    "controls": (
        "The measure applied to a modular network, a template, and random weights",
        "rule", {"parts": {**BUILT, "random_weights": RANDOM}},
    ),
    "search": ("All configurations of masks beside the pre-registered one", "rule", GRID),
    "three": (
        "A rule of three: subject, verb, tense; 3 x 3 accuracies",
        "rule", {"data.rule": "three", "data.templates": FAMILIES["three"]},
    ),
    "scale": (
        "Three sizes of BERT: structure and accuracy on held-out combinations",
        "sizes", {**COMBINATIONS, "parts": {
            "small": {"model.hidden": 128, "model.layers": 2, "model.heads": 2},
            "middle": {"model.hidden": 256}, "large": {"model.hidden": 512}}},
    ),
    "generalization": (
        "Bases that differ in their seed: structure beside accuracy on held-out combinations",
        "seeds", {**COMBINATIONS, "eval.least": 0.0},
    ),
    "dynamics": (
        "Structure and accuracy on held-out combinations along base training",
        "dynamics", {**COMBINATIONS, "checkpoint.keep": (1, 2, 5, 10, 20, 50)},
    ),
    "families": (
        "Four kinds of masks on the same bases: accuracy by sparsity",
        "families", {"masks.penalties": (0.0, 1e-9, 1e-8, 1e-7, 1e-6),
                     "masks.keeps": (0.9, 0.5, 0.2, 0.05)},
    ),
    **{name: (f"{name.replace('_', ' and ')}: ResNet-50 and its wide form, trained and random",
              "resnet", {**vision(name), **LONG, "parts": with_random_weights(name)})
       for name in VISION},
    "wide": ("Wide ResNet-50-2 on the three rules of vision", "resnet", rules("wideresnet50")),
    "simclr": ("ResNet-50 pretrained by contrast, on the three rules of vision", "simclr",
               rules("simclr")),
    "pruned": ("Bases pruned by a mask for the whole rule, then masked", "resnet",
               {**rules("resnet50", ("inside_contact", "number_contact")), "masks.prune": True}),
    "vit": ("A vision transformer on the three rules: base accuracy", "vit", {
        **LONG, "parts": {name: {"data.rule": name} for name in VISION}}),
    "balanced": (
        "Number and contact where the amount of ink does not reveal the odd image",
        "resnet", {**vision("number_contact"), **LONG,
                   "parts": {"published": {}, "balanced": {"data.balanced": True}}},
    ),
    "tangent": (
        "Tangent kernels of subnetworks: are they aligned with the subroutine of the mask?",
        "tangent", {"parts": {"bert": {}, "modular": BUILT["modular"], "random_weights": RANDOM}},
    ),
    "joint": ("Disjoint masks of both subroutines, learned together", "joint", {}),
    "objectives": (
        "Masks for the target alone, and for the target and chance on the other",
        "rule", {"parts": {name: {"masks.objective": name}
                           for name in ("target", "target_and_chance_on_other")}},
    ),
}  # fmt: skip
ONE_RULE = known.MASKS | known.ONE_FAMILY | known.STAGES
RESNET = known.RESNET | ONE_RULE
# study: its keys
STUDIES = {
    "rule": known.LANGUAGE | ONE_RULE,
    "sizes": known.LANGUAGE | ONE_RULE,
    "seeds": known.LANGUAGE | ONE_RULE | known.BASES,
    "joint": known.LANGUAGE | ONE_RULE,
    "tangent": known.LANGUAGE | ONE_RULE | known.TANGENT,
    "dynamics": known.LANGUAGE | known.MASKS | known.ONE_FAMILY,
    "families": known.LANGUAGE | known.MASKS | known.SEVERAL_FAMILIES,
    "resnet": RESNET,
    "simclr": RESNET | known.SIMCLR,
    "vit": known.VIT,
}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    _, study, changes = ROWS[row]
    config = base("subnetworks")
    with config.unlocked():
        config.row, config.size, config.study = row, size, study
    declare_training(config, in_epochs=True)
    declare(config, STUDIES[study])
    config.train.epochs, config.checkpoint.epochs = 100, 10
    changes = dict(changes)
    parts = {name: dict(part) for name, part in changes.pop("parts", {}).items()}
    config.update_from_flattened_dict(changes)
    parts = resize(config, row, size, parts)
    declare_parts(config, {name: nested(part) for name, part in parts.items()})
    return config


# --- sizes ----------------------------------------------------------------------------------------

SEEDS = {"demo": 4, "controls": 3, "search": 2, "three": 3, "scale": 3, "dynamics": 2,
         "generalization": 12, "families": 2, "joint": 3, "objectives": 3,
         "tangent": 3}  # fmt: skip
# A BERT that two CPU cores train in a minute; its penalty scales with its size.
SMALL = {
    "model.hidden": 64, "model.layers": 2, "model.heads": 2, "data.n_train": 600,
    "data.n_val": 150, "data.n_test": 200, "data.n_eval": 150, "data.batch": 32, "optim.lr": 1e-3,
    "train.epochs": 20, "checkpoint.epochs": 20, "masks.epochs": 30, "masks.seeds": (0,),
    "masks.n_draws": 10, "masks.penalties": (1e-6,), "masks.layers": (0,),
}  # fmt: skip
TEMPLATES = {
    "agreement": ("simple_agrmt", "prep_inanim"),
    "anaphora": FAMILIES["anaphora"],
    "three": ("obj_rel_across_inanim",),
}
# Bases see few problems, so that held-out accuracy differs between seeds.
FEW_PROBLEMS = {"data.n_base": 128, "train.epochs": 30, "masks.s0s": (0.05, 0.0)}
# Changes of single rows at default size.
DEFAULT = {
    "search": {"masks.s0s": (0.05, 0.0), "masks.lrs": (1e-2, 1e-3), "masks.layers": (0, 1)},
    "dynamics": {"checkpoint.keep": (1, 2, 4, 8)},
    "families": {"masks.penalties": (0.0, 1e-5, 1e-4), "masks.keeps": (0.8, 0.4)},
    "three": {"train.epochs": 20},
    "generalization": {
        **FEW_PROBLEMS,
        "model.hidden": 32,
        "data.n_train": 128,
        "masks.epochs": 15,
        "masks.batch": 16,
        "masks.n_draws": 4,
    },
}
FAST = {
    "dynamics": {"checkpoint.keep": (1, 2, 5, 10, 20)},
    "search": {"model.hidden": 128, "model.heads": 4, "optim.lr": 1e-3},
}
# No published size: `fast` and `paper` are 30 small BERTs with four configurations of masks.
OURS = {
    "generalization": {
        **FEW_PROBLEMS,
        "train.seeds": tuple(range(30)),
        "masks.lrs": (1e-2, 1e-3),
    },
}
SIZES = {
    "small": {"model.hidden": 16, "model.heads": 1}, "middle": {"model.hidden": 32},
    "large": {"model.hidden": 64},
}  # fmt: skip
# The parts of a language rule that run at default and smoke size.
FEW = ("scratch", "random_weights")
SMOKE = {
    "model.hidden": 16, "model.layers": 1, "model.heads": 1, "data.n_train": 12, "data.n_val": 4,
    "data.n_test": 4, "data.n_eval": 4, "data.batch": 8, "masks.batch": 8, "masks.epochs": 1,
    "masks.n_draws": 1, "train.epochs": 2, "checkpoint.epochs": 2, "eval.least": 0.0,
    "optim.patience": 2,
}  # fmt: skip


def resize(config, row: str, size: str, parts: dict) -> dict:
    """Changes the config to a size; returns the parts that run at it."""
    flat = Dotted(config)
    config.train.seeds = (0, 1, 2)
    if "data.templates" not in flat:
        return resize_vision(config, row, size, parts)
    grid = len(config.masks.s0s) > 1
    if row in OURS and size in ("fast", "paper"):
        flat["data.templates"] = TEMPLATES[config.data.rule]
        config.update_from_flattened_dict(SMALL | OURS[row])
    elif size == "paper":
        config.data.splits = "published" if row in CHOSEN else "disjoint"
        if row in CHOSEN:
            config.update_from_flattened_dict(GRID)
    elif size == "fast":
        config.update_from_flattened_dict({"train.epochs": 30, "masks.epochs": 30})
        parts = {name: _registered(part) for name, part in parts.items()}
        config.update_from_flattened_dict(FAST.get(row, {}))
    else:
        config.train.seeds = tuple(range(SEEDS.get(row, 3)))
        flat["data.templates"] = TEMPLATES[config.data.rule]
        config.update_from_flattened_dict(SMALL)
        config.update_from_flattened_dict(DEFAULT.get(row, {}))
        if row == "scale":
            parts = {name: dict(SIZES[name]) for name in parts}
        if row in CHOSEN:
            parts = {name: _registered(parts[name]) for name in FEW}
    if size == "smoke":
        config.train.seeds = (0, 1)
        config.update_from_flattened_dict(SMOKE)
        parts = {name: _tiny(part) for name, part in parts.items()}
        if "masks.keeps" in flat:
            flat["masks.keeps"], flat["masks.penalties"] = (0.5,), (0.0, 1e-4)
        if row == "dynamics":
            config.checkpoint.keep = (1,)
        if row == "tangent":
            config.eval.n_kernel = 2
        if grid:
            flat["masks.layers"], flat["masks.lrs"] = (0,), (1e-2,)
    if row == "dynamics":  # no early stopping before the last checkpoint
        config.optim.patience = config.train.epochs
    return parts


# Vision: REDUCED trains in minutes on one accelerator, TINY on two CPU cores.
REDUCED = {
    "data.image_size": 64, "data.n_train": 3000, "data.n_val": 300, "data.n_test": 500,
    "train.epochs": 40, "masks.epochs": 30, "model.blocks": (2, 2, 2, 2),
    "pretraining.n_train": 3000, "pretraining.epochs": 30,
    "model.patch": 8, "model.hidden": 192, "model.layers": 6, "model.heads": 6,
}  # fmt: skip
TINY = {
    "data.image_size": 64, "data.n_train": 300, "data.n_val": 60, "data.n_test": 60,
    "data.n_eval": 60, "train.epochs": 12, "masks.epochs": 8, "masks.seeds": (0,),
    "masks.n_draws": 5, "masks.penalties": (1e-7,), "model.blocks": (1, 1, 1, 1),
    "model.widths": (8, 16, 32, 64), "optim.patience": 12, "checkpoint.epochs": 12,
    "pretraining.n_train": 100, "pretraining.n_val": 20, "pretraining.batch": 32,
    "pretraining.epochs": 5, "model.patch": 8, "model.hidden": 64, "model.layers": 2,
    "model.heads": 2,
}  # fmt: skip
TINIER = {
    "data.image_size": 32, "data.n_train": 4, "data.n_val": 2, "data.n_test": 2, "data.n_eval": 2,
    "data.batch": 4, "masks.batch": 4, "train.epochs": 1, "masks.epochs": 1, "masks.n_draws": 1,
    "model.blocks": (1,), "model.widths": (4,), "eval.least": 0.0, "optim.patience": 1,
    "pretraining.n_train": 4, "pretraining.n_val": 2, "pretraining.batch": 4,
    "pretraining.epochs": 1, "checkpoint.epochs": 1, "model.hidden": 8, "model.layers": 1,
    "model.heads": 1,
}  # fmt: skip


def resize_vision(config, row: str, size: str, parts: dict) -> dict:
    """`resize` for rules about images; sizes below `paper` train only pre-registered masks."""
    flat = Dotted(config)
    if size == "paper":
        config.data.n_eval = 1000
        published = {**GRID, **STAGES, "masks.head": "constant"}
        config.update_from_flattened_dict(
            published if "masks.layers" in flat else {"optim.lr": 1e-5}
        )
    changes = {"fast": REDUCED, "default": TINY, "smoke": {**TINY, **TINIER}}.get(size, {})
    config.update_from_flattened_dict({k: v for k, v in changes.items() if k in flat})
    if size in ("fast", "paper"):
        config.train.at_once = (
            1  # several replicas at once are grouped convolutions, which are slow on GPUs
        )
    else:
        config.train.seeds = (0, 1)
        first = next(iter(parts))
        parts = {name: part for name, part in parts.items() if name in (first, "balanced")}
        parts = {
            name: {k: v for k, v in part.items() if k not in changes}
            for name, part in parts.items()
        }
    return parts


def _registered(part: dict) -> dict:
    """A part with the pre-registered configuration only."""
    return {
        name: value[:1] if name in ("masks.s0s", "masks.lrs", "masks.layers") else value
        for name, value in part.items()
    }


def _tiny(part: dict) -> dict:
    return {name: value for name, value in part.items() if name not in SMOKE}


_MINUTES = {"default": "minutes on two CPU cores (demo 4)", "smoke": "seconds",
            "fast": "minutes a part on one H200 (beside others: language 3 to 17, vision 5 to 13)",
            "paper": "one H200: anaphora, scratch, fixed configuration 11 minutes"}  # fmt: skip

_OUR_MINUTES = {
    **_MINUTES,
    "default": "12 bases: 265 s of CPU time",
    "fast": "30 bases: 130 s on one H200",
    "paper": "as fast",
}


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, *_) in ROWS.items():
        n = len(PUBLISHED["subnetworks"].get(name, ()))
        expect = f"{n} published numbers" if n else ""
        times = _OUR_MINUTES if name in OURS else _MINUTES
        yield {"name": name, "doc": doc, "times": times, "expect": expect}
