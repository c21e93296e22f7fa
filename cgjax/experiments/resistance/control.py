"""Is gradient descent the cause? Solutions of equal training loss, with and without gradients.

On the plane, networks are compared whose training loss lies in the same band. *Descent*: the first
iterate of an optimiser in the band. *Guess and check*: draws from the distribution of the starts
that lie in the band. *Walks*: random walks from such draws under a falling ceiling of the loss,
which keep to the distribution of the starts; they reach losses that guesses do not. All of them
have the same training sets. A value is the mean over the solutions of one training set, so that
training sets are the sample of every comparison. Evolution strategies estimate a gradient, so they
count as descent.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from cgjax.analysis import landscape, stats
from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.resistance import plane

SCORES = ("test accuracy", "S_2", "interventional information", "norm", "training loss")
COMPARED = SCORES[:3]
BATCH = 400  # networks that are scored at a time


def check(config) -> None:
    """Raises BadInput for values that are valid one by one but not together."""
    search_config = config.search
    if search_config.level not in config.eval.levels:
        raise BadInput(f"search.level={search_config.level} is not one of eval.levels")
    if config.model.init != "glorot" or config.model.towers or config.model.heads > 1:
        raise BadInput("searches draw glorot weights of one net: leave init, towers and heads")
    if "batch" in search_config and search_config.n_draws % (
        search_config.batch * search_config.n_sets
    ):
        raise BadInput("search.n_draws must be a multiple of search.batch x search.n_sets")
    if missing := set(range(search_config.n_sets)) - set(sets_of(config)):
        raise BadInput(
            f"training set {min(missing)} has no run: train.seeds must cover search.n_sets="
            f"{search_config.n_sets}, seed by seed"
        )


def sets_of(config) -> list[int]:
    """The training set of every seed."""
    return [plane.set_of(config, seed) for seed in config.train.seeds]


def starts(config) -> list[tuple[str, np.float32, np.float32]]:
    """(name, scale, deviation of biases) of every distribution of starts."""
    return [
        (f"scale {scale:g}, biases {bias_std:g}", np.float32(scale), np.float32(bias_std))
        for scale, bias_std in zip(config.model.scales, config.model.bias_stds)
    ]


def compare(config, trained_parts):
    """Metrics and arrays of every way to a solution, for each start and width of the network."""
    scores, numbers = {}, {}  # {(way, start): {score: [levels, sets]}}
    widths = dict.fromkeys(part_config.model.width for part_config, *_ in trained_parts.values())
    for width in widths:
        suffix = f", width {width}" if len(widths) > 1 else ""
        parts_of_width = {
            name.removesuffix(f"_width_{width}"): trained_part
            for name, trained_part in trained_parts.items()
            if trained_part[0].model.width == width
        }
        part_config = next(iter(parts_of_width.values()))[0]
        solutions = Solutions(config, part_config)
        for way, (settings, trained, _) in parts_of_width.items():
            for p, (start, *_) in enumerate(starts(settings)):
                way_scores, more = solutions.visits(settings, trained, p)
                _add(scores, numbers, config, way, start + suffix, way_scores, more)
        for n_steps in config.search.get("walk_steps", ()):
            for start, way_scores, more in solutions.walks(n_steps):
                way = f"walk of {n_steps:,} steps"
                _add(scores, numbers, config, way, start + suffix, way_scores, more)
        if config.search.get("n_draws"):
            for start, *prior in starts(config):
                way_scores, more = solutions.guesses(*prior)
                _add(scores, numbers, config, "guess", start + suffix, way_scores, more)
    numbers |= differences(config, scores)
    arrays = {
        f"solutions/{way}, {start}/{name}": values
        for (way, start), by_score in scores.items()
        for name, values in by_score.items()
    }
    levels = {"levels": np.array(config.eval.levels), "level": np.array(config.search.level)}
    return numbers, arrays | levels


def _add(scores, numbers, config, way, start, way_scores, more) -> None:
    """Adds one way from one start: way_scores {score: [levels, sets]}, more {metric: number}."""
    scores[way, start] = way_scores
    sets = list(range(config.search.n_sets))
    for i, loss in enumerate(config.eval.levels):
        for name in SCORES:
            metric = f"{way}, {start}: {name} at loss {loss:g}"
            numbers[metric] = (_rounded(way_scores[name][i]), sets)
    numbers |= {f"{way}, {start}: {name}": ([value], [0]) for name, value in more.items()}
    level = config.eval.levels.index(config.search.level)
    known = {name: _known(way_scores[name][level]) for name in COMPARED}
    say(
        f"{way}, {start}: {len(known['test accuracy'])} training sets at loss "
        f"{config.search.level:g}; "
        + ", ".join(f"{name} {_interval(values)}" for name, values in known.items())
    )


def _known(values) -> np.ndarray:
    return values[np.isfinite(values)]


def _rounded(values) -> list[float]:
    """Five digits: more would only add to the record's size."""
    return [float(f"{value:.5g}") for value in values]


def _interval(values) -> str:
    """Mean and half of its 95 % interval, as text."""
    if len(values) < 2:
        return "-"
    mean, half = stats.mean_and_interval(values)
    return f"{mean:.3g} ± {half:.2g}"


def differences(config, scores) -> dict:
    """Differences between ways by training set, each the mean over starts and widths.

    A start counts if both ways have solutions on at least half of the training sets.
    """
    ways = list(dict.fromkeys(way for way, _ in scores))
    walks = [way for way in ways if way.startswith("walk")]
    pairs = [(way, "guess") for way in ways if way != "guess" and "guess" in ways]
    pairs += [("sgd", walk) for walk in walks if "sgd" in ways]
    numbers = {}
    for first, second in pairs:
        both = [start for way, start in scores if way == first and (second, start) in scores]
        for i, loss in enumerate(config.eval.levels):
            for name in COMPARED:
                rows = [scores[first, s][name][i] - scores[second, s][name][i] for s in both]
                rows = [row for row in rows if 2 * len(_known(row)) >= len(row)]
                if not rows:
                    continue
                metric = f"{first} less {second}: {name} at loss {loss:g}"
                pooled = _nanmean(np.array(rows))
                numbers[metric] = (_rounded(pooled), list(range(len(pooled))))
                numbers[f"{metric}, starts"] = ([len(rows)], [0])
                say(f"{metric}: {_interval(_known(pooled))} over {len(rows)} starts")
    return numbers


def _nanmean(values) -> np.ndarray:
    """The mean over the first axis of what is finite; NaN where nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(values, axis=0)


def prior(normal, scale, bias_std):
    """Weights of a start from standard normal leaves [..., in, out]: glorot-uniform kernels."""

    def weights(path, leaf):
        if path[-1].key == "bias":
            return bias_std * leaf
        return scale * np.sqrt(6 / sum(leaf.shape[-2:])) * (2 * norm.cdf(leaf) - 1)

    return jax.tree_util.tree_map_with_path(weights, normal)


class Solutions:
    """All ways to solutions of networks of one width; their programs are compiled once."""

    def __init__(self, config, part_config):
        self.config, self.part_config = config, part_config
        self.levels = np.array(config.eval.levels, np.float32)
        self.bands = plane.bands(part_config)
        sets = jnp.arange(config.search.n_sets, dtype=jnp.uint32)
        draw = jax.vmap(lambda s: plane.draw_sets(part_config, s, False))
        self.points = jax.jit(draw)(sets)
        net = plane.network(part_config)
        self.shapes = jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 2)))["params"]
        self._measure = jax.jit(self._measured)
        # Attributes, because each access to a method makes a new object, which would recompile.
        self._draw, self._loss_of = self._normal, self._loss
        self._guess = jax.jit(self._guesses)

    def _measured(self, params, sets, points):
        return jax.lax.map(
            lambda pair: plane.measure(self.part_config, pair[0], tree.take(points, pair[1])),
            (params, sets),
            batch_size=BATCH,
        )

    def by_set(self, params, sets, is_solution) -> dict:
        """{score: [levels, sets]}, the mean over the solutions of a set; NaN where there are none.

        params: leaves [n, levels, ...]; sets [n]; is_solution [n, levels].
        """
        is_solution = np.asarray(is_solution)
        n, n_levels = is_solution.shape
        flat = jax.tree.map(lambda leaf: jnp.reshape(leaf, (n * n_levels, *leaf.shape[2:])), params)
        measured = self._measure(flat, jnp.repeat(jnp.asarray(sets), n_levels), self.points)
        scores = {}
        for name in SCORES:
            values = np.asarray(measured[name], float).reshape(n, n_levels)
            values[~is_solution] = np.nan
            n_sets = self.config.search.n_sets
            by_set = [_nanmean(values[np.asarray(sets) == s]) for s in range(n_sets)]
            scores[name] = np.array(by_set).T
        return scores

    # --- by gradients -----------------------------------------------------------------------------

    def visits(self, settings, trained, p: int):
        """First iterates of one optimiser in each band, from start p, at its best learning rate."""
        lrs, n_levels = settings.optim.lrs, len(self.levels)
        shape = len(trained.seeds), len(settings.model.scales), len(lrs)
        steps = trained.extra["step"].reshape(*shape, n_levels)[:, p]  # [seeds, rates, levels]
        at_level = steps[:, :, self.config.eval.levels.index(self.config.search.level)]
        took = np.where(at_level >= 0, at_level, np.inf)
        # The best rate reaches the band for the most seeds; ties go to the fewest updates.
        best = min(
            range(len(lrs)), key=lambda r: (-np.sum(at_level[:, r] >= 0), np.median(took[:, r]))
        )
        params = jax.tree.map(
            lambda leaf: leaf.reshape(*shape, *leaf.shape[2:])[:, p, best], trained.extra["params"]
        )
        steps = steps[:, best]
        more = {"rate": lrs[best]} | self._shares((steps >= 0).mean(axis=0))
        for i, loss in enumerate(self.config.eval.levels):
            reached = steps[steps[:, i] >= 0, i]
            more[f"updates at loss {loss:g}"] = np.median(reached) if len(reached) else np.nan
        return self.by_set(params, sets_of(settings), steps >= 0), more

    def _shares(self, shares) -> dict:
        """Share of the runs, or of the draws, that have a solution in each band."""
        names = (f"share at loss {loss:g}" for loss in self.config.eval.levels)
        return dict(zip(names, map(float, shares)))

    # --- without gradients ------------------------------------------------------------------------

    def _normal(self, key):
        leaves, structure = jax.tree.flatten(self.shapes)
        keys = jax.random.split(key, len(leaves))
        return structure.unflatten([jax.random.normal(k, a.shape) for k, a in zip(keys, leaves)])

    def _loss(self, normal, data):
        points, *start = data
        return plane.whole_loss(self.part_config, prior(normal, *start), points)

    def guesses(self, scale, bias_std):
        """Draws from one start that lie in the bands: `search.n_draws` on all training sets."""
        search_config = self.config.search
        kept, sets, accepted = self._guess(self.points["train"], scale, bias_std)
        n = search_config.n_draws // search_config.n_sets
        more = self._shares(np.asarray(accepted).sum(axis=0) / (n * search_config.n_sets))
        for loss, counts in zip(self.config.eval.levels, np.asarray(accepted).T):
            more[f"sets at loss {loss:g}"] = int(np.sum(counts > 0))
        params, losses = kept
        return self.by_set(params, sets, np.isfinite(losses)), more

    def _guesses(self, points, scale, bias_std):
        """Kept weights [sets x n_keep, levels, ...], their losses and sets, and n_accepted."""
        search_config = self.config.search

        def guess(set_and_points):
            s, set_points = set_and_points
            return landscape.guess_and_check(
                jax.random.fold_in(jax.random.key(99), s),
                self._draw,
                self._loss_of,
                (set_points, scale, bias_std),
                self.bands,
                search_config.n_draws // search_config.n_sets,
                search_config.n_keep,
                search_config.batch,
            )

        n_sets, n_keep = search_config.n_sets, search_config.n_keep
        guesses = jax.lax.map(guess, (jnp.arange(n_sets), points))  # leaves [sets, levels, ...]
        kept = jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf, 1, 2).reshape(n_sets * n_keep, -1, *leaf.shape[3:]),
            (guesses.params, guesses.losses),
        )
        weights = prior(kept[0], scale, bias_std)
        sets = jnp.repeat(jnp.arange(n_sets), n_keep)
        return (weights, kept[1]), sets, guesses.n_accepted

    def walks(self, n_steps: int):
        """One walk per seed and start, all in one program: (start, scores, more) of every start."""
        known = starts(self.config)
        seeds = jnp.asarray(np.asarray(self.config.train.seeds, np.uint32))
        sets = jnp.asarray(sets_of(self.config))

        @jax.jit
        def program(points, scales, bias_stds):
            def walk(seed, s, scale, bias_std):
                key = jax.random.fold_in(jax.random.key(seed), 98)
                data = (tree.take(points, s), scale, bias_std)
                walked = landscape.metropolis(
                    key,
                    self._draw(jax.random.fold_in(key, 0)),
                    lambda normal: self._loss(normal, data),
                    self.bands,
                    n_steps,
                    self.config.search.walk_scale,
                )
                return prior(walked.params, scale, bias_std), walked.n_steps

            by_seed = jax.vmap(walk, in_axes=(0, 0, None, None))
            return jax.vmap(by_seed, in_axes=(None, None, 0, 0))(seeds, sets, scales, bias_stds)

        scales, bias_stds = (np.array(values) for values in zip(*(s[1:] for s in known)))
        params, steps = program(self.points["train"], scales, bias_stds)
        for p, (start, *_) in enumerate(known):
            reached = np.asarray(steps[p]) >= 0
            more = self._shares(reached.mean(axis=0))
            yield start, self.by_set(tree.take(params, p), sets, reached), more
