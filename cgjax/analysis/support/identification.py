"""Does P determine f on Q? How much of f stays open, and a second model that shows it.

f(z) = C(phi_1(z_1), ..., phi_K(z_K)) with C known. Another model of the same form has components
phi_k + delta_k. To first order f changes by sum_k J_k(z) delta_k(z_k), J_k = dC / dphi_k. With a
Gaussian process prior on each delta_k (smooth over the given length in continuous latents,
independent between categories), the variance of f on Q that remains after f is known on P answers
the question: near zero, P determines f on Q; near the prior variance, it says nothing.

First order can be wrong, so a search with the true C looks for a second model that agrees on P and
differs on Q. A positive verdict needs a small variance and a search that finds no such model.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.support import jacobians, latents, second_model
from cgjax.analysis.support.second_model import Family, Sample, Witness

LENGTHS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # in units of a latent's spread on Q
LENGTH = 0.1  # of the verdict, where the sample is large enough for it
OPEN = 0.1  # share of f's prior deviation above which a point of Q stays open
EXACT_NOISE, EXACT_OPEN = 1e-7, 0.01  # the same without noise: directions that P does not see
NUMBERS = 3e7  # entries of the largest matrix
ROWS = 2500  # of a table of categories; ten times as many have their variance computed
DIRECTIONS = 2  # from which a second model is searched
DEVIATIONS = 3.0  # of the prior that a second model's components may differ
CHUNK = 256  # rows of Q at once
STEPS, DRAWS = (0.3, 0.03), 4  # changes of components, by which jumps of C are noticed


class Identification(NamedTuple):
    """What knowing f on P says about f on Q."""

    determined: bool
    verdict: str
    unknown: np.ndarray  # [L] share of f's deviation on Q that P leaves open, one per length
    floor: np.ndarray  # [L] the same for as many samples of Q itself (half of them at most)
    amplification: np.ndarray  # [L] mean squared error on Q over that on P
    lengths: tuple[float, ...]  # [L] in units of each latent's spread on Q
    length: float  # of the verdict, the variance and the witness
    variance: np.ndarray  # [m] of f at each row of Q, over the mean prior; NaN: not computed
    open_share: float  # of Q's distinct rows
    witness: Witness | None
    kinds: tuple[str, ...]  # of each latent
    n_points: int  # rows of P that were used


def identify(
    composition: Callable,
    components: Sequence[Callable],
    latents_P: jax.Array,
    latents_Q: jax.Array,
    length: float | None = None,
    noise: float = 1e-3,
    kinds: Sequence | None = None,
    sizes: Sequence[int] | None = None,
    columns: Sequence[Sequence[int]] | None = None,
    training_error: float = 0.03,
    n_points: int = 400,
    n_positions: int = 16,
) -> Identification:
    """Whether f on samples P [n, D] determines f on samples Q [m, D].

    composition, components: as in `audit_latents`. sizes: latents of each component, consecutive.
    columns: in place of sizes, the latents of each component; components may share latents.
    length: of the components' smoothness, in units of each continuous latent's 5-to-95 % range on
        Q. None: all LENGTHS, and the verdict at 0.1, or at the next length that as many samples of
        Q itself resolve.
    noise: relative error with which f is known on P. training_error: the same, of `amplification`.
    kinds: of each latent, "continuous", "periodic", "categorical" or None (`latents.space`).
    n_points: rows of P and Q that are used, spread over each. n_positions: pixels that are used
        where C acts pixel by pixel.

    >>> identify(lambda slots: slots[0] * slots[1], [jnp.sin, jnp.cos], p, q).verdict
    """
    checks.bounded("noise", noise, 1e-6, 1.0)
    checks.bounded("training_error", training_error, 1e-6, 1.0)
    checks.integer("n_points", n_points, 1)
    checks.integer("n_positions", n_positions, 1)
    if length is not None:
        checks.bounded("length", length, 1e-3)
    space = latents.space(latents_P, latents_Q, kinds)
    p, q = (np.asarray(rows, np.float64) for rows in (latents_P, latents_Q))
    columns = latent_columns(components, p.shape[1], sizes, columns)
    with jax.enable_x64(True):
        answer = _identify(
            Question(composition, components, columns, space, noise, training_error),
            p, q, length, n_points, n_positions,
        )  # fmt: skip
        if not space.ambiguous or not answer.determined:
            return answer
        # Whole numbers may number categories: then nearness ties nothing together.
        strict = _identify(
            Question(
                composition, components, columns, latents.as_categories(space), noise,
                training_error,
            ),
            p, q, length, n_points, n_positions,
        )  # fmt: skip
    if strict.determined:
        return answer
    which = ", ".join(str(d) for d in space.ambiguous)
    note = (
        f" Latent {which} holds whole numbers. Read as continuous, P determines f on Q; read as "
        "categories, it does not: declare kinds."
    )
    return strict._replace(kinds=space.kinds, verdict=strict.verdict + note)


def latent_columns(components, n_latents: int, sizes=None, columns=None) -> list[list[int]]:
    """The latents of each component."""
    if not len(components):
        raise ValueError("components is empty: give one function of the latents for each slot")
    if columns is None:
        sizes = tuple(sizes or (n_latents // len(components),) * len(components))
        if len(sizes) != len(components) or sum(sizes) != n_latents or min(sizes) < 1:
            raise ValueError(
                f"sizes {sizes} of {len(components)} components do not add up to {n_latents} "
                "latents"
            )
        stops = np.cumsum(sizes)
        return [list(range(stop - size, stop)) for size, stop in zip(sizes, stops)]
    if len(columns) != len(components) or not all(len(each) for each in columns):
        raise ValueError(f"columns names the latents of each of {len(components)} components")
    for each in columns:
        checks.indices("columns", each, n_latents)
    return [list(each) for each in columns]


class Question(NamedTuple):
    """What `identify` is asked, apart from the samples."""

    composition: Callable
    components: Sequence[Callable]
    columns: list[list[int]]
    space: latents.Space
    noise: float
    training_error: float

    def few(self, n: int) -> float:
        """Share of Q that n samples may leave open."""
        used = [d for each in self.columns for d in each]
        return latents.few(self.space, used, n)

    @property
    def has_lengths(self) -> bool:
        """Whether any latent has nearness."""
        return any(self.space.kinds[d] != "categorical" for each in self.columns for d in each)


# --- first order ----------------------------------------------------------------------------------


class Points(NamedTuple):
    """Rows of a sample with their component outputs and slopes of C."""

    rows: np.ndarray  # [n, D]
    slots: tuple[np.ndarray, ...]  # K arrays [n, ...]
    slopes: tuple[np.ndarray, ...]  # K arrays [n, positions, rows of f, M_k], times the scale


class Numbers(NamedTuple):
    """What one length says; variances have one entry per row, averaged over outputs."""

    variance: np.ndarray  # [m] of f on Q
    prior: np.ndarray  # [m]
    is_open: np.ndarray  # [m]
    amplification: float
    position: int  # with the largest share of open rows

    @property
    def unknown(self) -> float:
        return float(np.sqrt(self.variance.mean() / self.prior.mean()))

    @property
    def open_share(self) -> float:
        return float(self.is_open.mean())


def _identify(question, p, q, length, n_points, n_positions) -> Identification:
    space = question.space
    p = p[latents.distinct(space, p)]
    distinct_q = q[latents.distinct(space, q)]
    if question.has_lengths:
        chosen = p[latents.spread_out(space, p, n_points)]
        distinct_q = distinct_q[latents.spread_out(space, distinct_q, n_points)]
    else:
        chosen = p[latents.some_of_each(question.columns, p, ROWS)]
        distinct_q = distinct_q[latents.some_of_each(question.columns, distinct_q, ROWS)]
    setting = _setting(question, chosen, distinct_q, n_positions)
    known, asked = setting.points(chosen), setting.points(distinct_q)
    if not any(slope.any() for slope in asked.slopes):
        raise ValueError("the composition does not change with any component on Q: check it")
    lengths = (length,) if length is not None else LENGTHS
    lengths = lengths if question.has_lengths else (1.0,)
    halves = [_take(asked, rows) for rows in latents.halves(len(distinct_q), len(chosen))]
    has_floor = question.has_lengths and len(distinct_q) > 1
    numbers = [setting.numbers(known, asked, each) for each in lengths]
    floors = [setting.numbers(*halves, each) for each in lengths] if has_floor else numbers
    few = question.few(len(chosen))

    def is_resolved(i: int) -> bool:
        """Whether samples of Q itself determine f on Q at this length."""
        if not has_floor:
            return True
        is_closed = floors[i].open_share <= question.few(len(halves[0].rows))
        return is_closed and not setting.witness(*halves, lengths[i], floors[i])

    at = start = next((i for i, each in enumerate(lengths) if each >= LENGTH), len(lengths) - 1)
    witness, is_decided = None, False
    for i in range(start, len(lengths)):
        second = setting.witness(known, asked, lengths[i], numbers[i])
        is_positive = numbers[i].open_share <= few and second is None
        if is_positive or is_resolved(i):
            at, witness, is_decided = i, second, True
            break
    result = numbers[at]
    is_smooth = setting.is_smooth(asked)
    determined = is_decided and result.open_share <= few and witness is None and is_smooth
    parts = dict(
        result=result,
        unknown=np.array([each.unknown for each in numbers]),
        floor=np.array([each.unknown for each in floors]),
        lengths=lengths,
        at=at,
        is_decided=is_decided,
        is_closed=[each.open_share <= few for each in numbers],
        floor_open=floors[at].open_share,
    )
    rows, back = np.unique(q, axis=0, return_inverse=True)
    chosen_rows = latents.some_of_each(question.columns, rows, 10 * ROWS)
    variance = np.full(len(rows), np.nan)
    variance[chosen_rows] = setting.variance(known, asked, rows[chosen_rows], lengths[at])
    variance = variance[back.ravel()] / result.prior.mean()
    return Identification(
        determined,
        _words(question, parts, witness, is_smooth, determined, len(chosen), len(p)),
        parts["unknown"],
        parts["floor"],
        np.array([each.amplification for each in numbers]),
        lengths,
        lengths[at],
        variance,
        result.open_share,
        witness,
        space.kinds,
        len(chosen),
    )


def _take(points: Points, rows) -> Points:
    slots, slopes = (tuple(each[rows] for each in parts) for parts in points[1:])
    return Points(points.rows[rows], slots, slopes)


class Setting(NamedTuple):
    """The composition at some positions, with the scale of each component's change."""

    question: Question
    pixelwise: bool
    positions: np.ndarray | None  # of flattened pixels; None: C as it is
    scales: tuple[float, ...]

    def slots(self, rows) -> tuple[np.ndarray, ...]:
        parts = zip(self.question.components, self.question.columns)
        outputs = [component_outputs(k, *part, rows) for k, part in enumerate(parts)]
        if self.positions is not None:
            flat = [slot.reshape(len(slot), 1, -1, slot.shape[-1]) for slot in outputs]
            outputs = [slot[:, :, self.positions] for slot in flat]
        return tuple(outputs)

    def points(self, rows) -> Points:
        slots = self.slots(rows)
        each = second_model.slopes(self.question.composition, slots, self.pixelwise)
        slopes = tuple(scale * slope for scale, slope in zip(self.scales, each))
        if not all(np.isfinite(each).all() for each in slopes):
            raise ValueError("the Jacobian of the composition is not finite at some points")
        return Points(rows, slots, slopes)

    def features(self, known: Points, asked: Points, length: float) -> list[latents.Features]:
        """Of each component's change, spanned by the values of both samples."""
        rows = np.concatenate([known.rows, asked.rows])
        return [
            latents.features(self.question.space, each, rows[:, each], length)
            for each in self.question.columns
        ]

    def evaluated(self, features, rows) -> list[np.ndarray]:
        return [one(rows[:, one.columns]) for one in features]

    def numbers(self, known: Points, asked: Points, length: float) -> Numbers:
        """Variance of f on Q after f is known on P, at every position."""
        features = self.features(known, asked, length)
        on_p, on_q = (self.evaluated(features, points.rows) for points in (known, asked))
        each = [
            _posterior(known.slopes, on_p, position).numbers(
                asked.slopes, on_q, position, self.question
            )
            for position in range(known.slopes[0].shape[1])
        ]
        variance, prior, amplification, is_open = (np.stack(part) for part in zip(*each))
        # Of many pixels some may stay open: a row is open where more than FEW of its pixels are.
        rows_open = is_open.mean(0) > (latents.FEW if len(each) * latents.FEW > 1 else 0.0)
        return Numbers(
            variance.mean(0), prior.mean(0), rows_open, float(amplification.mean()),
            int(np.argmax(is_open.mean(1))),
        )  # fmt: skip

    def variance(self, known: Points, asked: Points, q, length: float) -> np.ndarray:
        """[m] of f at each row of q, averaged over outputs."""
        features, each = self.features(known, asked, length), []
        on_p = self.evaluated(features, known.rows)
        posteriors = [
            _posterior(known.slopes, on_p, position) for position in range(known.slopes[0].shape[1])
        ]
        for start in range(0, len(q), CHUNK):
            points = self.points(q[start : start + CHUNK])
            on_q = self.evaluated(features, points.rows)
            parts = [
                posterior.variance(
                    _design(points.slopes, on_q, position, slice(None)), self.question.noise
                ).mean(1)
                for position, posterior in enumerate(posteriors)
            ]
            each.append(np.mean(parts, axis=0))
        return np.concatenate(each)

    def family(self, asked: Points) -> Family:
        """Changes of at most DEVIATIONS of the prior, for each cell of categories by itself."""
        kinds, limits = self.question.space.kinds, []
        for columns, slot in zip(self.question.columns, asked.slots):
            cells = asked.rows[:, [d for d in columns if kinds[d] == "categorical"]]
            n_outputs = slot.shape[-1] if self.pixelwise else np.prod(slot.shape[1:])
            limits.append(DEVIATIONS * np.sqrt(len(np.unique(cells, axis=0)) * n_outputs))
        composition = self.question.composition
        return Family(composition, self.scales, tuple(limits), self.pixelwise)

    def at_position(self, points: Points, features, position: int) -> Sample:
        slots = points.slots
        if self.positions is not None:
            slots = tuple(slot[:, :, position : position + 1] for slot in slots)
        return Sample(slots, tuple(self.evaluated(features, points.rows)))

    def witness(self, known, asked, length, result: Numbers) -> Witness | None:
        """A second model at the position that is open at most rows."""
        features, position = self.features(known, asked, length), result.position
        p, q = (self.at_position(points, features, position) for points in (known, asked))
        family = self.family(asked)
        values = np.concatenate([family.outputs(sample) for sample in (p, q)])
        deviation = float(np.sqrt(np.mean((values - values.mean(0)) ** 2)))
        if deviation == 0:
            return None
        posterior = _posterior(known.slopes, p.features, position)
        directions = posterior.directions(asked.slopes, q.features, position, self.question.noise)
        # Where first order leaves nothing open, only large changes can lead elsewhere.
        sizes = second_model.SIZES if result.is_open.any() else (1.0,)
        noise, few = self.question.noise, self.question.few(len(known.rows))
        found = second_model.search(
            family, p, q, deviation * directions, noise, deviation, few, sizes
        )
        if found is None:
            return None
        weights, error_p, error_q = found
        true = family.outputs(q)
        spread = np.sum((true - true.mean(0)) ** 2)
        return Witness(
            float(np.abs(error_p).max() / deviation),
            float(np.sqrt(np.mean(error_q**2)) / deviation),
            float(1 - np.sum(error_q**2) / spread) if spread else float("nan"),
            asked.rows[int(np.argmax(np.max(np.abs(error_q), axis=1)))],
            self.changed_components(features, family.split(p, weights), position),
        )

    def changed_components(self, features, parts, position) -> tuple[Callable, ...]:
        """The second model's components, as functions of their latents."""

        def changed(phi, feature, part, scale):
            def component(values):
                values = np.asarray(values, np.float64)
                outputs = np.array(phi(values), np.float64)
                change = scale * feature(values) @ part
                if self.positions is None:
                    return outputs + change.reshape(outputs.shape)
                flat = outputs.reshape(len(outputs), -1, outputs.shape[-1])
                flat[:, self.positions[position]] += change
                return flat.reshape(outputs.shape)

            return component

        components = self.question.components
        return tuple(map(changed, components, features, parts, self.scales))

    def is_smooth(self, asked: Points) -> bool:
        """Whether small changes of components change f as the slopes say: C may be a step."""
        rng, composition = np.random.default_rng(0), self.question.composition
        true = second_model.compose(composition, asked.slots)
        shape = asked.slopes[0].shape[:3]  # points, positions, rows of f
        misses = np.zeros(len(STEPS))
        for _ in range(DRAWS):
            changes = [
                scale * rng.normal(size=slot.shape) for scale, slot in zip(self.scales, asked.slots)
            ]
            slope = sum(
                np.einsum("nprm,npm->npr", slope / scale, change.reshape(*shape[:2], -1))
                for slope, scale, change in zip(asked.slopes, self.scales, changes)
            )
            for i, step in enumerate(STEPS):
                moved = tuple(slot + step * change for slot, change in zip(asked.slots, changes))
                change = (second_model.compose(composition, moved) - true).reshape(shape)
                misses[i] = max(misses[i], np.abs(change - step * slope).max())
        # The error of a slope falls with the square of the step, a jump stays as large as it is.
        return bool(misses[1] <= max(0.3 * misses[0], 1e-6 * np.abs(true).max()))


def _setting(question: Question, p, q, n_positions) -> Setting:
    """The positions of C that are used, and the size of each component's change."""
    outputs = [
        component_outputs(k, *part, q)
        for k, part in enumerate(zip(question.components, question.columns))
    ]
    composed = jax.eval_shape(question.composition, [output[:2] for output in outputs])
    if getattr(composed, "shape", ())[:1] != outputs[0][:2].shape[:1]:
        raise ValueError("composition must map slots [n, ...] to one array [n, ...]")
    scales = [np.sqrt(np.mean(np.var(output, axis=0))) or 1.0 for output in outputs]
    pixelwise = is_pixelwise(question.composition, [output[:2] for output in outputs])
    positions = None
    if pixelwise:
        n = int(np.prod(outputs[0].shape[1:-1]))
        positions = np.unique(np.linspace(0, n - 1, min(n, n_positions)).astype(int))
    return Setting(question, pixelwise, positions, tuple(float(scale) for scale in scales))


def component_outputs(k, phi, columns, rows) -> np.ndarray:
    """phi_k at rows [n, D], in float64."""
    outputs = np.asarray(phi(rows[:, columns]), np.float64)
    if outputs.shape[:1] != rows.shape[:1] or not outputs.size:
        raise ValueError(
            f"components[{k}] gives {outputs.shape} for {len(rows)} points: one output for each"
        )
    checks.finite(**{f"components[{k}]": outputs})
    return outputs


def is_pixelwise(composition, points) -> bool:
    """Whether C acts at each position of the slots on its own."""
    if any(point.ndim < 3 for point in points):
        return False
    try:
        for k in range(len(points)):
            jacobians.check_pixelwise(composition, points, k)
    except ValueError:
        return False
    shape = jax.eval_shape(composition, points).shape
    return shape[:-1] == points[0].shape[:-1]


class _Posterior(NamedTuple):
    """Weights of all changes after f is known on P, at one position."""

    vectors: np.ndarray  # [W, r] right singular vectors of the design matrix
    singular: np.ndarray  # [r]
    size: float  # root of the mean prior variance of f on P
    design: np.ndarray  # [n, rows, W] of P

    def shrunk(self, noise: float) -> np.ndarray:
        """[r] share of each direction's variance that stays."""
        limit = (noise * self.size) ** 2
        return limit / (self.singular**2 + limit) if limit else np.zeros(len(self.singular))

    def variance(self, design: np.ndarray, noise: float) -> np.ndarray:
        """[n, rows] of f at points with this design matrix."""
        seen = design @ self.vectors
        unseen = np.sum(design**2, axis=2) - np.sum(seen**2, axis=2)
        return np.maximum(unseen, 0) + seen**2 @ self.shrunk(noise)

    def numbers(self, slopes, features, position, question):
        """variance, prior, amplification and whether open, of Q."""
        parts = []
        for i in range(0, len(features[0]), CHUNK):
            design = _design(slopes, features, position, slice(i, i + CHUNK))
            noises = (question.noise, EXACT_NOISE, question.training_error)
            variances = [self.variance(design, noise) for noise in noises]
            parts.append((*variances, np.sum(design**2, axis=2)))
        variance, exact, rough, prior = (np.concatenate(part) for part in zip(*parts))
        usual = np.maximum(prior, prior.mean(0))  # an output with a small prior has no share
        usual = np.where(usual > 0, usual, 1.0)
        is_open = (variance > OPEN**2 * usual) | (exact > EXACT_OPEN**2 * usual)
        on_p = self.variance(self.design, question.training_error).mean()
        amplification = rough.mean() / on_p if on_p else np.nan
        return variance.mean(1), prior.mean(1), amplification, is_open.any(1)

    def directions(self, slopes, features, position, noise) -> np.ndarray:
        """[DIRECTIONS, W]: what stays most open on Q; each changes f there by 1 (RMS)."""
        design = _design(slopes, features, position, slice(None))
        design = design.reshape(-1, design.shape[-1])
        kept = np.sqrt(self.shrunk(noise))

        def rooted(rows):  # times the root of the posterior covariance
            return rows - ((rows @ self.vectors) * (1 - kept)) @ self.vectors.T

        matrix = rooted(design)
        gram = matrix.T @ matrix if len(matrix) > matrix.shape[1] else None
        if gram is None:
            vectors = np.linalg.svd(matrix, full_matrices=False)[2][:DIRECTIONS]
        else:
            vectors = np.linalg.eigh(gram)[1][:, ::-1][:, :DIRECTIONS].T
        vectors = rooted(vectors)
        sizes = np.sqrt(np.mean((design @ vectors.T) ** 2, axis=0))
        return vectors / np.maximum(sizes, 1e-12)[:, None]


def _design(slopes, features, position, rows) -> np.ndarray:
    """Derivative of f by the weights of all changes: [n, rows of f, W]."""
    blocks = []
    for slope, feature in zip(slopes, features):
        slope, feature = slope[rows, position], feature[rows]
        block = feature[:, None, :, None] * slope[:, :, None, :]
        blocks.append(block.reshape(*slope.shape[:2], -1))
    return np.concatenate(blocks, axis=2)


def _posterior(slopes, features, position) -> _Posterior:
    n_weights = sum(f.shape[1] * s.shape[-1] for f, s in zip(features, slopes))
    n_rows = len(features[0]) * slopes[0].shape[2]
    if n_rows * n_weights > NUMBERS:
        raise ValueError(
            f"{n_rows:,} outputs on P and {n_weights:,} unknowns are too many: pass a smaller "
            "n_points, or fewer outputs of the composition"
        )
    design = _design(slopes, features, position, slice(None))
    flat = design.reshape(-1, design.shape[-1])
    size = float(np.sqrt(np.mean(np.sum(design**2, axis=2))))
    if len(flat) > flat.shape[1]:
        flat = np.linalg.qr(flat, mode="r")
    _, singular, vectors = np.linalg.svd(flat, full_matrices=False)
    return _Posterior(vectors.T, singular, size, design)


# --- words ----------------------------------------------------------------------------------------


def _words(question, parts, witness, is_smooth, determined, n_used, n_distinct) -> str:
    result, at = parts["result"], parts["at"]
    length = f" at length {parts['lengths'][at]:g}" if question.has_lengths else ""
    if determined:
        verdict = (
            f"P determines f on Q up to {result.unknown:.2g} of its deviation{length}; to first "
            f"order a squared error on P grows {result.amplification:.2g} times on Q; no other "
            "model was found."
        )
    elif witness is not None:
        where = ", ".join(f"{value:.3g}" for value in witness.worst)
        verdict = (
            f"P does not determine f on Q{length}: two models agree on P within "
            f"{witness.error_P:.1g} and differ on Q by {witness.error_Q:.2g} (standard deviations "
            f"of f; R2 on Q {witness.r2_Q:.2f}), most at latents {where}; {result.open_share:.0%} "
            "of Q stays open."
        )
    elif not is_smooth:
        verdict = (
            "Not decided: C has jumps, so its slopes do not say how f changes. Use a composition "
            "with soft edges."
        )
    elif not parts["is_decided"]:
        verdict = (
            f"Not decided: {n_used} samples are too few. As many samples of Q itself leave "
            f"{parts['floor_open']:.0%} of it open{length}, or allow a second model; P leaves "
            f"{result.open_share:.0%} open."
        )
    else:
        verdict = (
            f"P does not determine f on Q to first order{length}: {result.open_share:.0%} of Q "
            "stays open. The search for a second model found none."
        )
    if question.has_lengths:
        n_closed = next((i for i, x in enumerate(parts["is_closed"][::-1]) if not x), None)
        closed = parts["lengths"] if n_closed is None else parts["lengths"][-n_closed:]
        if n_closed != 0 and len(parts["lengths"]) > 1 and closed[0] != parts["lengths"][at]:
            verdict += f" To first order P determines f on Q from length {closed[0]:g} on."
        if n_used < n_distinct:
            verdict += f" {n_used} of {n_distinct} distinct rows of P were used."
    return verdict
