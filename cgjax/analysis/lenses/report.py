"""The report of `look`: a bullet for each lens, with a verdict, its numbers and the next step.

Ranks in the benchmark follow if the model is comparable with its networks. Numbers in the middle of
a scale get no verdict; the thresholds are below.
"""

import functools
import itertools
import json
import pathlib
from typing import NamedTuple

import numpy as np

from cgjax.analysis import predictors

NEARLY, HARDLY = 0.99, 0.01  # shares
HIGH, LOW = 0.95, 0.05  # slopes, R2 and accuracies
STRUCTURED = 0.9  # share of a kernel from which on its saliences describe it
NOT_A_SUM = 0.9  # additive share below which a product is distinct from a sum
SEPARATE = 0.9  # differences of effects in and without a subnetwork
CLOSE = 0.1  # slopes, and accuracies, that differ by less are called equal
IGNORED = 1e-6  # share of the variance up to which a weak factor is ignored
COARSE = 1e-4  # relative rounding from which on a tangent kernel is approximate
NOISE = 5.0  # times the share of sampling noise: an R2 that misses 1 by less may be noise alone
MOST_ROWS, MOST_LAYERS = 4, 8  # that are listed


def bullets(lenses) -> list[str]:
    """One text for held-out combinations, support, factors, layers, subnetworks and ranks."""
    texts = {
        "Held-out combinations": _held_out(lenses),
        "Support": _support(lenses),
        "Factors": _factors(lenses),
        "Layers": _layers(lenses),
        "Subnetworks": _subnetworks(lenses),
    }
    if lenses.ranks:
        texts["Benchmark"] = _ranks(lenses.ranks)
    return [f"{title}: {text}" for title, text in texts.items()]


def headline(lenses) -> str:
    """One sentence above the figure."""
    kernel, accuracy = lenses.kernel, lenses.accuracy
    if accuracy is not None:
        return (
            f"Accuracy {np.mean(accuracy.held_out):.2f} on held-out combinations, "
            f"{np.mean(accuracy.train):.2f} on training combinations"
        )
    if kernel.slope is None:
        return "Lenses on a model; its slope on held-out combinations is undefined"
    text = f"On held-out combinations the model keeps {kernel.slope:z.2f} of the reference"
    if kernel.slope_kernel is None:
        return text
    return f"{text}; its tangent kernel predicts {kernel.slope_kernel:z.2f}"


# --- held-out combinations ------------------------------------------------------------------------


def _held_out(lenses):
    if lenses.accuracy is not None:
        verdict, step = _accuracy_verdict(lenses)
        numbers = _accuracy_numbers(lenses)
    elif lenses.kernel.slope is None:
        return f"undefined, {lenses.kernel.reasons['slope']}."
    else:
        verdict, step = _slope_verdict(lenses)
        numbers = _slope_numbers(lenses.kernel)
    return f"{verdict}; {numbers}. Next: {step}."


def _accuracy_numbers(lenses):
    accuracy, kernel = lenses.accuracy, lenses.kernel
    n_held_out = int(np.sum(~kernel.is_train))
    text = (
        f"accuracy {np.mean(accuracy.train):.2f} on {np.sum(kernel.is_train)} training and "
        f"{np.mean(accuracy.held_out):.2f} on {n_held_out} held-out combinations "
        f"({accuracy.n_held_out} inputs"
    )
    if len(accuracy.held_out) > 1:
        worst = int(np.argmin(accuracy.held_out))
        text += f"; worst of {len(accuracy.held_out)} heads {accuracy.held_out[worst]:.2f}"
    text += f"; best constant answer {np.mean(accuracy.constant):.2f}"
    if accuracy.kernel is not None:
        text += f"; tangent-kernel machine {np.mean(accuracy.kernel):.2f}"
    return text + ")"


def _accuracy_verdict(lenses):
    """The verdict and the next step, by the worst head."""
    accuracy, weak = lenses.accuracy, _weak(lenses)
    clause = f", {weak.text}" if weak.text else ""
    if np.min(accuracy.train) < HIGH:
        return f"no verdict, the model does not fit the training labels{clause}", (
            weak.step or "fit the training labels first"
        )
    if np.max(accuracy.new_labels) > 0:
        share = np.max(accuracy.new_labels)
        return f"no verdict, {share:.0%} of held-out labels are in no training combination", (
            "hold out combinations whose labels are in the training set"
        )
    if np.max(accuracy.constant) >= HIGH:
        return "no verdict, held-out labels hardly vary", "hold out combinations of several labels"
    if np.min(accuracy.held_out) < HIGH:
        is_constant = np.all(accuracy.held_out <= accuracy.constant)
        verdict = "does not generalise" if is_constant else "generalises in part"
        return verdict + clause, weak.step or _more_salient(lenses)
    if weak.n_others < 2:
        return f"generalises without composing{clause}", weak.step
    gap = 0 if accuracy.kernel is None else np.mean(accuracy.held_out - accuracy.kernel)
    return "generalises" + clause, _after_success(lenses, gap)


def _reference(kernel):
    return "the targets" if kernel.has_targets else "the additive continuation"


def _slope_numbers(kernel):
    text = (
        f"slope {kernel.slope:z.3f} (standard error {kernel.slope_error:.3f}) and R2 "
        f"{kernel.r2:z.3f} against {_reference(kernel)} on {np.sum(kernel.is_judged)} held-out "
        f"combinations, R2 {kernel.r2_train:z.3f} on {np.sum(kernel.is_train)} training ones"
    )
    if kernel.outputs.shape[1] > 1:
        text += f", mean R2 of single outputs {kernel.r2_outputs:.3f}"
    if kernel.slope_kernel is None:
        return text
    text += f"; tangent-kernel machine: slope {kernel.slope_kernel:z.3f}"
    text += " (approximate, f computes with few digits)" if kernel.rounding > COARSE else ""
    if kernel.salience is None:
        return text
    saliences = ", ".join(f"{s:z.3f}" for s in kernel.salience)
    text += f", saliences S(1..{len(kernel.salience)}) = {saliences}"
    if kernel.structured < STRUCTURED:
        return f"{text} (shared factors explain only {kernel.structured:.2f} of the kernel)"
    return text


def _slope_verdict(lenses):
    """The verdict and the next step, from the slope and R2 against the reference."""
    kernel, weak = lenses.kernel, _weak(lenses)
    clause = f", {weak.text}" if weak.text else ""
    if weak.is_missed:
        return f"does not compose{clause}", weak.step
    noise = 0.0 if lenses.dependence is None else lenses.dependence.noise
    if noise > HARDLY and _is_noise(kernel, noise):
        return f"no verdict, sampling noise is {noise:.3f} of the variance{clause}", (
            "use more inputs of each combination"
        )
    if kernel.r2_train < HIGH and kernel.has_targets:
        return "no verdict, the model does not fit the training targets", "fit them first"
    if kernel.r2_train < HIGH:
        return "no verdict, training outputs are not a sum over factors", (
            "pass targets, or labels of a classifier"
        )
    if weak.n_others < 2 and kernel.has_targets:
        nothing = "nothing" if weak.is_ignored else "hardly anything"
        return f"{nothing} to compose{clause}", weak.step
    if weak.n_others < 2:
        verdict = "does not compose" if weak.is_ignored else "no verdict"
        return verdict + clause, weak.step
    how = "" if kernel.has_targets else " as a sum over factors"
    if min(kernel.slope, kernel.r2, kernel.r2_outputs) >= HIGH:
        gap = 0 if kernel.slope_kernel is None else kernel.slope - kernel.slope_kernel
        if gap > CLOSE and kernel.rounding <= COARSE:
            # So does a table with all values, whose kernel shares nothing between combinations.
            return f"matches {_reference(kernel)}{clause}", _after_success(lenses, gap)
        return f"composes{how}{clause}", _after_success(lenses, gap)
    return _failure(kernel, how) + clause, _more_salient(lenses)


def _is_noise(kernel, noise):
    """Whether noise alone may be why R2 or the slope is not 1."""
    missing = 1 - min(kernel.r2_train, kernel.r2)
    away = abs(1 - kernel.slope)
    is_success = max(missing, away) <= 1 - HIGH
    return not is_success and missing <= NOISE * noise and away <= 3 * kernel.slope_error


def _failure(kernel, how):
    """What a model with a low slope or R2 does on held-out combinations."""
    y, f = (np.var(a[kernel.is_judged], axis=0).sum() for a in (kernel.reference, kernel.outputs))
    if abs(kernel.slope) <= LOW and f <= LOW * y:
        return "memorises, held-out outputs hardly vary"
    if kernel.slope <= max(LOW, 2 * kernel.slope_error):
        return f"does not compose{how}"
    if kernel.slope < HIGH and kernel.slope + 2 * kernel.slope_error < 1:
        return f"composes in part{how}, with slope {kernel.slope:.2f}"
    if kernel.slope > 1 / HIGH and kernel.slope - 2 * kernel.slope_error > 1:
        return f"does not compose{how}, overshoots with slope {kernel.slope:.2f}"
    if kernel.r2 <= 0:
        return f"does not compose{how}, errors exceed the variance of {_reference(kernel)}"
    return f"composes with errors{how}"


def _after_success(lenses, gap):
    """The next step; gap: by how much the model exceeds the machine with its tangent kernel."""
    if gap > CLOSE and lenses.kernel.rounding <= COARSE:
        return (
            "check that no held-out combination was trained, because the tangent kernel predicts "
            "less; then repeat with other seeds"
        )
    if lenses.accuracy is None and not lenses.kernel.has_targets:
        return "pass targets to compare with the true outputs"
    return "repeat with other seeds and other held-out combinations"


def _more_salient(lenses):
    """The next step for a model that does not generalise."""
    salience = lenses.kernel.salience
    first = "" if lenses.accuracy or lenses.kernel.has_targets else "pass targets; if they add, "
    if salience is not None and salience[-1] > salience[0]:
        return (
            f"{first}make single factors more salient (whole combinations have S = "
            f"{salience[-1]:.2f}): smaller initial weights, inputs that show factors apart, more "
            "training combinations"
        )
    return f"{first}add training combinations, and compare with other seeds"


class _Weak(NamedTuple):
    """Factors with which outputs hardly change."""

    text: str = ""
    step: str = ""
    n_others: int = 2  # factors that are not weak, as far as it is known
    is_missed: bool = False  # targets or labels need a weak factor
    is_ignored: bool = False  # outputs do not change with the weak factors at all


def _weak(lenses):
    dependence = lenses.dependence
    if dependence is None or not dependence.is_weak.any():
        return _Weak()
    names = np.array(lenses.names)
    is_weak, is_needed = dependence.is_weak, dependence.is_needed
    is_ignored = bool(np.all(dependence.largest[is_weak] <= IGNORED))
    is_missed = is_needed is not None and bool(np.any(is_needed[is_weak]))
    truth = "targets" if lenses.accuracy is None else "labels"
    subject = "outputs" if is_needed is None or is_missed else f"outputs and {truth}"
    weak = " and ".join(names[is_weak])
    text = f"{subject} {'ignore' if is_ignored else 'hardly depend on'} {weak}"
    if is_missed:
        text += f" but {truth} need {' and '.join(names[is_weak & is_needed])}"
    step = f"check that x shows {weak}"
    if is_needed is None:
        step += " and that the task needs it"
    elif not is_missed:
        step = f"choose {truth} that need two factors"
    return _Weak(text, step, int(np.sum(~is_weak)), is_missed, is_ignored)


# --- support --------------------------------------------------------------------------------------


def _support(lenses):
    audit = lenses.support
    if audit is None:
        return f"undefined, {lenses.reasons['support']}."
    if audit.holds:
        return f"{audit.verdict} Next: train, and compare with held-out combinations."
    return f"{audit.verdict} Next: add the training combinations that `support.design` proposes."


# --- factors --------------------------------------------------------------------------------------


def _factors(lenses):
    dependence = lenses.dependence
    if dependence is None:
        return f"undefined, {lenses.reasons['dependence']}."
    verdict, step = _factors_verdict(lenses)
    shares = "; ".join(_row(row, lenses.names) for row in dependence.effects[:MOST_ROWS])
    text = f"{verdict}; share of the variance when one factor changes: {shares}"
    n_more = len(dependence.effects) - MOST_ROWS
    text += f"; {n_more} more" if n_more > 0 else ""
    text += f" (sampling noise {dependence.noise:.3f})" if dependence.noise > 0 else ""
    kernel = lenses.kernel
    if kernel.additivity is not None:
        text += (
            f"; conjunctions of the training set explain {kernel.additivity:.3f} of held-out "
            f"outputs ({kernel.additivity_random:.3f} of random ones)"
        )
    return f"{text}. Next: {step}."


def _factors_verdict(lenses):
    dependence, weak = lenses.dependence, _weak(lenses)
    if weak.n_others < 2:
        return weak.text, weak.step
    if np.isnan(dependence.interaction).all():
        return "no verdict, any outputs on these combinations are a sum over factors", (
            "add inputs with more combinations"
        )
    clause = f", {weak.text}" if weak.text else ""
    largest, needed = np.nanmax(dependence.interaction), dependence.interaction_needed
    numbers = f"interaction {largest:z.3f} of the variance"
    numbers += " in the worst row" if len(dependence.effects) > 1 else ""
    numbers += "" if needed is None else f" (targets {needed:z.3f})"
    if HARDLY < largest <= HARDLY + NOISE * dependence.noise:
        return f"factors add up to sampling noise, {numbers}{clause}", (
            "use more inputs of each combination"
        )
    if largest > HARDLY:
        step = _compared(lenses, needed, "pass taps to find the layer where factors mix")
        return f"factors interact, {numbers}{_pairs(lenses)}{clause}", step
    step = _compared(lenses, needed, "use a model that can represent interactions")
    has_effect = np.nan_to_num(dependence.effects) > HARDLY
    is_modular = len(has_effect) > 1 and np.all(has_effect.sum(axis=1) == 1)
    if is_modular and np.all(has_effect.any(axis=0)):
        return f"each output depends on one factor, each factor has an output, {numbers}", step
    return f"factors add, {numbers}{clause}", step


def _compared(lenses, needed, step):
    """The next step; step: for outputs that interact while targets do not, or the reverse."""
    if needed is None:
        return "pass targets to compare" if lenses.accuracy is None else "repeat with other seeds"
    is_interacting = np.nanmax(lenses.dependence.interaction) > HARDLY
    return "repeat with other seeds" if is_interacting == (needed > HARDLY) else step


def _pairs(lenses):
    """The interactions of pairs of three or more factors."""
    dependence, names = lenses.dependence, lenses.names
    if len(names) < 3:
        return ""
    pairs = itertools.combinations(range(len(names)), 2)
    shares = {f"{names[i]} x {names[j]}": dependence.pairs[:, i, j] for i, j in pairs}
    shares["beyond pairs"] = dependence.higher
    return f" ({', '.join(f'{name} {_largest(rows)}' for name, rows in shares.items())})"


def _largest(rows):
    return "unknown" if np.isnan(rows).all() else _share(np.nanmax(rows))


def _row(row, names):
    if np.isnan(row).all():
        return "(constant)"
    return ", ".join(f"{name} {_share(share)}" for name, share in zip(names, row))


def _share(share):
    """A share with three decimals; the order of magnitude of a small share."""
    if np.isnan(share):
        return "unknown"
    return f"{share:.0e}" if 1e-9 < share < 5e-4 else f"{share:z.3f}"


# --- layers ---------------------------------------------------------------------------------------


def _layers(lenses):
    layers = lenses.factorization
    if layers is None:
        return f"undefined, {lenses.reasons['factorization']}."
    varying = {name: layer for name, layer in layers.items() if not np.isnan(layer.additive)}
    mixed = [name for name, layer in varying.items() if layer.additive < NOT_A_SUM]
    if not varying:
        verdict, step = "no verdict, all activations are constant", "check params and taps"
    elif mixed:
        more = f" and {len(mixed) - MOST_ROWS} more" if len(mixed) > MOST_ROWS else ""
        verdict = f"factors mix in {', '.join(mixed[:MOST_ROWS])}{more}"
        step = "compare these layers with the layers before them"
    else:
        verdict, step = "layers are sums over factors", "repeat with other seeds"
    listed = [f"{name} {_layer(layer)}" for name, layer in layers.items()][:MOST_LAYERS]
    more = f"; and {len(layers) - MOST_LAYERS} more" if len(layers) > MOST_LAYERS else ""
    numbers = f"shares (additive, product, right angles) {'; '.join(listed)}{more}"
    return f"{verdict}; {numbers}. Next: {step}."


def _layer(layer):
    if np.isnan(layer.additive):
        return "constant on some grid"
    text = f"{layer.additive:.3f}, {layer.schmidt:.3f}, {layer.metric:.3f}"
    is_product = layer.schmidt >= NEARLY
    if layer.additive >= NEARLY:
        return text + (" (one factor, or nearly constant)" if is_product else " (a sum)")
    # The kernel of nearly constant activations is nearly a product in any case.
    return text + (" (a product)" if is_product and layer.additive < NOT_A_SUM else "")


# --- subnetworks ----------------------------------------------------------------------------------


def _subnetworks(lenses):
    masks, names = lenses.masks, lenses.names
    if masks is None:
        return f"undefined, {lenses.reasons['masks']}."
    is_separate = min(masks.sub_diff, -masks.abl_diff) >= SEPARATE
    verdict = "a part for each factor" if is_separate else "no separate parts were found"
    step = "repeat with other seeds" if is_separate else "search longer, with more n_steps"
    kept = ", ".join(f"{share:.2f} for {names[c]}" for c, share in zip(masks.factors, masks.kept))
    is_pair = ~np.eye(len(masks.kept), dtype=bool)
    return (
        f"{verdict}; shares of the weights {kept}, R2 of their effects at least "
        f"{np.diag(masks.alone).min():.2f}, overlap {masks.overlap[is_pair].mean():.2f} "
        f"(random {masks.overlap_random[is_pair].mean():.2f}); effect of the factor minus others "
        f"{masks.sub_diff:+.2f} in its subnetwork and {masks.abl_diff:+.2f} without it (without "
        f"random weights {masks.abl_diff_random.mean():+.2f}). Next: {step}."
    )


# --- benchmark ------------------------------------------------------------------------------------


def _ranks(ranks):
    """The rank of each number among networks that composed, and among the others."""
    listed = [
        f"{name} {rank.number:.3f} is higher than that of {100 * rank.composed:.0f} % of the "
        f"{rank.n_composed} networks that composed and of {100 * rank.others:.0f} % of the "
        f"{rank.n_others} that did not"
        for name, rank in ranks.items()
    ]
    return f"{'; '.join(listed)}. Next: experiments/predict says what each number predicts."


# --- ranks in the benchmark -----------------------------------------------------------------------
# Where a model's numbers lie among the trained networks of the benchmark, `experiments/predict`.
# benchmark.json has the numbers of its trained networks that fit their known combinations and are
# not held out; `python -m cgjax.report --readme` writes it from the record. Each number is computed
# here by the benchmark's own function from training combinations. The benchmark's other numbers
# need the network before training, or parts of inputs and outputs that belong together: they have
# no rank.


FILE = pathlib.Path(__file__).parent / "benchmark.json"
COMPOSED = 0.9  # score on unseen combinations as a share of that on known ones, from which on
MOST_INPUTS = 256  # that numbers of a layer use, as in the benchmark
DECIMALS = 6  # of recorded numbers
OF_LAYER = {
    "linearity": predictors.linearity,
    "homomorphism": predictors.homomorphism_error,
    "factorization": predictors.right_angles,
    "orthogonality": predictors.orthogonality,
    "decodability": predictors.decodability,
    "masks": predictors.unit_overlap,
}
NUMBERS = ("values", "additivity", *OF_LAYER)


class Rank(NamedTuple):
    """A number of the model, and the shares of the benchmark's networks with a smaller number."""

    number: float
    composed: float  # of the networks that composed
    others: float
    n_composed: int
    n_others: int


def ranks(factors, is_train, outputs, layer=None) -> dict[str, Rank]:
    """The rank of every number that is defined, by its name in the benchmark.

    factors [n, C], is_train [n], outputs [n, K]; layer: activations [n, ...], if there are any.
    """
    known = factors[is_train]
    numbers = {
        "values": predictors.partner_share(known, factors[~is_train]),
        "additivity": predictors.additive_share(known, outputs[is_train]),
    }
    if layer is not None:
        rows = np.sort(np.random.default_rng(0).permutation(len(known))[:MOST_INPUTS])
        features = np.asarray(layer, np.float64)[is_train][rows]
        numbers |= {name: f(known[rows], features) for name, f in OF_LAYER.items()}
    return {name: _rank(name, value) for name, value in numbers.items() if np.isfinite(value)}


def _rank(name: str, value: float) -> Rank:
    composed, others = (np.array(values) for values in recorded()[name].values())
    # Numbers that are 0 or 1 by construction must not differ by rounding.
    shares = (float(np.mean(np.round(value, DECIMALS) > group)) for group in (composed, others))
    return Rank(value, *shares, len(composed), len(others))


@functools.cache
def recorded() -> dict[str, dict[str, list[float]]]:
    """{number: {"composed": numbers of networks, "others": numbers of networks}}."""
    return json.loads(FILE.read_text())


def condensed(numbers: dict, outcomes) -> str:
    """The text of benchmark.json; numbers: {name: [networks], NaN where undefined}."""
    composed = np.asarray(outcomes) >= COMPOSED
    lines = []
    for name in NUMBERS:
        values = np.round(numbers[name], DECIMALS)
        groups = [np.sort(values[rows & np.isfinite(values)]) for rows in (composed, ~composed)]
        groups = dict(zip(("composed", "others"), (group.tolist() for group in groups)))
        lines.append(f"{json.dumps(name)}: {json.dumps(groups)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
