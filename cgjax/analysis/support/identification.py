"""Does P determine f on Q? How much of f stays open, and a second model that shows it.

f(z) = C(phi_1(z_1), ..., phi_K(z_K)) with C known. Another model of the same form has components
phi_k + delta_k. To first order f changes by sum_k J_k(z) delta_k(z_k), J_k = dC / dphi_k. With a
Gaussian process prior on each delta_k (smooth over the given length in continuous latents,
independent between categories), the variance of f on Q that remains after f is known on P answers
the question: near zero, P determines f on Q; near the prior variance, it says nothing.

First order can be wrong, so a search with the true C looks for a second model that agrees on P and
differs on Q. A positive verdict needs a small variance, a search that finds no such model, and a P
that reaches all values of Q: smoothness over a length bridges gaps up to that length.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, finite, integer, number
from cgjax.analysis.support import jacobians, latents, second_model
from cgjax.analysis.support.second_model import Design, Witness, posterior

LENGTHS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # in units of a latent's spread on Q
LENGTH = 0.1  # of the verdict, where the sample is large enough for it
OPEN = 0.1  # share of f's prior deviation above which a point of Q stays open
EXACT_NOISE, EXACT_OPEN = 1e-5, 0.01  # the same almost without noise: what P does not see at all
ROWS = 2500  # of P in a table of categories; ten times as many of Q
ASKED = 400  # rows of Q at which the variance is computed; half of Q where that is more
POSITIONS = 16  # pixels that are used where C acts pixel by pixel
REPORTED = 4  # of them, for the numbers that are reported for all lengths
DIRECTIONS = 2  # from which a second model is searched
# More of them where first order leaves nothing open, of a posterior with so many times the noise: C
# may fold, and then an error as large as the noise hides a change as large as its root.
FOLD_DIRECTIONS, FOLD_NOISE = 6, 10.0
DEVIATIONS = 3.0  # of the prior that a second model's components may differ
LARGEST = 1e9  # entries of the covariance of f on P: 8 GB, three times that while it is solved
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
    variance: np.ndarray  # [m] of f at each row of Q, over the mean prior; of a row that was not
    # used: that of the nearest one that was, or NaN
    open_share: float  # of Q's distinct rows
    witness: Witness | None
    kinds: tuple[str, ...]  # of each latent
    n_points: int  # rows of P that were used


@checked
def identify(
    composition: Callable,
    components: Sequence[Callable],
    latents_P: finite("n D"),
    latents_Q: finite("m D"),
    length: number("[1e-3, inf)") = None,
    noise: number("[1e-6, 1]") = 1e-3,
    kinds: Sequence | None = None,
    sizes: Sequence[int] | None = None,
    columns: Sequence[Sequence[int]] | None = None,
    training_error: number("[1e-6, 1]") = 0.03,
    n_points: integer(1) = 400,
) -> Identification:
    """Whether f on samples P determines f on samples Q.

    composition, components: as in `audit_latents`. sizes: latents of each component, consecutive.
    columns: in place of sizes, the latents of each component; components may share latents.
    length: of the components' smoothness, in units of each continuous latent's 5-to-95 % range on
        Q. None: all LENGTHS, and the verdict at 0.1, or at the next length that as many samples of
        Q itself resolve. A range of one latent that P misses counts as a gap if it is longer than
        this length (None: 0.1).
    noise: relative error with which f is known on P. training_error: the same, of `amplification`.
    kinds: of each latent, "continuous", "periodic", "categorical" or None (`latents.space`).
    n_points: rows of P and Q that are used, spread over each. Where C acts pixel by pixel, some
        pixels are used. Time grows with lengths * rows^3 and memory with rows^2, where rows are
        n_points times the outputs of a pixel, or the features of the components if they are fewer.

    >>> q = np.random.default_rng(0).uniform(size=(100, 2))
    >>> diagonal = q[:, :1] * np.ones(2)
    >>> answer = identify(lambda slots: slots[0] + slots[1], [np.sin, np.cos], diagonal, q)
    >>> answer.determined, answer.witness.error_Q > 10 * answer.witness.error_P
    (False, True)
    """
    space, columns, p, q = posed(components, latents_P, latents_Q, kinds, sizes, columns)
    form = (composition, components, columns, space)
    question = Question(*form, length, noise, training_error, n_points)
    with jax.enable_x64(True):
        answer = _identify(question, p, q)
        if not space.ambiguous or not answer.determined:
            return answer
        # Whole numbers may number categories: then nearness ties nothing together.
        strict = _identify(question._replace(space=latents.as_categories(space)), p, q)
    if strict.determined:
        return answer
    which = ", ".join(str(d) for d in space.ambiguous)
    note = (
        f" Latent {which} holds whole numbers. Read as continuous, P determines f on Q; read as "
        "categories, it does not: declare kinds."
    )
    return strict._replace(kinds=space.kinds, verdict=strict.verdict + note)


def posed(components, latents_P, latents_Q, kinds=None, sizes=None, columns=None):
    """The space of latents, the latents of each component, and rows of P and Q in float64."""
    space = latents.space(latents_P, latents_Q, kinds)
    p, q = (np.asarray(rows, np.float64) for rows in (latents_P, latents_Q))
    return space, latent_columns(components, p.shape[1], sizes, columns), p, q


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
    length: float | None
    noise: float | None = None  # `leftover` has its own noises and uses all rows
    training_error: float | None = None
    n_points: int | None = None

    def few(self, n: int) -> float:
        """Share of Q that n samples may leave open."""
        return latents.few(self.space, [d for each in self.columns for d in each], n)

    @property
    def has_lengths(self) -> bool:
        """Whether any latent has nearness."""
        return any(self.space.kinds[d] != "categorical" for each in self.columns for d in each)


def _identify(question: Question, p, q) -> Identification:
    space, columns = question.space, question.columns
    distinct_p, distinct_q = (rows[latents.distinct(space, rows)] for rows in (p, q))
    if question.has_lengths:
        known, asked = (
            rows[latents.spread_out(space, rows, question.n_points)]
            for rows in (distinct_p, distinct_q)
        )
    else:  # each row costs little, and a table may be large
        known = distinct_p[latents.some_of_each(columns, distinct_p, ROWS)]
        asked = distinct_q[latents.some_of_each(columns, distinct_q, 10 * ROWS)]
    world = _world(question, known, asked)
    on_p, on_q = np.split(np.arange(len(world.rows)), [len(known)])
    half, rest = (on_q[part] for part in latents.halves(len(asked), len(known)))
    if len(rest) >= ASKED and question.has_lengths:  # enough, and P and half of Q are asked alike
        on_q = rest
    lengths = (question.length,) if question.length else LENGTHS
    lengths = lengths if question.has_lengths else (1.0,)
    has_floor = question.has_lengths and len(asked) > 1
    samples = {"P": (on_p, on_q), "floor": (half, rest) if has_floor else (on_p, on_q)}
    few = {name: question.few(len(known)) for name, (known, _) in samples.items()}

    @functools.lru_cache(maxsize=1)  # one length's covariances at a time
    def view(i: int) -> View:
        return world.at(lengths[i])

    @functools.cache
    def first_order(name: str, i: int, position: int):
        return view(i).at_position(*samples[name], position)

    every = range(world.n_positions)
    some = every[:: max(len(every) // REPORTED, 1)]

    def numbers(name: str, i: int, positions=every) -> Numbers:
        return _numbers([first_order(name, i, position) for position in positions])

    def is_open(name: str, i: int) -> bool:
        """Whether more than a few rows stay open: some positions may suffice to show it."""
        return any(numbers(name, i, each).open_share > few[name] for each in (some, every))

    start = next((i for i, each in enumerate(lengths) if each >= LENGTH), len(lengths) - 1)
    for at in range(start, len(lengths)):
        if has_floor and is_open("P", at) and is_open("floor", at):
            continue  # samples of Q itself leave f on Q open: nothing is said about P
        witness = view(at).witness(*samples["P"], numbers("P", at))
        is_positive = witness is None and not is_open("P", at)
        # Where first order does not blame P, samples of Q itself may allow a second model too.
        is_doubtful = has_floor and witness is not None and not is_open("P", at)
        is_decided = not (is_doubtful and view(at).witness(*samples["floor"], numbers("floor", at)))
        if is_decided:
            break
    else:
        at, witness, is_positive, is_decided = start, None, False, False
    result = numbers("P", at)
    # A longer length, which few samples force, bridges no wider gaps.
    reach = latents.coverage(space, world.latents_that_matter, p, q, question.length or LENGTH)
    is_smooth = world.is_smooth(on_q)
    reported = [
        (
            *(numbers(name, i, some).unknown for name in samples),
            view(i).amplification(on_p, on_q, some),
        )
        for i in range(len(lengths))
    ]
    unknown, floors, amplification = np.transpose(reported)
    answer = Identification(
        determined=bool(is_positive and is_smooth and reach.holds),
        verdict="",
        unknown=unknown,
        floor=floors,
        amplification=amplification,
        lengths=lengths,
        length=lengths[at],
        variance=_at_all_rows(space, q, world.rows[on_q], result.variance / result.prior.mean()),
        open_share=result.open_share,
        witness=witness,
        kinds=space.kinds,
        n_points=len(known),
    )
    floor_open = None if is_decided else numbers("floor", at).open_share
    verdict = _words(answer, at, reach, is_smooth, floor_open)
    if question.has_lengths:
        stays_open = [numbers("P", i, some).open_share > few["P"] for i in range(len(lengths))]
        closed = next((i for i in range(len(lengths)) if not any(stays_open[i:])), at)
        if closed > at:
            verdict += f" To first order P determines f on Q from length {lengths[closed]:g} on."
        if len(known) < len(distinct_p):
            verdict += f" {len(known)} of {len(distinct_p)} distinct rows of P were used."
    return answer._replace(verdict=verdict)


def _at_all_rows(space, rows, used, values) -> np.ndarray:
    """values [m] of the used rows, at all rows: that of the nearest one, NaN where none is near."""
    apart, nearest = latents.nearest(space, list(range(rows.shape[1])), rows, used)
    return np.where(np.isfinite(apart), values[nearest], np.nan)


def _words(answer, at, reach, is_smooth, floor_open) -> str:
    """floor_open: share of Q that samples of Q itself leave open, where they decide nothing."""
    length = "" if set(answer.kinds) == {"categorical"} else f" at length {answer.length:g}"
    witness, is_open = answer.witness, f"{answer.open_share:.0%}"
    if answer.determined:
        return (
            f"P determines f on Q up to {answer.unknown[at]:.2g} of its deviation{length}; to "
            f"first order a squared error on P grows {answer.amplification[at]:.2g} times on Q; no "
            "other model was found."
        )
    if witness is not None:
        where = ", ".join(f"{value:.3g}" for value in witness.worst)
        return (
            f"P does not determine f on Q{length}: two models agree on P within "
            f"{witness.error_P:.1g} and differ on Q by {witness.error_Q:.2g} (standard deviations "
            f"of f; R2 on Q {witness.r2_Q:.2f}), most at latents {where}; {is_open} of Q stays "
            "open."
        )
    if not is_smooth:
        return (
            "Not decided: C has jumps, so its slopes do not say how f changes. Use a composition "
            "with soft edges."
        )
    if not reach.holds:
        gaps = ", ".join(f"latent {d} from {low:.2g} to {high:.2g}" for d, low, high in reach.gaps)
        return f"P does not determine f on Q: it misses {gaps}, where components may be anything."
    if floor_open is not None:
        return (
            f"Not decided: {answer.n_points} samples are too few. As many samples of Q itself "
            f"leave {floor_open:.0%} of it open{length}, or allow a second model; P leaves "
            f"{is_open} open."
        )
    return (
        f"P does not determine f on Q to first order{length}: {is_open} of Q stays open. The "
        "search for a second model found none."
    )


# --- first order ----------------------------------------------------------------------------------


class Leftover(NamedTuple):
    """Variance of f that knowing f on P leaves, at each position of the slots (1 if not pixelwise).

    For one of the noises, `unknown` is the root of on_q.mean() / prior.mean(), `amplification`
    on_q.mean() / on_p.mean().
    """

    on_q: np.ndarray  # [noises, positions, m]
    on_p: np.ndarray  # [noises, positions, n] at the first rows of P, as many as Q has
    prior: np.ndarray  # [positions, m] on Q


@checked
def leftover(
    composition: Callable,
    components: Sequence[Callable],
    latents_P: finite("n D"),
    latents_Q: finite("m D"),
    length: number("[1e-3, inf)"),
    noises: number("[1e-6, 1]", "N"),
    kinds: Sequence | None = None,
) -> Leftover:
    """First order alone, at every row and position, without a verdict: arguments of `identify`.

    Runs on the default device, in float64. Time grows with positions * (rows of P * outputs of a
    position)^3, memory with its square.
    """
    space, columns, p, q = posed(components, latents_P, latents_Q, kinds)
    question = Question(composition, components, columns, space, length)
    left, priors = [], []
    with jax.enable_x64(True):
        world = _world(question, p, q, np.inf)
        n_outputs = len(p) * world.slopes[0].shape[2]
        if n_outputs**2 > LARGEST:
            raise ValueError(
                f"{n_outputs:,} outputs on P are too many: the covariance of f would take "
                f"{n_outputs**2 * 8 / 1e9:.0f} GB; pass fewer rows of P"
            )
        n_some = min(len(p), len(q))
        asked = np.concatenate([np.arange(n_some), np.arange(len(p), len(world.rows))])
        values = [world.rows[:, d] for d in columns]
        pairs = list(zip(columns, values))
        within = [latents.covariance(space, d, x[: len(p)], x[: len(p)], length) for d, x in pairs]
        across = [latents.covariance(space, d, x[: len(p)], x[asked], length) for d, x in pairs]
        within, across = jax.device_put((within, across))  # once for all positions
        for position in range(world.n_positions):
            slopes = [slope[:, position] for slope in world.slopes]
            known, other = [x[: len(p)] for x in slopes], [x[asked] for x in slopes]
            variance, prior = _open_variance(within, across, known, other, np.array(noises))
            left.append(np.asarray(variance))
            priors.append(np.asarray(prior)[n_some:])
    on_p, on_q = np.split(np.moveaxis(left, 1, 0), [n_some], axis=2)
    return Leftover(on_q, on_p, np.stack(priors))


@jax.jit
def _open_variance(within, across, known, asked, noises):
    """Variance of f [L, m] that f on P leaves at m rows, for each noise; its prior [m].

    within, across: covariance of each component's change, K arrays [n, n] and [n, m]. known, asked:
    slopes of f by each component at rows of P and at the others, K arrays [n or m, outputs, M_k].
    """

    def covariance(kernels, right):
        parts = zip(known, kernels, right)
        total = sum(jnp.einsum("nrc,nm,msc->nrms", a, kernel, b) for a, kernel, b in parts)
        return total.reshape(total.shape[0] * total.shape[1], -1)

    def prior(slopes):
        return sum(jnp.sum(slope**2, axis=2) for slope in slopes)

    on_p, to_asked, scale = covariance(within, known), covariance(across, asked), prior(known)
    rounding = jnp.maximum(1e-15 * jnp.trace(on_p), 1e-100)

    def left(noise):
        limit = jnp.maximum(noise**2 * jnp.mean(scale), rounding)
        root = jnp.linalg.cholesky(on_p + limit * jnp.eye(len(on_p)))
        seen = jax.scipy.linalg.solve_triangular(root, to_asked, lower=True)
        open_ = prior(asked) - jnp.sum(seen**2, axis=0).reshape(prior(asked).shape)
        return jnp.mean(jnp.maximum(open_, 0), axis=1)

    return jax.lax.map(left, noises), jnp.mean(prior(asked), axis=1)


class Numbers(NamedTuple):
    """What one length says; variances have one entry per row of Q, averaged over outputs."""

    variance: np.ndarray  # [m] of f
    prior: np.ndarray  # [m]
    is_open: np.ndarray  # [m]
    position: int  # with the largest share of open rows

    @property
    def unknown(self) -> float:
        return float(np.sqrt(self.variance.mean() / self.prior.mean()))

    @property
    def open_share(self) -> float:
        return float(self.is_open.mean())


def _numbers(positions) -> Numbers:
    variance, prior, is_open = (np.stack(part) for part in zip(*positions))
    worst = int(np.argmax(is_open.mean(1)))
    return Numbers(variance.mean(0), prior.mean(0), is_open.any(0), worst)


class World(NamedTuple):
    """The composition at some positions of the used rows: first those of P, then those of Q."""

    question: Question
    rows: np.ndarray  # [n, D]
    positions: np.ndarray | None  # of flattened pixels; None: C is not pixelwise
    slots: tuple[np.ndarray, ...]  # K arrays [n, ...]
    scales: tuple[float, ...]  # size of a change of each component
    slopes: tuple[np.ndarray, ...]  # K arrays [n, positions, rows of f, M_k], times the scale

    @property
    def n_positions(self) -> int:
        return self.slopes[0].shape[1]

    @property
    def latents_that_matter(self) -> list[list[int]]:
        """Each latent of the components that C does not ignore, by itself."""
        each = zip(self.question.columns, self.slopes)
        return [[d] for d in sorted({d for columns, x in each if x.any() for d in columns})]

    def evaluate(self, slots):
        """C of other outputs of the components, and its slopes."""
        return second_model.evaluate(self.question.composition, slots, self.positions is not None)

    def at(self, length: float) -> "View":
        columns = self.question.columns
        each = [latents.changes(self.question.space, d, self.rows, length) for d in columns]
        return View(self, *zip(*each))

    def is_smooth(self, rows) -> bool:
        """Whether small changes of components change f as the slopes say: C may be a step."""
        rng, rows = np.random.default_rng(0), np.tile(rows, DRAWS)
        slots, slopes = (tuple(x[rows] for x in each) for each in (self.slots, self.slopes))
        changes = [rng.normal(size=slot.shape) for slot in slots]
        shape = slopes[0].shape[:3]  # points, positions, rows of f
        slope = sum(
            np.einsum("nprm,npm->npr", slope, change.reshape(*shape[:2], -1))
            for slope, change in zip(slopes, changes)
        )

        def composed(step):
            parts = zip(slots, self.scales, changes)
            moved = tuple(slot + step * scale * change for slot, scale, change in parts)
            return self.evaluate(moved)[0].reshape(shape)

        true = composed(0.0)
        long, short = (np.abs(composed(step) - true - step * slope).max() for step in STEPS)
        # The error of a slope falls with the square of the step, a jump stays as large as it is.
        return bool(short <= max(0.3 * long, 1e-6 * np.abs(true).max()))


def _world(question: Question, known, asked, most=POSITIONS) -> World:
    rows, composition = np.concatenate([known, asked]), question.composition
    parts = enumerate(zip(question.components, question.columns))
    slots = [component_outputs(k, *part, rows) for k, part in parts]
    composed = jax.eval_shape(composition, [slot[:2] for slot in slots])
    if getattr(composed, "shape", ())[:1] != slots[0][:2].shape[:1]:
        raise ValueError("composition must map slots [n, ...] to one array [n, ...]")
    scales = [float(np.sqrt(np.mean(np.var(x[len(known) :], axis=0))) or 1.0) for x in slots]
    positions = None
    pixelwise = is_pixelwise(composition, [slot[:2] for slot in slots])
    if pixelwise:
        n = int(np.prod(slots[0].shape[1:-1]))
        positions = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
        flat = [slot.reshape(len(slot), 1, n, slot.shape[-1]) for slot in slots]
        slots = [slot[:, :, positions] for slot in flat]
    _, each = second_model.evaluate(composition, tuple(slots), pixelwise)
    slopes = tuple(scale * slope for scale, slope in zip(scales, each))
    if not all(np.isfinite(slope).all() for slope in slopes):
        raise ValueError("the Jacobian of the composition is not finite at some points")
    if not any(slope[len(known) :].any() for slope in slopes):
        raise ValueError("the composition does not change with any component on Q: check it")
    return World(question, rows, positions, tuple(slots), tuple(scales), slopes)


class View(NamedTuple):
    """A world whose components change smoothly over one length; samples are indices of its rows."""

    world: World
    changes: tuple[latents.Changes, ...]
    places: tuple[np.ndarray, ...]  # K arrays [n]: the value of each component

    def design(self, rows, position: int, residue: float = 0.0) -> Design:
        return Design(
            tuple(slope[rows, position] for slope in self.world.slopes),
            tuple(change.cut(residue) for change in self.changes),
            tuple(place[rows] for place in self.places),
        )

    def posterior(self, rows, position: int, noise: float, residue: float = 0.0):
        known = self.design(rows, position, residue)
        return posterior(known, noise**2 * float(np.mean(known.prior())))

    def at_position(self, known, asked, position: int):
        """[m] variance of f on Q after f is known on P, prior variance, whether a row is open."""
        question, design = self.world.question, self.design(asked, position)
        prior = design.prior()
        variance = self.posterior(known, position, question.noise).variance(design)
        usual = np.maximum(prior, prior.mean(0))  # an output with a small prior has no share
        usual = np.where(usual > 0, usual, 1.0)
        is_open = np.any(variance > OPEN**2 * usual, axis=1)
        # Less noise leaves less open: a second look only where it can decide.
        doubtful = ~is_open & np.any(variance > EXACT_OPEN**2 * usual, axis=1)
        if is_open.mean() <= question.few(len(known)) < (is_open | doubtful).mean():
            exact = self.posterior(known, position, EXACT_NOISE)
            left = exact.variance(self.design(asked[doubtful], position))
            is_open[doubtful] = np.any(left > EXACT_OPEN**2 * usual[doubtful], axis=1)
        return variance.mean(1), prior.mean(1), is_open

    def amplification(self, known, asked, positions) -> float:
        """Squared error of f on Q over that on P, at the noise of training."""
        noise, on_p, on_q = self.world.question.training_error, 0.0, 0.0
        for position in positions:
            rough = self.posterior(known, position, noise, 0.01 * noise**2)
            on_p += rough.mean_variance()
            on_q += rough.variance(self.design(asked, position, 0.01 * noise**2)).mean()
        return float(on_q / on_p) if on_p else np.nan

    def only(self, rows, position: int) -> "View":
        """The same view of some rows, at one position."""
        world, here = self.world, [position]
        slots, positions = [slot[rows] for slot in world.slots], world.positions
        if positions is not None:
            slots, positions = [slot[:, :, here] for slot in slots], positions[here]
        slopes = tuple(slope[rows][:, here] for slope in world.slopes)
        some = World(
            world.question, world.rows[rows], positions, tuple(slots), world.scales, slopes
        )
        return View(some, self.changes, tuple(place[rows] for place in self.places))

    def witness(self, known, asked, result: Numbers) -> Witness | None:
        """A second model at the position that is open at most rows."""
        question, position, n = self.world.question, result.position, len(known)
        models = self.only(np.concatenate([known, asked]), position)
        design = self.design(asked, position)
        true, _ = models.evaluate(np.zeros(design.shape[1]), n)
        deviation = float(np.sqrt(np.mean((true - true.mean(0)) ** 2)))
        if deviation == 0:
            return None
        left, sizes = self.posterior(known, position, question.noise), second_model.SIZES
        directions = left.directions(design, DIRECTIONS)
        if not result.is_open.any():  # only large changes can lead elsewhere
            loose = self.posterior(known, position, FOLD_NOISE * question.noise)
            directions = np.concatenate([directions, loose.directions(design, FOLD_DIRECTIONS)])
            sizes = (1.0,)
        tolerance = question.noise * deviation
        second = second_model.search(
            models, n, true, deviation * directions, tolerance, question.few(n), sizes
        )
        if second is None:
            return None
        weights, errors = second
        on_q, spread = errors[n:], np.sum((true[n:] - true[n:].mean(0)) ** 2)
        return Witness(
            float(np.abs(errors[:n]).max() / deviation),
            float(np.sqrt(np.mean(on_q**2)) / deviation),
            float(1 - np.sum(on_q**2) / spread) if spread else float("nan"),
            models.world.rows[n + int(np.argmax(np.max(np.abs(on_q), axis=1)))],
            models.changed_components(weights),
        )

    def split(self, weights: np.ndarray) -> list[np.ndarray]:
        """Weights [W] -> K arrays [r_k, M_k]."""
        ranks = [change.features.shape[1] for change in self.changes]
        sizes = [rank * slope.shape[3] for rank, slope in zip(ranks, self.world.slopes)]
        parts = np.split(weights, np.cumsum(sizes)[:-1])
        return [part.reshape(rank, -1) for part, rank in zip(parts, ranks)]

    def evaluate(self, weights: np.ndarray, n_known: int) -> tuple[np.ndarray, Design]:
        """f [n, rows] of the model with these weights; its derivative by them at the first rows."""
        world = self.world
        parts = zip(world.slots, self.places, self.changes, self.split(weights), world.scales)
        slots = tuple(
            slot + scale * (change.features[place] @ part).reshape(slot.shape)
            for slot, place, change, part, scale in parts
        )
        values, slopes = world.evaluate(slots)
        slopes = tuple(scale * slope[:n_known, 0] for scale, slope in zip(world.scales, slopes))
        places = tuple(place[:n_known] for place in self.places)
        return values.reshape(len(values), -1), Design(slopes, self.changes, places)

    def excess(self, weights: np.ndarray, n_known: int) -> float:
        """The largest norm of a component's weights over its limit.

        The limit is DEVIATIONS of the prior, for each cell of categories on Q by itself.
        """
        question, ratios = self.world.question, [1e-12]
        for columns, part in zip(question.columns, self.split(weights)):
            categories = [d for d in columns if question.space.kinds[d] == "categorical"]
            n_cells = len(np.unique(self.world.rows[n_known:][:, categories], axis=0))
            limit = DEVIATIONS * np.sqrt(n_cells * part.shape[1])
            ratios.append(float(np.linalg.norm(part) / limit))
        return max(ratios)

    def changed_components(self, weights: np.ndarray) -> tuple[Callable, ...]:
        """Components of the model with these weights, as functions of their latents."""
        world = self.world

        def changed(phi, change, part, scale):
            def component(values):
                values = np.asarray(values, np.float64)
                outputs = np.array(phi(values), np.float64)
                moved = scale * change.evaluate(part, values)
                if world.positions is None:
                    return outputs + moved.reshape(outputs.shape)
                flat = outputs.reshape(len(outputs), -1, outputs.shape[-1])
                flat[:, world.positions[0]] += moved
                return flat.reshape(outputs.shape)

            return component

        parts = (world.question.components, self.changes, self.split(weights), world.scales)
        return tuple(map(changed, *parts))


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
    return True
