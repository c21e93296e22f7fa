"""The keys that each kind of study reads, beside those of the training loop."""

from cgjax.analysis.masks import FAMILIES
from cgjax.config.declare import key
from cgjax.experiments.subnetworks import language, problems, searches, tasks, vision_tasks
from cgjax.nets.conv import FORMS

RULE = {
    "data.seed": key(0, "draws the problems, which all bases share", low=0),
    "data.n_train": key(9500, "problems of the compositional set and of each mask's", low=1),
    "data.n_val": key(500, "of every set", low=1),
    "data.n_test": key(1000, "of the compositional set and of each mask's", low=1),
    "data.n_eval": key(300, "of the tests of single subroutines", low=1),
    "data.batch": key(32, "problems of one update of a base", low=1),
    "optim.lr": key(1e-4, "of bases, constant", above=0, is_traced=True),
    "optim.patience": key(30, "epochs without a better validation loss that end training", low=1),
    "eval.least": key(0.9, "test accuracy below which a base counts in no mean", low=0, high=1),
    "model.dtype": key("float32", "of products; scores and masks are float32", choices=tuple(
        tasks.DTYPES)),
}  # fmt: skip
LANGUAGE = RULE | {
    "data.rule": key("agreement", "what a sentence obeys", choices=tuple(language.FAMILIES)),
    "data.number": key("singular", "the number that the rule asks for", choices=language.NUMBERS),
    "data.templates": key(language.FAMILIES["agreement"], "of sentences, mixed freely",
                          choices=tuple(language.TEMPLATES), distinct=True),
    "data.splits": key("disjoint", "disjoint: no sentence is in two of training, validation, test",
                       choices=problems.SPLITS),
    "data.held_out": key("nothing", "what training never sees, for a test of its own",
                         choices=language.HELD_OUT),
    "data.tokens": key("words", "stems: number is a token; wordpiece: as pretrained",
                       choices=tasks.TOKENS),
    "model.arch": key("bert", "modular, template: built by hand", choices=tasks.LANGUAGE_NETS),
    "model.start": key("scratch", "random: never trained; pretrained: MiniLM, with its shape",
                       choices=tasks.STARTS),
    "model.hidden": key(512, "of BERT; its inner layers are four times as wide", low=1),
    "model.layers": key(4, "of BERT", low=1),
    "model.heads": key(8, "of attention", low=1),
}  # fmt: skip
MASKS = {
    "masks.s0s": key((0.05,), "first scores, or shares to keep; the first is pre-registered",
                     distinct=True, is_traced=True),
    "masks.lrs": key((1e-2,), "of scores; the first is pre-registered", above=0, distinct=True,
                     is_traced=True),
    "masks.layers": key((0,), "first masked layer or stage; the first is pre-registered", low=0,
                        distinct=True),
    "masks.penalties": key((1e-8,), "lambda, of each kept weight", low=0, distinct=True,
                           is_traced=True),
    "masks.seeds": key((0, 1, 2), "of masks of one configuration", low=0, high=2**32 - 1,
                       distinct=True),
    "masks.epochs": key(90, "passes over a mask's training set", low=1),
    "masks.batch": key(64, "problems of one update of masks", low=1),
    "masks.beta_max": key(200.0, "temperature of the last epoch", above=1),
    "masks.from_one": key(False, "the first epoch has temperature 1, the last less than beta_max"),
    "masks.objective": key("target", "what masks are trained for", choices=searches.OBJECTIVES),
    "masks.n_draws": key(20, "removals of the same size, of each kind; 0: none", low=0),
}  # fmt: skip
ONE_FAMILY = {
    "masks.family": key("continuous_sparsification", "of masks", choices=tuple(FAMILIES)),
}
SEVERAL_FAMILIES = {
    "masks.families": key(tuple(FAMILIES), "of masks, one after another", choices=tuple(FAMILIES),
                          distinct=True),
    "masks.keeps": key((0.5,), "shares that hard concrete and magnitude begin with", above=0,
                       high=1, distinct=True),
}  # fmt: skip
VISION = RULE | {
    "data.rule": key("number_contact", "what an image obeys", choices=vision_tasks.RULES),
    "data.image_size": key(128, "pixels along a side", low=16),
    "data.balanced": key(False, "odd images have as often fewer objects as more; pairs that do not "
                         "fit are drawn anew"),
    "model.start": key("scratch", "random: never trained; simclr: pretrained by contrast",
                       choices=vision_tasks.STARTS),
}  # fmt: skip
RESNET = VISION | {
    "model.arch": key(
        "resnet50", "basic blocks, bottlenecks, or wider ones", choices=tuple(vision_tasks.RESNETS)
    ),
    "model.blocks": key((3, 4, 6, 3), "of each stage", low=1),
    "model.widths": key((64, 128, 256, 512), "of each stage", low=1),
    "model.form": key("auto", "of convolutions", choices=FORMS),
}
VIT = VISION | {
    "model.arch": key("vit", "a vision transformer", choices=("vit",)),
    "model.patch": key(16, "pixels along a side of a patch", low=1),
    "model.hidden": key(768, "of the transformer", low=1),
    "model.layers": key(12, "of the transformer", low=1),
    "model.heads": key(12, "of attention", low=1),
}
SIMCLR = {
    "pretraining.n_train": key(10_000, "problems of each rule", low=2),
    "pretraining.n_val": key(64, "problems of each rule, all at once", low=2),
    "pretraining.batch": key(128, "problems of one update", low=1),
    "pretraining.epochs": key(100, "passes over all problems", low=1),
    "pretraining.lr": key(5e-4, "first learning rate", above=0),
}
TANGENT = {"eval.n_kernel": key(16, "inputs of each kind between which kernels are taken", low=2)}
PRUNED = {"masks.prune": key(False, "bases are first pruned by a mask for the whole rule")}
