"""Is gradient descent the cause? Solutions of equal training loss, with and without gradients.

On the plane there are three ways to a solution. Every optimiser has its first crossing of a level
of the training loss. *Guess and check* draws weights from the same start and keeps those at that
level. *Metropolis* is a random walk from the same start under a falling ceiling of the loss.
Evolution strategies estimate a gradient, so they count as optimisers.
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
BATCH = 1000  # guesses per call


def check(config) -> None:
    """Checks that the level of the metrics is one of those whose crossings are kept."""
    if config.search.level not in config.eval.levels:
        raise BadInput(f"search.level={config.search.level} is not one of eval.levels")
    if config.model.init != "glorot":
        raise BadInput("this study needs model.init=glorot: searches start from it")
    if config.search.n_draws % (BATCH * config.search.n_sets):
        raise BadInput(f"search.n_draws must be a multiple of {BATCH} x search.n_sets")


def priors(config) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(suffix of metric names, scale, deviation of biases) of every start."""
    several = len(config.model.scales) > 1
    starts = zip(config.model.scales, config.model.bias_stds)
    return [
        (
            f", scale {s:g}, biases {b:g}" if several else f", scale {s:g}",
            np.float32(s),
            np.float32(b),
        )
        for s, b in starts
    ]


def compare(config, trained_parts):
    """Metrics and arrays of every way to a solution, for each start and width of the network."""
    check(config)
    numbers = {}
    arrays = {"levels": np.array(config.eval.levels), "level": np.array(config.search.level)}
    widths = list(
        dict.fromkeys(part_config.model.width for part_config, *_ in trained_parts.values())
    )
    for width in widths:
        suffix = f", width {width}" if len(widths) > 1 else ""
        same = {
            name.removesuffix(f"_width_{width}"): trained_part
            for name, trained_part in trained_parts.items()
            if trained_part[0].model.width == width
        }
        _compare(config, same, suffix, numbers, arrays)
    return numbers, arrays


def _compare(config, trained_parts, width_suffix: str, numbers: dict, arrays: dict) -> None:
    """Adds metrics and arrays of networks of one width; width_suffix names it in metrics."""
    level = config.eval.levels.index(config.search.level)
    part_config = next(iter(trained_parts.values()))[0]
    points = _points(part_config)
    measure = jax.jit(
        lambda params, data: jax.lax.map(
            lambda network_and_data: of_plane.measure(part_config, *network_and_data),
            (params, data),
            batch_size=32,
        )
    )

    def scored(params, data) -> dict:
        measured = measure(jax.tree.map(jnp.asarray, params), data)
        return {name: np.asarray(measured[name]) for name in SCORES}

    searches = Searches(config, part_config, points, scored)
    for p, (suffix, *prior) in enumerate(priors(config)):
        suffix += width_suffix
        for name, (settings, trained, _) in trained_parts.items():
            ways = _crossings(settings, trained, p, level, scored, points)
            _add(numbers, arrays, config, f"{name}{suffix}", level, ways)
        if config.search.walk_steps:
            _add(numbers, arrays, config, f"metropolis{suffix}", level, searches.walks(*prior))
        if config.search.n_draws:
            _add(numbers, arrays, config, f"guess{suffix}", level, searches.guesses(*prior))
            numbers |= _matched(arrays, [*trained_parts, "metropolis"], suffix, level)


def _points(part_config):
    """All points of every seed, in setting A."""
    seeds = jnp.asarray(np.asarray(part_config.train.seeds, np.uint32))
    return jax.jit(jax.vmap(lambda seed: of_plane.draw(part_config, seed, False)))(seeds)


def _add(numbers, arrays, config, way, level, ways) -> None:
    """Adds one way to a solution; ways: ({score: [levels, n]}, {further metric: value}).

    Scores are NaN where no solution was found.
    """
    scores, extra = ways
    solved = np.isfinite(scores["test accuracy"][level])
    for name in SCORES:
        values = scores[name][level]
        arrays[f"solutions/{way}/{name}"] = scores[name]
        numbers[f"{way}: {name}"] = (values, list(range(len(values))))
    numbers |= {f"{way}: {name}": ([value], [0]) for name, value in extra.items()}
    numbers |= _elsewhere(config, way, level, scores)
    intervals = [_interval(scores[name][level][solved]) for name in COMPARED]
    say(
        f"{way}: {solved.sum()} solutions at loss {config.search.level:g}; "
        + ", ".join(f"{name} {text}" for name, text in zip(COMPARED, intervals))
    )


def _interval(values) -> str:
    """Mean and half of its 95 % interval, as text."""
    if len(values) < 2:
        return "-"
    mean, half = stats.mean_and_interval(values)
    return f"{mean:.3g} ± {half:.2g}"


def _elsewhere(config, way, level, scores) -> dict:
    """Means over solutions at the other levels; single solutions would be thousands of values."""
    numbers = {}
    for i, loss in enumerate(config.eval.levels):
        if i != level and (n := np.isfinite(scores["test accuracy"][i]).sum()) > 1:
            ending = f"at loss {loss:g}"
            means = {name: np.nanmean(scores[name][i]) for name in COMPARED}
            numbers |= {f"{way}: {name} {ending}": ([x], [0]) for name, x in means.items()}
            numbers[f"{way}: solutions {ending}"] = ([n], [0])
    return numbers


# --- by gradients ---------------------------------------------------------------------------------


def _crossings(settings, trained, prior, level, scored, points):
    """The first crossings of one optimiser, at its fastest learning rate for one start."""
    lrs, n_priors = settings.optim.lrs, len(settings.model.scales)
    n_seeds, n_levels = len(trained.seeds), len(settings.eval.levels)
    steps = trained.extra["step"].reshape(n_seeds, n_priors, len(lrs), n_levels)[:, prior]
    reached = steps[:, :, level] >= 0  # [seeds, rates]
    took = np.where(reached, steps[:, :, level], np.inf)
    # The best rate reaches the level for the most seeds; ties go to the fewest steps.
    order = sorted(range(len(lrs)), key=lambda r: (-reached[:, r].sum(), np.median(took[:, r])))
    best = order[0]
    params = jax.tree.map(
        lambda leaf: leaf.reshape(n_seeds, n_priors, len(lrs), *leaf.shape[2:])[:, prior, best],
        trained.extra["params"],
    )  # [seeds, levels, ...]
    scores = {name: np.full((n_levels, n_seeds), np.nan) for name in SCORES}
    for i in range(n_levels):
        measured = scored(tree.take(params, (slice(None), i)), points)
        for name in SCORES:
            scores[name][i] = np.where(steps[:, best, i] >= 0, measured[name], np.nan)
    steps_at_level = steps[:, best, level]
    return scores, {
        "rate": lrs[best],
        **_updates(steps_at_level, steps_at_level >= 0),
    }


def _updates(steps, reached) -> dict:
    """Median of the updates of runs that reach the level, and the number of the other runs."""
    median = float(np.median(steps[reached])) if reached.any() else np.nan
    return {"updates": median, "censored": int(np.sum(~reached))}


# --- without gradients ----------------------------------------------------------------------------


def _start(part_config):
    """Draws weights of scale 1 and biases of deviation 1; `_scaled` turns them into any start."""
    net = of_plane.network(part_config)
    shapes = jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 2)))["params"]
    return lambda key: models.initial(key, shapes, part_config.model.init, 1.0, 1.0)


def _scaled(params, scale, bias_std):
    """The same draw for another start, equal to `models.initial` if biases are centred at 0."""
    factor = {"kernel": scale, "bias": bias_std, "gate": 1.0}
    return jax.tree_util.tree_map_with_path(lambda path, leaf: factor[path[-1].key] * leaf, params)


class Searches:
    """Both searches of a row; each is compiled once for all starts."""

    def __init__(self, config, part_config, points, scored):
        self.config, self.part_config = config, part_config
        self.points, self.scored = points, scored
        self.draw = _start(part_config)
        self.loss = self._loss  # each access makes a new method object, which would recompile
        self.walk = jax.jit(jax.vmap(self._walk, in_axes=(0, 0, None, None)))

    def _loss(self, params, data):
        points, *prior = data
        return of_plane.whole_loss(self.part_config, _scaled(params, *prior), points)

    def guesses(self, scale, bias_std):
        """Weights drawn until their loss is at most each level, on several training sets."""
        search_config, levels = self.config.search, np.array(self.config.eval.levels, np.float32)
        n_sets = min(search_config.n_sets, len(self.part_config.train.seeds))
        n, parts, accepted = search_config.n_draws // search_config.n_sets, [], 0
        for s in range(n_sets):
            data = tree.take(self.points, s)
            key = jax.random.fold_in(jax.random.key(self.part_config.train.seeds[s]), 99)
            guesses = search.guess_and_check(
                key,
                self.draw,
                self.loss,
                (data["train"], scale, bias_std),
                levels,
                n,
                search_config.n_keep,
                BATCH,
            )
            accepted = accepted + np.asarray(guesses.n_accepted)
            n_kept = guesses.losses.shape[1]
            points_of_guesses = tree.take(self.points, np.full(n_kept, s))
            params = _scaled(guesses.params, scale, bias_std)
            rows = [
                self.scored(tree.take(params, i), points_of_guesses) for i in range(len(levels))
            ]
            accepted_here = np.isfinite(np.asarray(guesses.losses))
            parts.append(
                {
                    name: np.where(accepted_here, np.stack([row[name] for row in rows]), np.nan)
                    for name in SCORES
                }
            )
        scores = {name: np.concatenate([part[name] for part in parts], axis=1) for name in SCORES}
        level = self.config.eval.levels.index(search_config.level)
        counts = zip(self.config.eval.levels, accepted)
        enough = [x for x, count in counts if count >= search_config.n_keep]
        return scores, {
            "accepted of a million": 1e6 * accepted[level] / (n * n_sets),
            "lowest level with enough": min(enough) if enough else np.nan,
        }

    def _walk(self, seed, data, scale, bias_std):
        key, search_config = jax.random.key(seed), self.config.search
        start = _scaled(self.draw(rng.stream(key, "init")), scale, bias_std)  # as in the loop
        return search.metropolis(
            jax.random.fold_in(key, 98),
            start,
            lambda params: of_plane.whole_loss(self.part_config, params, data["train"]),
            np.array(self.config.eval.levels, np.float32),
            search_config.walk_steps,
        )

    def walks(self, scale, bias_std):
        """One walk per seed, from the start of gradient descent."""
        seeds = jnp.asarray(np.asarray(self.part_config.train.seeds, np.uint32))
        walks = self.walk(seeds, self.points, scale, bias_std)
        reached, steps = (np.asarray(a).T for a in (walks.found, walks.n_steps))  # [levels, seeds]
        rows = [
            self.scored(tree.take(walks.params, (slice(None), i)), self.points)
            for i in range(len(reached))
        ]
        scores = {
            name: np.where(reached, np.stack([row[name] for row in rows]), np.nan)
            for name in SCORES
        }
        level = self.config.eval.levels.index(self.config.search.level)
        return scores, _updates(steps[level], reached[level])


def _matched(arrays, names, suffix, level) -> dict:
    """Test accuracy of each way minus that of the guess with the nearest weight norm."""
    numbers, guess = {}, f"solutions/guess{suffix}/"
    guess_norms, guess_accuracies = (
        arrays[guess + name][level] for name in ("norm", "test accuracy")
    )
    is_guess = np.isfinite(guess_norms)
    for name in names:
        prefix = f"solutions/{name}{suffix}/"
        if prefix + "norm" not in arrays or is_guess.sum() < 2:
            continue
        norms, accuracies = (arrays[prefix + key][level] for key in ("norm", "test accuracy"))
        is_solution = np.isfinite(norms)
        if is_solution.sum() < 2:
            continue
        nearest = np.abs(norms[is_solution][:, None] - guess_norms[is_guess][None]).argmin(axis=1)
        difference = accuracies[is_solution] - guess_accuracies[is_guess][nearest]
        mean, half = stats.mean_and_interval(difference)
        numbers[f"{name}{suffix}: less guesses of nearest norm"] = (
            difference,
            list(range(len(difference))),
        )
        # Several solutions may share a guess, although the interval treats them as independent.
        say(f"{name}{suffix}: {mean:+.3f} ± {half:.3f} against guesses of nearest norm")
    return numbers
