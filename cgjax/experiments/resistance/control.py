"""Is it gradient descent? Solutions of equal training loss, with gradients and without.

On the plane: every optimiser's first crossing of a level of the training loss; *guess and check*,
weights drawn from the same start and kept at that level; *Metropolis*, a random walk from the same
start under a falling ceiling. Evolution strategies estimate a gradient: they are optimisers here.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import search, stats
from cgjax.core import rng, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.resistance import models
from cgjax.experiments.resistance.training import plane as of_plane

SCORES = ("test accuracy", "S_2", "interventional information", "norm", "training loss")
COMPARED = SCORES[:3]
BATCH = 1000  # guesses at a time


def check(config) -> None:
    """The level of the metrics is one of those whose crossing is kept."""
    if config.search.level not in config.eval.levels:
        raise BadInput(f"search.level={config.search.level} is none of eval.levels")
    if config.model.init != "glorot":
        raise BadInput("searches start from model.init=glorot")
    if config.search.n_draws % (BATCH * config.search.n_sets):
        raise BadInput(f"search.n_draws is a multiple of {BATCH} for each of search.n_sets")


def priors(config) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(word, scale, deviation of biases) of every start."""
    several = len(config.model.scales) > 1
    found = zip(config.model.scales, config.model.bias_stds)
    return [
        (
            f", scale {s:g}, biases {b:g}" if several else f", scale {s:g}",
            np.float32(s),
            np.float32(b),
        )
        for s, b in found
    ]


def compare(config, found):
    """Metrics and arrays of every way to a solution, for each start and width of the network."""
    check(config)
    numbers, arrays = {}, {"levels": np.array(config.eval.levels)}
    widths = list(dict.fromkeys(own.model.width for own, *_ in found.values()))
    for width in widths:
        word = f", width {width}" if len(widths) > 1 else ""
        same = {
            name.removesuffix(f"_width_{width}"): one
            for name, one in found.items()
            if one[0].model.width == width
        }
        _compare(config, same, word, numbers, arrays)
    return numbers, arrays


def _compare(config, found, width: str, numbers: dict, arrays: dict) -> None:
    """Adds what was found with networks of one width, which `width` tells."""
    level = config.eval.levels.index(config.search.level)
    own = next(iter(found.values()))[0]
    points = _points(own)
    measure = jax.jit(
        lambda params, data: jax.lax.map(
            lambda one: of_plane.measure(own, *one), (params, data), batch_size=32
        )
    )

    def scored(params, data) -> dict:
        every = measure(jax.tree.map(jnp.asarray, params), data)
        return {name: np.asarray(every[name]) for name in SCORES}

    searches = Searches(config, own, points, scored)
    for p, (word, *prior) in enumerate(priors(config)):
        word += width
        for name, (settings, trained, _) in found.items():
            ways = _crossings(settings, trained, p, level, scored, points)
            _add(numbers, arrays, config, f"{name}{word}", level, ways)
        if config.search.walk_steps:
            _add(numbers, arrays, config, f"metropolis{word}", level, searches.walks(*prior))
        if config.search.n_draws:
            _add(numbers, arrays, config, f"guess{word}", level, searches.guesses(*prior))
            numbers |= _matched(arrays, [*found, "metropolis"], word, level)


def _points(own):
    """All points of every seed, in setting A."""
    seeds = jnp.asarray(np.asarray(own.train.seeds, np.uint32))
    return jax.jit(jax.vmap(lambda seed: of_plane.draw(own, seed, False)))(seeds)


def _add(numbers, arrays, config, word, level, ways) -> None:
    """ways: {score: [levels, n]} with NaN where no solution was found, and what else is known."""
    scores, more = ways
    held = np.isfinite(scores["test accuracy"][level])
    for name in SCORES:
        values = scores[name][level]
        arrays[f"solutions/{word}/{name}"] = scores[name]
        numbers[f"{word}: {name}"] = (values, list(range(len(values))))
    numbers |= {f"{word}: {name}": ([value], [0]) for name, value in more.items()}
    numbers |= _elsewhere(config, word, level, scores)
    told = [_interval(scores[name][level][held]) for name in COMPARED]
    say(f"{word}: {held.sum()} solutions at loss {config.search.level:g}; "
        + ", ".join(f"{name} {text}" for name, text in zip(COMPARED, told)))  # fmt: skip


def _interval(values) -> str:
    """Mean and half of its 95 % interval, in words."""
    if len(values) < 2:
        return "-"
    mean, half = stats.mean_and_interval(values)
    return f"{mean:.3g} ± {half:.2g}"


def _elsewhere(config, word, level, scores) -> dict:
    """Means over the solutions at the other levels; not every single one, there are thousands."""
    numbers = {}
    for i, loss in enumerate(config.eval.levels):
        if i != level and (n := np.isfinite(scores["test accuracy"][i]).sum()) > 1:
            ending = f"at loss {loss:g}"
            means = {name: np.nanmean(scores[name][i]) for name in COMPARED}
            numbers |= {f"{word}: {name} {ending}": ([x], [0]) for name, x in means.items()}
            numbers[f"{word}: solutions {ending}"] = ([n], [0])
    return numbers


# --- by gradients ---------------------------------------------------------------------------------


def _crossings(settings, trained, prior, level, scored, points):
    """The first crossings of one optimiser, at its quickest rate for one start."""
    lrs, n_priors = settings.optim.lrs, len(settings.model.scales)
    n_seeds, n_levels = len(trained.seeds), len(settings.eval.levels)
    steps = trained.extra["step"].reshape(n_seeds, n_priors, len(lrs), n_levels)[:, prior]
    reached = steps[:, :, level] >= 0  # [seeds, rates]
    took = np.where(reached, steps[:, :, level], np.inf)
    # Most seeds first, then the fewest steps.
    order = sorted(range(len(lrs)), key=lambda r: (-reached[:, r].sum(), np.median(took[:, r])))
    best = order[0]
    params = jax.tree.map(
        lambda leaf: leaf.reshape(n_seeds, n_priors, len(lrs), *leaf.shape[2:])[:, prior, best],
        trained.extra["params"],
    )  # [seeds, levels, ...]
    scores = {name: np.full((n_levels, n_seeds), np.nan) for name in SCORES}
    for i in range(n_levels):
        found = scored(tree.take(params, (slice(None), i)), points)
        for name in SCORES:
            scores[name][i] = np.where(steps[:, best, i] >= 0, found[name], np.nan)
    known = steps[:, best, level]
    return scores, {
        "rate": lrs[best],
        "updates": float(np.median(known[known >= 0])) if np.any(known >= 0) else np.nan,
        "censored": int(np.sum(known < 0)),
    }


# --- without --------------------------------------------------------------------------------------


def _start(own):
    """Weights of scale 1, biases of deviation 1: `_scaled` makes any start of them."""
    net = of_plane.network(own)
    shapes = jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 2)))["params"]
    return lambda key: models.initial(key, shapes, own.model.init, 1.0, 1.0)


def _scaled(params, scale, bias_std):
    """The same draw from another start, as `models.initial` has it where biases are around 0."""
    factor = {"kernel": scale, "bias": bias_std, "gate": 1.0}
    return jax.tree_util.tree_map_with_path(lambda path, leaf: factor[path[-1].key] * leaf, params)


class Searches:
    """Both searches of a row, each compiled once for all of its starts."""

    def __init__(self, config, own, points, scored):
        self.config, self.own, self.points, self.scored = config, own, points, scored
        self.draw = _start(own)
        self.loss = self._loss  # a method is a new object each time: it would be compiled anew
        self.walk = jax.jit(jax.vmap(self._walk, in_axes=(0, 0, None, None)))

    def _loss(self, params, data):
        points, *prior = data
        return of_plane.whole_loss(self.own, _scaled(params, *prior), points)

    def guesses(self, scale, bias_std):
        """Weights drawn until their loss is at most each level, on several training sets."""
        asked, levels = self.config.search, np.array(self.config.eval.levels, np.float32)
        n_sets = min(asked.n_sets, len(self.own.train.seeds))
        n, parts, accepted = asked.n_draws // asked.n_sets, [], 0
        for s in range(n_sets):
            data = tree.take(self.points, s)
            key = jax.random.fold_in(jax.random.key(self.own.train.seeds[s]), 99)
            found = search.guess_and_check(
                key, self.draw, self.loss, (data["train"], scale, bias_std), levels, n,
                asked.n_keep, BATCH,
            )  # fmt: skip
            accepted = accepted + np.asarray(found.n_accepted)
            n_kept = found.losses.shape[1]
            every = tree.take(self.points, np.full(n_kept, s))
            params = _scaled(found.params, scale, bias_std)
            rows = [self.scored(tree.take(params, i), every) for i in range(len(levels))]
            held = np.isfinite(np.asarray(found.losses))
            parts.append({
                name: np.where(held, np.stack([row[name] for row in rows]), np.nan)
                for name in SCORES
            })  # fmt: skip
        scores = {name: np.concatenate([part[name] for part in parts], axis=1) for name in SCORES}
        level = self.config.eval.levels.index(asked.level)
        counts = zip(self.config.eval.levels, accepted)
        enough = [x for x, count in counts if count >= asked.n_keep]
        return scores, {
            "accepted of a million": 1e6 * accepted[level] / (n * n_sets),
            "lowest level with enough": min(enough) if enough else np.nan,
        }

    def _walk(self, seed, data, scale, bias_std):
        key, asked = jax.random.key(seed), self.config.search
        start = _scaled(self.draw(rng.stream(key, "init")), scale, bias_std)  # as the loop starts
        return search.metropolis(
            jax.random.fold_in(key, 98), start,
            lambda params: of_plane.whole_loss(self.own, params, data["train"]),
            np.array(self.config.eval.levels, np.float32), asked.walk_steps, asked.walk_scale,
            asked.walk_decay,
        )  # fmt: skip

    def walks(self, scale, bias_std):
        """One walk for each seed, from where gradient descent starts too."""
        seeds = jnp.asarray(np.asarray(self.own.train.seeds, np.uint32))
        found = self.walk(seeds, self.points, scale, bias_std)
        ended, steps = (np.asarray(a).T for a in (found.found, found.n_steps))  # [levels, seeds]
        rows = [
            self.scored(tree.take(found.params, (slice(None), i)), self.points)
            for i in range(len(ended))
        ]
        scores = {
            name: np.where(ended, np.stack([row[name] for row in rows]), np.nan) for name in SCORES
        }
        level = self.config.eval.levels.index(self.config.search.level)
        return scores, {
            "updates": float(np.median(steps[level])),
            "censored": int(np.sum(~ended[level])),
        }


def _matched(arrays, names, word, level) -> dict:
    """Test accuracy of each way less that of the guess whose weights' norm is nearest."""
    numbers, guess = {}, f"solutions/guess{word}/"
    norm, right = (arrays[guess + name][level] for name in ("norm", "test accuracy"))
    held = np.isfinite(norm)
    for name in names:
        prefix = f"solutions/{name}{word}/"
        if prefix + "norm" not in arrays or held.sum() < 2:
            continue
        own, ours = (arrays[prefix + key][level] for key in ("norm", "test accuracy"))
        known = np.isfinite(own)
        if known.sum() < 2:
            continue
        near = np.abs(own[known][:, None] - norm[held][None]).argmin(axis=1)
        apart = ours[known] - right[held][near]
        mean, half = stats.mean_and_interval(apart)
        numbers[f"{name}{word}: less guesses of nearest norm"] = (apart, list(range(len(apart))))
        # Several may have the same guess: the interval takes them for independent.
        say(f"{name}{word}: {mean:+.3f} ± {half:.3f} against guesses of nearest norm")
    return numbers
