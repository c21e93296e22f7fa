"""Pairs of frozen pretrained layers: does a linear probe name factors of unseen combinations?

A pair is a layer of a backbone and a factor set of which k values of the second factor are known
with each value of the first. Two ridge probes read the layer, one for each factor; scores are mean
accuracies. The score on known combinations leaves each image out; features without the factors then
score below chance, because the class that loses an image is the rarest. A pair's seed draws the
known combinations. Controls: the same architecture with random weights (three draws, which seeds
take in turn), pixels or counts of words, and factors shuffled over the images.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from cgjax.analysis import geometry, predictors
from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.data import factor_sets, sources, wordpiece
from cgjax.data import pretrained as packages
from cgjax.data.factor_sets import FactorSet
from cgjax.experiments.predict import rules
from cgjax.experiments.predict.rules import Pair, held_out
from cgjax.nets.convert import backbones

BLOCK = "pretrained"
LAYERS = {
    "efficientnet_lite0": ("stage1", "stage4", "stage6", "head"),
    "resnet50": ("stage1", "stage2", "stage3", "stage4"),
    "vgg16": ("stage2", "stage3", "stage4", "stage5"),
    "minilm": ("layer0", "layer2", "layer4", "layer6"),
}
TEXT = ("minilm",)  # backbones that read sentences
RANDOM = ("efficientnet_lite0", "resnet50", "minilm")  # VGG16 would take four times their time
N_RANDOM = 3  # draws of random weights
PIXELS = 32  # side of the images that the control reads
BATCH = 16
# All pairs of the block, of which some are held out.
FULL = {"sets": tuple(factor_sets.SETS), "seen": (1, 2, 4), "backbones": tuple(LAYERS)}
NO_PARTS = "a frozen layer: its inputs have no parts that belong to one output"


class Layer(NamedTuple):
    """One representation of a factor set."""

    model: str
    cluster: str
    draws: list[np.ndarray]  # features [n, D] of each draw of weights; seeds take turns


def check(config) -> None:
    """Raises an error if weights or data are missing, or no backbone reads a set."""
    settings = config.pretrained
    for name in settings.backbones:
        packages.files(name)
    for name in settings.sets:
        _, (_, second), _ = factor_sets.SETS[name]
        if wrong := [k for k in settings.seen if k > second - 2]:
            raise BadInput(f"pretrained.seen has {wrong[0]}: at most {second - 2} for {name}")
        needs = factor_sets.NEEDS.get(name)
        if needs and not sources.is_here(needs):
            raise BadInput(f"pretrained.sets has {name}, which needs the data set {needs}")
        if not _readers(name, settings.backbones):
            kinds = [b for b in LAYERS if (b in TEXT) == (name in factor_sets.TEXT)]
            raise BadInput(f"no backbone reads {name}: add one of {', '.join(kinds)}")
    if "words" in settings.sets and settings.repeats > len(factor_sets.SUBJECTS):
        raise BadInput(f"pretrained.repeats is at most {len(factor_sets.SUBJECTS)} for words")


def pairs(config) -> Iterator[Pair]:
    """Every pair of the config, with a seed at a time."""
    settings, unscored = config.pretrained, held_out(names(**FULL))
    networks = {name: load(name) for name in settings.backbones}
    programs = {name: jax.jit(net.features) for name, net in networks.items()}
    for set_name in settings.sets:
        data = factor_sets.make(set_name, settings.side, settings.repeats)
        readers = _readers(set_name, settings.backbones)
        layers = [control(set_name, data)]
        for name in readers:
            say(f"{set_name}: features of {name}")
            layers += of_backbone(name, set_name, networks[name], programs[name], data)
        shuffled = np.random.default_rng(0).permutation(data.factors)
        last = f"{readers[0]}_{LAYERS[readers[0]][-1]}"
        for k in settings.seen:
            task = f"{set_name}_k{k}"
            say(f"{task}: probes of {len(layers)} layers")
            for layer in layers:
                for seed in config.train.seeds:
                    features = layer.draws[seed % len(layer.draws)]
                    pair = Pair(
                        block=BLOCK,
                        task=task,
                        model=layer.model,
                        cluster=layer.cluster,
                        seed=seed,
                        held_out=f"{BLOCK}/{task}/{layer.model}" in unscored,
                        **of_features(features, data.factors, k, seed),
                    )
                    yield pair
                    if layer.model == last:
                        yield dataclasses.replace(
                            pair,
                            model=f"{readers[0]}_shuffled",
                            cluster=f"shuffled {set_name}",
                            held_out=False,
                            **of_features(features, shuffled, k, seed),
                        )


def names(sets, seen, backbones) -> list[str]:
    """The names of all pairs, without those of shuffled factors."""
    return [
        f"{BLOCK}/{set_name}_k{k}/{model}"
        for set_name in sets
        for k in seen
        for model in (_control(set_name), *_models(_readers(set_name, backbones)))
    ]


# --- representations ------------------------------------------------------------------------------


def load(name: str) -> backbones.Backbone:
    """A backbone with its trained weights."""
    path = packages.files(name)[0]
    return getattr(backbones, name)(path.parent if name in TEXT else path)


def of_backbone(name, set_name, net, program, data: FactorSet) -> list[Layer]:
    """The layers of LAYERS, trained and with random weights."""
    inputs = as_input(name, data.inputs)
    places = [net.layers.index(layer) for layer in LAYERS[name]]
    kinds = [(name, [net.variables])]
    if name in RANDOM:
        first = tree.take(inputs, slice(1))
        draw = jax.jit(net.init)
        kinds.append((f"{name}_random", [draw(jax.random.key(i), first) for i in range(N_RANDOM)]))
    layers = []
    for kind, variables in kinds:
        draws = [features(program, drawn, inputs) for drawn in variables]
        for layer, place in zip(LAYERS[name], places):
            of_draws = [draw[place] for draw in draws]
            layers.append(Layer(f"{kind}_{layer}", f"{kind} {set_name}", of_draws))
    return layers


def as_input(name, inputs: np.ndarray):
    """Images from 0 to 1, or ids and mask of sentences."""
    if name in TEXT:
        vocabulary = wordpiece.read_vocabulary(packages.minilm() / "vocab.txt")
        return wordpiece.encode(map(str, inputs), vocabulary)
    return np.float32(inputs) / 255


def features(program, variables, inputs) -> list[np.ndarray]:
    """The features [n, D] of each layer, in batches of one size."""
    n = len(jax.tree.leaves(inputs)[0])
    batches = []
    for start in range(0, n, BATCH):
        rows = np.minimum(np.arange(start, start + BATCH), n - 1)
        batches.append(jax.device_get(program(variables, tree.take(inputs, rows))))
    return [np.concatenate(layer)[:n] for layer in zip(*batches)]


def control(set_name, data: FactorSet) -> Layer:
    """Pixels averaged to 32 x 32, or counts of words."""
    if set_name in factor_sets.TEXT:
        words = [str(sentence).split() for sentence in data.inputs]
        vocabulary = sorted({word for sentence in words for word in sentence})
        values = np.array([[sentence.count(word) for word in vocabulary] for sentence in words])
    else:
        n, side = data.inputs.shape[:2]
        blocks = data.inputs.reshape(n, PIXELS, side // PIXELS, PIXELS, side // PIXELS, 3)
        values = blocks.mean(axis=(2, 4)).reshape(n, -1) / 255
    model = _control(set_name)
    return Layer(model, f"{model} {set_name}", [values.astype(np.float64)])


def _control(set_name) -> str:
    return "word_counts" if set_name in factor_sets.TEXT else "pixels"


def _models(readers) -> list[str]:
    kinds = [(name, name) for name in readers]
    kinds += [(name, f"{name}_random") for name in readers if name in RANDOM]
    return [f"{kind}_{layer}" for name, kind in kinds for layer in LAYERS[name]]


def _readers(set_name, backbones) -> list[str]:
    """The backbones that read a set."""
    return [name for name in backbones if (name in TEXT) == (set_name in factor_sets.TEXT)]


# --- scores ---------------------------------------------------------------------------------------


def of_features(features, factors, k: int, draw: int) -> dict:
    """Scores, chance and predictors of probes on features [n, D] with factors [n, 2].

    Asked are the unseen combinations whose two values are known in other combinations.
    """
    sizes = tuple(int(n) for n in factors.max(axis=0) + 1)
    known = factor_sets.known(sizes, k, draw)
    is_known = known[tuple(factors.T)]
    seen = [np.unique(factors[is_known, c]) for c in range(2)]
    is_new = ~is_known & np.isin(factors[:, 0], seen[0]) & np.isin(factors[:, 1], seen[1])
    kernel = geometry.kernel(features[is_known], features[is_new])
    fits, scores, targets, new_targets = [], [], [], []
    for c in range(2):
        target, new_target = (
            (factors[rows, c, None] == seen[c]).astype(float) for rows in (is_known, is_new)
        )
        fit = geometry.ridge(kernel, target)
        scores.append((accuracy(fit.left_out, target), accuracy(fit.new, new_target)))
        fits.append(fit)
        targets.append(target)
        new_targets.append(new_target)
    target, new_target = np.hstack(targets), np.hstack(new_targets)
    known_score, unseen_score = (float(score) for score in np.mean(scores, axis=0))
    chance = float(np.mean([1 / len(values) for values in seen]))
    error = np.sum((geometry.ridgeless(kernel, target) - new_target) ** 2)
    spread = np.sum((new_target - new_target.mean(axis=0)) ** 2)
    view = predictors.View(
        factors=factors[is_known],
        asked=np.unique(factors[is_new], axis=0),
        features=np.asarray(features[is_known], np.float64),
        outputs=np.hstack([fit.outputs for fit in fits]),
        targets=target,
    )
    numbers = rules.numbers(
        view,
        loss=1 - (known_score - chance) / (1 - chance),
        tangent=float(np.clip(1 - error / spread, -1, 1)),
        dependence=NO_PARTS,
    )
    return {
        "known": known_score,
        "unseen": unseen_score,
        "chance": chance,
        "predictors": numbers,
    }


def accuracy(outputs, targets) -> float:
    """Share of rows whose largest output is that of the target."""
    return float(np.mean(np.argmax(outputs, axis=1) == np.argmax(targets, axis=1)))
