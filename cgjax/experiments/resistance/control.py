"""Is it gradient descent? Solutions of equal training loss, with gradients and without.

On the plane: every optimiser's first crossing of a level of the training loss; *guess and check*,
weights drawn from the same start and kept at that level; *Metropolis*, a random walk from the same
start under a falling ceiling. Evolution strategies estimate a gradient: they are optimisers here.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import stats
from cgjax.core import grads, rng
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.resistance import models
from cgjax.experiments.resistance.training import plane as of_plane

SCORES = ("test accuracy", "S_2", "interventional information", "norm", "training loss")
BATCH = 1000  # guesses at a time


def check(config) -> None:
    """The level of the metrics is one of those whose crossing is kept."""
    if config.search.level not in config.eval.levels:
        raise BadInput(f"search.level={config.search.level} is none of eval.levels")
    if config.search.n_draws % (BATCH * config.search.n_sets):
        raise BadInput(f"search.n_draws is a multiple of {BATCH} for each of search.n_sets")


def priors(config) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(word, scale, deviation of biases) of every start."""
    several = len(config.model.scales) > 1
    found = zip(config.model.scales, config.model.bias_stds)
    return [
        (f", scale {s:g}, biases {b:g}" if several else f", scale {s:g}", np.float32(s), np.float32(b))
        for s, b in found
    ]


def compare(config, found):
    """Metrics and arrays of every way to a solution, for each start."""
    check(config)
    level = config.eval.levels.index(config.search.level)
    numbers, arrays = {}, {"levels": np.array(config.eval.levels)}
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

    for p, prior in enumerate(priors(config)):
        for name, (settings, trained, _) in found.items():
            _add(numbers, arrays, config, f"{name}{prior[0]}", level,
                 _crossings(settings, trained, p, level, scored, points))  # fmt: skip
        if config.search.walk_steps:
            _add(numbers, arrays, config, f"metropolis{prior[0]}", level,
                 _walks(config, own, prior, scored, points))  # fmt: skip
        if config.search.n_draws:
            ways = _guesses(config, own, prior, scored, points)
            _add(numbers, arrays, config, f"guess{prior[0]}", level, ways)
            numbers |= _matched(arrays, [*found, "metropolis"], prior[0], level)
    return numbers, arrays


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
    mean = np.nanmean(scores["test accuracy"][level]) if held.any() else np.nan
    say(f"{word}: {held.sum()} solutions at loss {config.search.level:g}, test {mean:.3f}")


# --- by gradients ---------------------------------------------------------------------------------


def _crossings(settings, trained, prior, level, scored, points):
    """The first crossings of one optimiser, at its quickest rate for one start."""
    lrs, n_priors = settings.optim.lrs, len(settings.model.scales)
    n_seeds, n_levels = len(trained.seeds), len(settings.eval.levels)
    steps = trained.extra["step"].reshape(n_seeds, n_priors, len(lrs), n_levels)[:, prior]
    reached = steps[:, :, level] >= 0  # [seeds, rates]
    took = np.where(reached, steps[:, :, level], np.inf)
    # Most seeds first, then the fewest steps.
    order = sorted(
        range(len(lrs)), key=lambda r: (-reached[:, r].sum(), np.median(took[:, r]))
    )
    best = order[0]
    params = jax.tree.map(
        lambda leaf: leaf.reshape(n_seeds, n_priors, len(lrs), *leaf.shape[2:])[:, prior, best],
        trained.extra["params"],
    )  # [seeds, levels, ...]
    scores = {name: np.full((n_levels, n_seeds), np.nan) for name in SCORES}
    for i in range(n_levels):
        found = scored(jax.tree.map(lambda leaf: leaf[:, i], params), points)
        for name in SCORES:
            scores[name][i] = np.where(steps[:, best, i] >= 0, found[name], np.nan)
    known = steps[:, best, level]
    return scores, {
        "rate": lrs[best],
        "updates": float(np.median(known[known >= 0])) if np.any(known >= 0) else np.nan,
        "censored": int(np.sum(known < 0)),
    }


# --- without --------------------------------------------------------------------------------------


def _drawing(own, prior):
    net = of_plane.network(own)
    shapes = jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 2)))["params"]
    _, scale, bias_std = prior
    return lambda key: models.initial(key, shapes, own.model.init, scale, bias_std)


def _guesses(config, own, prior, scored, points):
    """Weights drawn until their loss is at most each level, on several seeds' training sets."""
    draw, levels = _drawing(own, prior), np.array(config.eval.levels, np.float32)
    n_sets = min(config.search.n_sets, len(own.train.seeds))

    def loss(params, some):
        return of_plane.whole_loss(own, params, some)

    parts, accepted = [], 0
    for s in range(n_sets):
        data = jax.tree.map(lambda leaf: leaf[s], points)
        key = jax.random.fold_in(jax.random.key(own.train.seeds[s]), 99)
        n = config.search.n_draws // config.search.n_sets
        found = grads.guess_and_check(
            key, draw, loss, data["train"], levels, n, config.search.n_keep, BATCH
        )
        accepted = accepted + np.asarray(found.n_accepted)
        n_kept = found.losses.shape[1]
        every = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n_kept, *leaf.shape)), data)
        rows = [
            scored(jax.tree.map(lambda leaf: leaf[i], found.params), every)
            for i in range(len(levels))
        ]
        held = np.isfinite(np.asarray(found.losses))
        parts.append({
            name: np.where(held, np.stack([row[name] for row in rows]), np.nan) for name in SCORES
        })  # fmt: skip
    scores = {name: np.concatenate([part[name] for part in parts], axis=1) for name in SCORES}
    n_draws = n * n_sets
    level = config.eval.levels.index(config.search.level)
    enough = [x for x, count in zip(config.eval.levels, accepted) if count >= config.search.n_keep]
    return scores, {
        "accepted of a million": 1e6 * accepted[level] / n_draws,
        "lowest level with enough": min(enough) if enough else np.nan,
    }


def _walks(config, own, prior, scored, points):
    """One walk for each seed, from where gradient descent starts too."""
    draw, search = _drawing(own, prior), config.search
    seeds = jnp.asarray(np.asarray(own.train.seeds, np.uint32))

    @jax.jit
    @jax.vmap
    def walk(seed, data):
        key = jax.random.key(seed)
        start = draw(rng.stream(key, "init"))  # as the loop does
        return grads.metropolis(
            jax.random.fold_in(key, 98), start,
            lambda params: of_plane.whole_loss(own, params, data["train"]),
            search.level, search.walk_steps, search.walk_scale, search.walk_decay,
        )  # fmt: skip

    found = walk(seeds, points)
    every = scored(found.params, points)
    n_levels, level = len(config.eval.levels), config.eval.levels.index(search.level)
    scores = {name: np.full((n_levels, len(seeds)), np.nan) for name in SCORES}
    ended = np.asarray(found.found)
    for name in SCORES:
        scores[name][level] = np.where(ended, every[name], np.nan)
    return scores, {
        "updates": float(np.median(np.asarray(found.n_steps))),
        "censored": int(np.sum(~ended)),
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
        numbers[f"{name}{word}: less guesses of equal norm"] = (apart, list(range(len(apart))))
        say(f"{name}{word}: {mean:+.3f} ± {half:.3f} against guesses of equal norm")
    return numbers
