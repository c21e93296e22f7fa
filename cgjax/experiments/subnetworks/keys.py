"""The config keys that each kind of study reads, in addition to those of the training loop."""

from cgjax.config.declare import key, names_in
from cgjax.experiments.subnetworks import language

FAMILIES = names_in("analysis.masks", "FAMILIES")
TOKENS = names_in("experiments.subnetworks.language.tasks", "TOKENS")
LANGUAGE_NETS = names_in("experiments.subnetworks.language.tasks", "NETS")
LANGUAGE_STARTS = names_in("experiments.subnetworks.language.tasks", "STARTS")
VISION_STARTS = names_in("experiments.subnetworks.vision.tasks", "STARTS")
RESNETS = names_in("experiments.subnetworks.vision.tasks", "RESNETS")
OBJECTIVES = names_in("experiments.subnetworks.search.training", "OBJECTIVES")
HEADS = names_in("experiments.subnetworks.search.training", "HEADS")
VISION_RULES = tuple(
    name.replace("-", "_") for name in names_in("experiments.subnetworks.vision.rules", "RULES")
)

RULE = {
    "data.seed": key(0, "seed of the problems, which all bases share", low=0),
    "data.n_train": key(9500, "training problems of the compositional and mask sets", low=1),
    "data.n_val": key(500, "validation problems of every set", low=1),
    "data.n_test": key(1000, "test problems of the compositional and mask sets", low=1),
    "data.n_eval": key(300, "problems of the tests of single subroutines", low=1),
    "data.batch": key(32, "problems per update of a base", low=1),
    "optim.lr": key(1e-4, "constant learning rate of bases", above=0, is_traced=True),
    "optim.patience": key(30, "epochs without a better validation loss that end training", low=1),
    "eval.least": key(0.9, "test accuracy below which means exclude a base", low=0, high=1),
    "model.dtype": key("float32", "precision of products; scores and masks are float32",
                       choices=names_in("experiments.subnetworks.tasks", "DTYPES")),
}  # fmt: skip
LANGUAGE = RULE | {
    "data.rule": key("agreement", "rule of the sentences", choices=tuple(language.FAMILIES)),
    "data.number": key("singular", "grammatical number in the rule", choices=language.NUMBERS),
    "data.templates": key(language.FAMILIES["agreement"], "templates of sentences, mixed freely",
                          choices=tuple(language.TEMPLATES), distinct=True),
    "data.splits": key("disjoint", "disjoint: no sentence is in two of training, validation, test",
                       choices=names_in("experiments.subnetworks.language.tasks", "SPLITS")),
    "data.held_out": key("nothing", "what training excludes, for a separate test",
                         choices=language.HELD_OUT),
    "data.tokens": key("words", "stems: number is a separate token; wordpiece: as in MiniLM",
                       choices=TOKENS),
    "model.arch": key("bert", "modular, template: built by hand", choices=LANGUAGE_NETS),
    "model.start": key("scratch", "random: untrained; pretrained: MiniLM, with its shape",
                       choices=LANGUAGE_STARTS),
    "model.hidden": key(512, "width of BERT; its inner layers are four times as wide", low=1),
    "model.layers": key(4, "layers of BERT", low=1),
    "model.heads": key(8, "attention heads", low=1),
}  # fmt: skip
BASES = {"data.n_base": key(128, "of the training problems, those that bases see", low=1)}
MASKS = {
    "masks.s0s": key((0.05,), "first scores, or shares to keep; the first is pre-registered",
                     distinct=True, is_traced=True),
    "masks.lrs": key((1e-2,), "learning rates of scores; the first is pre-registered", above=0,
                     distinct=True, is_traced=True),
    "masks.layers": key((0,), "first masked layer or stage; the first is pre-registered", low=0,
                        distinct=True),
    "masks.penalties": key((1e-8,), "penalty lambda on each kept weight", low=0, distinct=True,
                           is_traced=True),
    "masks.seeds": key((0, 1, 2), "seeds of masks of one configuration", low=0, high=2**32 - 1,
                       distinct=True),
    "masks.epochs": key(90, "passes over a mask's training set", low=1),
    "masks.batch": key(64, "problems per update of masks", low=1),
    "masks.beta_max": key(200.0, "temperature beta of the last epoch", above=1),
    "masks.objective": key("target", "training objective of masks", choices=OBJECTIVES),
    "masks.n_draws": key(20, "size-matched removals of each kind; 0: none", low=0),
}  # fmt: skip
ONE_FAMILY = {
    "masks.family": key("continuous_sparsification", "family of masks", choices=FAMILIES),
}
SEVERAL_FAMILIES = {
    "masks.families": key(FAMILIES, "families of masks, one after another",
                          choices=FAMILIES, distinct=True),
    "masks.keeps": key((0.5,), "initial shares of hard concrete and magnitude", above=0,
                       high=1, distinct=True),
}  # fmt: skip
VISION = RULE | {
    "data.rule": key("number_contact", "rule of the images", choices=VISION_RULES),
    "data.image_size": key(128, "pixels along a side", low=32, high=1024),
    "data.balanced": key(False, "odd images have fewer objects as often as more; pairs that do not "
                         "fit are redrawn"),
    "model.start": key("scratch", "random: untrained; simclr: contrastive pretraining",
                       choices=VISION_STARTS),
}  # fmt: skip
RESNET = VISION | {
    "model.arch": key(
        "resnet50",
        "basic blocks, bottlenecks, or wide bottlenecks",
        choices=RESNETS,
    ),
    "model.blocks": key((3, 4, 6, 3), "blocks of each stage", low=1),
    "model.widths": key((64, 128, 256, 512), "widths of each stage", low=1),
    "model.form": key(
        "auto", "implementation of convolutions", choices=names_in("nets.conv", "FORMS")
    ),
    "masks.head": key(
        "annealed",
        "temperature of the head's masks; constant: 1, as in the release",
        choices=HEADS,
    ),
}
VIT = VISION | {
    "model.arch": key("vit", "a vision transformer", choices=("vit",)),
    "model.patch": key(16, "pixels along a side of a patch", low=1),
    "model.hidden": key(768, "width of the transformer", low=1),
    "model.layers": key(12, "layers of the transformer", low=1),
    "model.heads": key(12, "attention heads", low=1),
}
SIMCLR = {
    "pretraining.n_train": key(10_000, "training problems of each rule", low=2),
    "pretraining.n_val": key(64, "validation problems of each rule, in one batch", low=2),
    "pretraining.batch": key(128, "problems per update", low=1),
    "pretraining.epochs": key(100, "passes over all problems", low=1),
    "pretraining.lr": key(5e-4, "initial learning rate", above=0),
}
TANGENT = {"eval.n_kernel": key(16, "inputs of each kind for the kernels", low=2)}
STAGES = {
    "masks.prune": key(False, "whether a mask for the whole rule first prunes the bases"),
    "masks.selected_by": key("", "part whose selected configurations this part takes; empty: own"),
}
