"""Tables and pictures of the README, from the record.

record: the recorded runs; studies: {"optimiser": the study of low seeds, "speed": times of steps}.
"""

import itertools
import operator
import pathlib

import numpy as np
import scipy.stats

from cgjax import plots
from cgjax.analysis import stats
from cgjax.experiments.sprites import jumps, unsupervised
from cgjax.experiments.sprites.beyond import LARGEST_LEAK
from cgjax.experiments.sprites.interventions import INTERVENTIONS, LEAD
from cgjax.published import PUBLISHED
from cgjax.published.results import by_row

LOW = 0.925  # of R2 on all combinations at `fast`; most seeds end at 0.934 to 0.939
FAR_BELOW = 0.02  # in R2: a seed at `paper` that ends so far below its row's best seed is low
APART = 0.15  # of the loss: a seed that stays so far above its row's least loss is apart from it


def paper_table(record: list[dict], studies: dict) -> list:
    """The paper's table: R2 on all combinations, ours at the published length and at a tenth.

    The last column has R2 on known combinations at the published length, ours less the paper's.
    """
    runs = {size: by_row(record, size) for size in ("paper", "fast")}
    columns = ("ours at `paper`, every seed", "at `fast`", "known, in sd")
    rows = [("row", "paper, mean ± sd", *columns)]
    for row, published in PUBLISHED["sprites"].items():
        cells = []
        for size in runs:
            values = runs[size][row]["r2_all"]["values"] if row in runs[size] else ()
            cells.append(", ".join(f"{value:.3f}" for value in values) or "not run")
        known = published["r2_id"]
        values = runs["paper"][row]["r2_id"]["values"] if row in runs["paper"] else ()
        cells.append(", ".join(f"{(value - known['mean']) / known['sd']:+.1f}" for value in values))
        number = published["r2_all"]
        rows.append((f"`{row}`", f"{number['mean']:.4f} ± {number['sd']:.4f}", *cells))
    return rows


def jumps_table(record: list[dict], studies: dict) -> list:
    """Which implementations jump: one line each, with the largest rise of every seed."""
    rows = [
        ("implementation", "seeds with a jump", "95 % interval", "largest rise of each seed, %")
    ]
    for entry in studies["optimiser"]["jumps"]["implementations"]:
        _, n, n_jumps, interval = jumps.count(entry)
        rises = ", ".join(f"{100 * rise:.0f}" for rise in entry["largest_rise"])
        rows.append((entry["what"], f"{n_jumps} of {n}", interval, rises))
    return rows


def low_seeds(record: list[dict], studies: dict) -> str:
    """How many seeds end low in each run of the orthogonal support with the published optimiser."""
    runs = [by_row(record, "fast")["orthogonal_compositional"]["r2_all"]["values"]]
    runs += [run["r2_all"] for run in _variants(studies) if run["b2"] == 0.999]
    counts = [f"{sum(value < LOW for value in values)} of {len(values)}" for values in runs]
    return f"{', '.join(counts[:-1])} and {counts[-1]} seeds ({len(runs)} runs)"


def _variants(studies: dict, dtypes: tuple = ("float32",)) -> list[dict]:
    """Recorded runs of the orthogonal support at `fast`, with any b2."""
    wanted = {"row": "orthogonal_compositional", "size": "fast"}
    runs = [run for run in studies["optimiser"]["variants"] if wanted.items() <= run.items()]
    return [run for run in runs if run["dtype"] in dtypes]


def shorter_memory(record: list[dict], studies: dict) -> str:
    """Which seeds end low in the runs with a shorter memory of squared gradients."""
    runs = [run for run in _variants(studies) if run["b2"] < 0.999]
    low = [(seed, r2) for run in runs for seed, r2 in zip(run["seeds"], run["r2_all"]) if r2 < LOW]
    seeds = sorted({seed for seed, _ in low})
    scores = [r2 for _, r2 in low]
    return (
        f"{len(low)} of {sum(len(run['seeds']) for run in runs)} seeds in {len(runs)} runs end low "
        f"nevertheless (seed {', '.join(map(str, seeds))}: {min(scores):.3f} to {max(scores):.3f})"
    )


def low_at_paper(record: list[dict], studies: dict) -> list:
    """Our low seeds at the published length, with what their front networks paint."""
    head = (
        "row",
        "seed",
        "R2, known",
        "R2, all",
        "background",
        "largest rise, %",
        "apart from epoch",
    )
    rows = [head]
    for seed in filter(operator.itemgetter("is_low"), _seeds_at_paper(record)):
        rise = "not recorded" if seed["rise"] is None else f"{100 * seed['rise']:,.0f}"
        apart_from = "not recorded" if seed["apart_from"] is None else f"{seed['apart_from']}"
        scores = (f"{seed[name]:.3f}" for name in ("r2_id", "r2_all"))
        level = f"{seed['background']:.2f}"
        rows.append((f"`{seed['row']}`", f"{seed['seed']}", *scores, level, rise, apart_from))
    return rows


def backgrounds_at_paper(record: list[dict], studies: dict) -> str:
    """The front networks' backgrounds of low seeds and of others, in the rows with low seeds."""
    seeds = _seeds_at_paper(record)
    rows = {seed["row"] for seed in seeds if seed["is_low"]}
    low = [seed["background"] for seed in seeds if seed["is_low"]]
    others = [seed["background"] for seed in seeds if not seed["is_low"] and seed["row"] in rows]
    return (
        f"At `paper` it is {min(low):.2f} to {max(low):.2f} in the {len(low)} low seeds and "
        f"{max(others):.1f} or less in the other {len(others)} seeds of these rows"
    )


def backgrounds_at_fast(record: list[dict], studies: dict) -> str:
    """How many low seeds and others of the orthogonal support at `fast` have a bright background.

    The runs repeat seeds with other b2 and precisions. Some did not measure the ghost.
    """
    low, others = [], []
    for run in _variants(studies, ("float32", "bfloat16")):
        levels = run.get("front_background", ())
        ghosts = run.get("front_ghost", [None] * len(levels))
        for seed, r2, level, ghost in zip(run["seeds"], run["r2_all"], levels, ghosts):
            (low if r2 < LOW else others).append((seed, level > LARGEST_LEAK, ghost))
    n_bright, n_bright_others = (sum(bright for _, bright, _ in each) for each in (low, others))
    ghosts = [ghost > 0 for _, bright, ghost in low if not bright and ghost is not None]
    return (
        f"{n_bright} of {len(low)} low trainings of `orthogonal_compositional` "
        f"({sum(seed == 1 for seed, *_ in low)} are of seed 1) and {n_bright_others} of the other "
        f"{len(others)}. Of the low ones without it {sum(ghosts)} of {len(ghosts)} paint a "
        "*ghost* (where it was measured)"
    )


def _seeds_at_paper(record: list[dict]) -> list[dict]:
    """Each of our seeds in the rows of `_low_counts`.

    background: median colour sum that the front network paints outside its sprite. rise: the
    largest rise of an epoch's mean loss above the least before. apart_from: the epoch from which
    the loss stays more than APART above the least of the row's seeds. Both are None where the
    losses of a seed are not recorded.
    """
    seeds = []
    for row, least in _least_at_paper(record).items():
        run = _at_paper(record, row)
        (model,) = run["models"].values()
        curves, scores = model["curve"], run["metrics"]  # means of `curve_epochs` epochs
        least_loss = np.min([curve for curve in curves if curve], axis=0)
        for k, seed in enumerate(scores["r2_all"]["seeds"]):
            near = [] if curves[k] is None else curves[k] <= (1 + APART) * least_loss
            last = np.max(np.flatnonzero(near), initial=-1)
            seeds.append(
                {
                    "row": row,
                    "seed": seed,
                    "r2_id": scores["r2_id"]["values"][k],
                    "r2_all": scores["r2_all"]["values"][k],
                    "is_low": scores["r2_all"]["values"][k] < least,
                    "background": model["front_background"][k],
                    "rise": model["largest_rise"][k],
                    "apart_from": None if curves[k] is None else model["curve_epochs"] * (last + 1),
                }
            )
    return seeds


def low_like_the_papers(record: list[dict], studies: dict) -> str:
    """The paper's low seed of `diagonal` beside our seeds with a bright background, and others."""
    row = PUBLISHED["sprites"]["diagonal"]
    theirs = sorted(zip(row["r2_all"]["values"], row["r2_id"]["values"]))
    seeds = [seed for seed in _seeds_at_paper(record) if seed["row"] == "diagonal"]
    bright = [seed for seed in seeds if seed["background"] > LARGEST_LEAK]
    rest = theirs[1:] + [(seed["r2_all"], seed["r2_id"]) for seed in seeds if seed not in bright]
    low_all, low_id = theirs[0]
    ours = " and ".join(f"{seed['r2_id']:.3f} and {seed['r2_all']:.3f}" for seed in bright)
    return (
        f"The paper's low seed of `diagonal` has R2 {low_id:.3f} on known and {low_all:.3f} on all "
        f"combinations; our {len(bright)} seeds with a bright background have {ours}. The other "
        f"{len(rest)} seeds, ours and the paper's, have {min(r2_id for _, r2_id in rest):.3f} and "
        f"{min(r2_all for r2_all, _ in rest):.3f} or more"
    )


def _at_paper(record: list[dict], row: str) -> dict:
    """The run of a row at the published length."""
    wanted = {"row": row, "size": "paper", "label": ""}
    return next(entry for entry in record if wanted.items() <= entry.items())


def broad_elsewhere(record: list[dict], studies: dict) -> str:
    """How much the loss of seed 0 of the broad diagonal rises in three other programs."""
    study = studies["optimiser"]["diagonal_broad"]
    many = study["many"]["kernels"]
    rises = (
        many["largest_rise"][many["seeds"].index(0)],
        *(study[name]["largest_rise"][0] for name in ("pytorch", "reordered")),
    )
    return (
        "{:.0f} % with the same kernels in a program of {} seeds, {:.0f} % in PyTorch and {:.0f} % "
        "in XLA's plain form"
    ).format(100 * rises[0], len(many["seeds"]), *(100 * rise for rise in rises[1:]))


def broad_many(record: list[dict], studies: dict) -> str:
    """How many of many seeds of the broad diagonal are lost, by the kernels and by XLA."""
    study = studies["optimiser"]["diagonal_broad"]["many"]
    kernels, plain = study["kernels"], study["reordered"]
    n_lost, n = len(_lost(kernels)), len(kernels["seeds"])
    needed = _seeds_without_a_lost_one(n_lost, n)
    hours = needed * plain["seconds"] / len(plain["seeds"]) / 3600
    return (
        f"the kernels lose {n_lost} of {n} seeds and XLA's plain form "
        f"{len(_lost(plain))} of {len(plain['seeds'])}. To show that XLA loses fewer takes "
        f"{needed} seeds of XLA without a lost one ({hours:.1f} hours of an H200)"
    )


def _seeds_without_a_lost_one(n_lost: int, n: int) -> int:
    """The least number of seeds, none lost, with which n_lost of n are more (Fisher, p < 0.05)."""

    def is_shown(m):
        return scipy.stats.fisher_exact([[n_lost, n - n_lost], [0, m]]).pvalue < 0.05

    return next(m for m in itertools.count(1) if is_shown(m))


def _lost(entry: dict) -> list[int]:
    """Seeds whose loss at the end is more than twice the least before."""
    pairs = zip(entry["seeds"], entry["epoch_loss"])
    return [seed for seed, loss in pairs if loss[-1] > 2 * min(loss)]


def _least_at_paper(record: list[dict]) -> dict[str, float]:
    """{row: R2 below which a seed is low} of the rows with five seeds of both at `paper`."""
    least = {}
    for row in PUBLISHED["sprites"]:
        theirs = PUBLISHED["sprites"][row]["r2_all"].get("values", ())
        run = by_row(record, "paper").get(row)
        ours = run["r2_all"]["values"] if run else ()
        if len(ours) == len(theirs) == 5:
            least[row] = max(*ours, *theirs) - FAR_BELOW
    return least


def _low_counts(record: list[dict]) -> dict[str, tuple[int, int]]:
    """{row: (our low seeds, the paper's)} of the rows with five seeds of both at `paper`."""
    counts = {}
    for row, least in _least_at_paper(record).items():
        theirs = PUBLISHED["sprites"][row]["r2_all"]["values"]
        ours = by_row(record, "paper")[row]["r2_all"]["values"]
        counts[row] = sum(r2 < least for r2 in ours), sum(r2 < least for r2 in theirs)
    return counts


def rate_at_paper(record: list[dict], studies: dict) -> str:
    """How many seeds end low at the published length, ours and the paper's, in finished rows."""
    counts = _low_counts(record)
    rows, n = len(counts), 5 * len(counts)
    n_low, n_theirs = map(sum, zip(*counts.values()))
    low, high = stats.share_interval(n_low, n)
    theirs = {row: n_of_theirs for row, (_, n_of_theirs) in counts.items() if n_of_theirs}
    rest = [counts[row] for row in counts if row not in theirs]
    n_low_rest = sum(ours for ours, _ in rest)
    p, p_rest = _fisher(n_low, n_theirs, n), _fisher(n_low_rest, 0, 5 * len(rest))
    places = " and ".join(f"{number} in `{row}`" for row, number in theirs.items())
    return (
        f"{n_low} of our {n} seeds are low (95 % interval {low:.2f} to {high:.2f}) and {n_theirs} "
        f"of the paper's {n} ({places}), in the {rows} rows that have five seeds of both (Fisher's "
        f"exact test: p = {p:.2f}). In the other {len(rest)} rows {n_low_rest} of our "
        f"{5 * len(rest)} seeds are low and none of the paper's (p = {p_rest:.2f}; limit and rows "
        "were chosen after the runs)"
    )


def known_of_others(record: list[dict], studies: dict) -> str:
    """How many seeds with a dark background fit known combinations worse than the paper's mean."""
    dark = [seed for seed in _seeds_at_paper(record) if seed["background"] < LARGEST_LEAK]
    means = {row: numbers["r2_id"]["mean"] for row, numbers in PUBLISHED["sprites"].items()}
    n_below = sum(seed["r2_id"] < means[seed["row"]] for seed in dark)
    return f"{n_below} of the {len(dark)} seeds with a dark background"


def rows_left(record: list[dict], studies: dict) -> str:
    """How many rows of the paper's table have fewer than five of our seeds at `paper`."""
    runs = by_row(record, "paper")
    numbers = [len(runs[row]["r2_all"]["values"]) for row in PUBLISHED["sprites"] if row in runs]
    n_left = len(PUBLISHED["sprites"]) - sum(number >= 5 for number in numbers)
    return f"{n_left} of the {len(PUBLISHED['sprites'])} rows have fewer than five seeds there"


def _fisher(n_ours: int, n_theirs: int, n: int) -> float:
    """p of Fisher's exact test for two shares of n."""
    return scipy.stats.fisher_exact([[n_ours, n - n_ours], [n_theirs, n - n_theirs]]).pvalue


def narrow(record: list[dict], studies: dict) -> str:
    """Seeds of the narrow diagonal at the published length, ours and the paper's."""
    ours = [seed for seed in _seeds_at_paper(record) if seed["row"] == "diagonal_narrow"]
    theirs = PUBLISHED["sprites"]["diagonal_narrow"]["r2_all"]["values"]
    least = _least_at_paper(record)["diagonal_narrow"]
    low, high = ([r2 for r2 in theirs if (r2 < least) == is_low] for is_low in (True, False))
    scores, levels = ([seed[name] for seed in ours] for name in ("r2_all", "background"))
    return (
        f"all our {len(ours)} seeds have such a background ({min(levels):.2f} to "
        f"{max(levels):.2f}) and R2 {min(scores):.3f} to {max(scores):.3f}. {len(high)} of the "
        f"paper's {len(theirs)} seeds have {min(high):.3f} to {max(high):.3f}, the others "
        f"{min(low):.2f} to {max(low):.2f}"
    )


def seed_1_earlier(record: list[dict], studies: dict) -> str:
    """R2 of the other float32 run of seed 1 at the published length."""
    runs = studies["optimiser"]["variants"]
    wanted = {"row": "orthogonal_compositional", "size": "paper", "dtype": "float32", "seeds": [1]}
    return ", ".join(f"{run['r2_all'][0]:.3f}" for run in runs if wanted.items() <= run.items())


def interventions_summary(record: list[dict], studies: dict) -> str:
    """What AdamW does at another distance from its limit of stability, by the relative limit."""
    study = studies["optimiser"]["interventions"]
    n, n_jumping = len(study["starts"]), sum(start["jumps"] for start in study["starts"])
    settings = {
        "as before": "",
        "no jump": "where the limit is twice as high, in ",
        "jump": "where it is half as high, in ",
    }
    by_setting = {setting: {} for setting in settings.values()}
    for name, rises in study["largest_rise"].items():
        change = INTERVENTIONS[name]
        if change.if_limit == change.if_noise:
            by_setting[settings[change.if_limit]][name] = rises
    outcomes = [
        setting
        + " and ".join(counted_jumps(rises, name) for name, rises in changes.items())
        + range_of_jumps(changes.values())
        for setting, changes in by_setting.items()
    ]
    return (
        f"{n} seeds train {LEAD + 1} epochs with another rate or momentum b1. {n_jumping} of them "
        f"start {LEAD} epoch before their first jump. The others have no jump after epoch "
        f"{LEAD + 1} and start at epoch {study['epochs'] // 2}. The loss then jumps in "
        f"{'; '.join(outcomes)}"
    )


def interventions_noise(record: list[dict], studies: dict) -> str:
    """Jumps with other sizes of the batch, which change the noise and leave the limit."""
    study = studies["optimiser"]["interventions"]["largest_rise"]
    return " and ".join(
        f"{counted_jumps(study[name], name)}{range_of_jumps([study[name]])}"
        for name in ("4 x the batch", "1/4 of the batch")
    )


def counted_jumps(rises: list[float], name: str) -> str:
    """How many seeds jump with an intervention."""
    n_jumps = np.sum(np.array(rises) > jumps.JUMP)
    how = "with the published settings" if name == "none" else f"with {name}"
    return f"{n_jumps} of {len(rises)} {how}"


def range_of_jumps(by_change) -> str:
    """The least and the largest rise of the losses that jump; "" if none does."""
    rises = 100 * np.concatenate([np.array(rises) for rises in by_change])
    rises = rises[rises > 100 * jumps.JUMP]
    if not rises.size:
        return ""
    least, most = f"{rises.min():,.0f}", f"{rises.max():,.0f}"
    return f" (by {least if least == most else f'{least} to {most}'} %)"


def gradients(name: str):
    """A field: the largest of a difference between gradients, over the arrays of parameters."""
    return lambda record, studies: format(
        max(leaf[name] for leaf in studies["optimiser"]["gradients"]["leaves"].values()), ".2f"
    )


@plots.styled
def draw_low_seeds(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Losses of the seeds of two rows at the published length, by the background at the end."""
    fig = plots.new_figure(plots.PAGE, 3.6, layout="constrained")
    axes = fig.subplots(1, 2, sharey=True)
    titles = {
        "diagonal": "diagonal: {} of {} seeds leave the upper curve",
        "orthogonal_normal": "orthogonal_normal: it begins with a jump",
    }
    for ax, (row, title) in zip(axes, titles.items()):
        run = _at_paper(record, row)
        (model,) = run["models"].values()
        scores = run["metrics"]["r2_all"]
        are_bright = [level > LARGEST_LEAK for level in model["front_background"]]
        for k, curve in enumerate(model["curve"]):
            if curve is None:
                continue
            epochs = model["curve_epochs"] * np.arange(1, len(curve) + 1)
            losses, colour = 1e3 * np.array(curve), plots.COLOURS[1 if are_bright[k] else 0]
            ax.plot(epochs, losses, color=colour, linewidth=1.6 if are_bright[k] else 1.0)
            if are_bright[k]:
                words = f"bright background, R2 {scores['values'][k]:.3f}"
                ax.text(2000, 1.35 * losses[-1], words, color=colour, fontsize=8, ha="right")
        are_drawn = [curve is not None for curve in model["curve"]]
        n_dark = sum(drawn and not bright for drawn, bright in zip(are_drawn, are_bright))
        others = [r2 for r2, is_bright in zip(scores["values"], are_bright) if not is_bright]
        words = f"dark background, R2 {min(others):.3f} to {max(others):.3f}"
        ax.text(2000, 0.52, words, color=plots.COLOURS[0], fontsize=8, ha="right")
        ax.set(yscale="log", xlabel="epoch", ylim=(0.48, None))
        ax.set_title(title.format(n_dark, sum(are_drawn)), fontsize=9)
        ax.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
        ax.set_yticks([], minor=True)
    axes[0].set_ylabel("mean training loss, 1e-3")
    plots.headline(fig, "Low seeds end on a higher curve of the loss")
    return plots.save(fig, path)


def _without_latents(record: list[dict]) -> dict:
    """{arm/metric: [seeds, S]} of the recorded autoencoders with slots, and their supports."""
    run = next(e for e in record if (e["row"], e["size"]) == ("unsupervised_conv", "fast"))
    supports, metrics = run["config"]["data"]["supports"], run["metrics"]
    arrays = {
        f"{arm}/slots_{part}": np.transpose(
            [metrics[f"{support}: slots_{part}, {arm}"]["values"] for support in supports]
        )
        for arm in (*unsupervised.ARMS, *unsupervised.CONTROLS)
        for part in ("id", "all")
    }
    opened = [metrics[f"{support}: unknown"]["ours"] for support in supports]
    return arrays | {"supports": np.array(supports), "unknown": np.array(opened)}


def largest_gain(record: list[dict], studies: dict) -> str:
    """The most that consistency adds to slot R2 on all combinations, and of how many trainings."""
    arrays = _without_latents(record)
    gains = arrays["consistency/slots_all"] - arrays["reconstruction/slots_all"]
    return f"{gains.max():+.2f} in the best of {gains.size} trainings"


def draw_slots(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Slot R2 by support, of the recorded autoencoders."""
    return unsupervised.draw_scores(_without_latents(record), path)


def wide_kernels(record: list[dict], studies: dict) -> str:
    """Milliseconds of the monolithic decoder's kernels before and after the search of launches."""
    kernels = studies["speed"]["launches"]["one decoder of 64 channels, 512 images"].values()
    before, after = (sum(kernel[key] for kernel in kernels) for key in ("before", "fastest"))
    return f"{after:.2f} ms instead of {before:.2f} ms"


TABLES = {
    "wide_kernels": wide_kernels,
    "largest_gain": largest_gain,
    "paper": paper_table,
    "jumps": jumps_table,
    "low_seeds": low_seeds,
    "shorter_memory": shorter_memory,
    "low_at_paper": low_at_paper,
    "backgrounds_at_paper": backgrounds_at_paper,
    "backgrounds_at_fast": backgrounds_at_fast,
    "low_like_the_papers": low_like_the_papers,
    "known_of_others": known_of_others,
    "rows_left": rows_left,
    "broad_elsewhere": broad_elsewhere,
    "broad_many": broad_many,
    "rate_at_paper": rate_at_paper,
    "narrow": narrow,
    "seed_1_earlier": seed_1_earlier,
    "interventions": interventions_summary,
    "interventions noise": interventions_noise,
    "gradients median": gradients("median"),
    "gradients largest": gradients("largest"),
}
PICTURES = {"low_seeds.png": draw_low_seeds, "slots.png": draw_slots}
