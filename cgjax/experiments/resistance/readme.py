"""Tables, sentences and pictures of the README, from the record; record: the recorded runs."""

import pathlib

import numpy as np
import scipy.stats

from cgjax import plots
from cgjax.analysis import stats
from cgjax.experiments.resistance import figures, run
from cgjax.published.results import by_row

# (row, size, label) of the recorded runs whose claims are listed.
JUDGED = (
    *((row, "paper", "") for row in ("mnist", "scan")),
    ("plane", "default", ""),
    ("one_step", "paper", "plane"),
    ("heads", "default", ""),
    ("remedies", "paper", "plane_towers"),
    ("landscape", "default", ""),
)
MEASURES = ("test accuracy", "S_2", "interventional information")
STARTS = ("scale 2, biases 0", "scale 3, biases 0", "scale 2, biases 1", "scale 3, biases 1")
WALK = "walk of 100,000 steps"
WAYS = ("sgd", "guess", WALK)
SHORT_WALK = "walk of 40,000 steps"
SEARCHES = {"guess": "guesses", WALK: "walks", SHORT_WALK: "walks"}
LOSSES = (0.2, 0.1, 0.05, 0.02)


def values(metric: dict) -> np.ndarray:
    """A value per seed or training set; NaN where there is none."""
    return np.array([np.nan if value is None else value for value in metric["values"]], float)


def interval(metric: dict, form: str = "+.3f") -> str:
    """Mean and half of its 95 % interval; a dash if fewer than half of the values are known."""
    known = values(metric)
    known = known[np.isfinite(known)]
    if len(known) < max(2, len(metric["values"]) / 2):
        return "-"
    mean, half = stats.mean_and_interval(known)
    return f"{mean:{form}} ± {half:{form.lstrip('+')}}"


def claims_table(record: list[dict], studies: dict) -> list:
    """The paper's claims on the runs of JUDGED, without those of the gradient-free control."""
    claim = "claim (where the paper makes it)"
    rows = [("row", "seeds", claim, "ours", "against", "p, Holm", "verdict")]
    runs = {(entry["row"], entry["size"], entry["label"]): entry for entry in record}
    for place in JUDGED:
        for claim in run.judged(runs[place]) if place in runs else ():
            numbers = [f"{claim[side]:.3g}" for side in ("ours", "against")]
            numbers.append("-" if claim["p_holm"] is None else f"{claim['p_holm']:.1g}")
            words = f"{claim['claim']} ({claim['where']})"
            rows.append((f"`{place[0]}`", str(claim["n"]), words, *numbers, claim["verdict"]))
    return rows


def starts_table(record: list[dict], studies: dict) -> list:
    """Solutions from every start at two losses: test accuracy, and norms of the weights."""
    metrics = by_row(record, "paper")["control"]
    columns = ("loss 0.1: SGD", "guesses", "walks", "loss 0.02: SGD", "walks", "norms at loss 0.1")
    rows = [("start", *columns)]
    for start in ("scale 1, biases 0", *STARTS):
        name = f"{{}}, {start}: {{}} at loss {{}}"
        ways = [(way, "0.1") for way in WAYS] + [("sgd", "0.02"), (WALK, "0.02")]
        cells = [interval(metrics[name.format(way, MEASURES[0], x)], ".3f") for way, x in ways]
        norms = [interval(metrics[name.format(way, "norm", "0.1")], ".1f") for way in WAYS]
        rows.append((start, *cells, ", ".join(norm.split(" ")[0] for norm in norms)))
    return rows


def norms(record: list[dict], studies: dict) -> str:
    """The largest difference of mean norms at loss 0.1 between ways from one start."""
    metrics, gaps = by_row(record, "paper")["control"], []
    for start in ("scale 1, biases 0", *STARTS):
        each = [metrics[f"{way}, {start}: norm at loss 0.1"]["ours"] for way in WAYS]
        gaps.append(np.ptp([norm for norm in each if norm is not None]))
    return f"{max(gaps):.1f}"


def occurrences(share: float):
    """A field: how often a pair of labels of the test occurs in training where X_2 tells so often.

    Of the 100 pairs 80 are in the test; where X_2 does not tell, all pairs are as likely.
    """

    def shown(record, studies):
        config = next(e for e in record if (e["row"], e["size"]) == ("dose", "paper"))["config"]
        n_samples = config["data"]["batch"] * config["train"]["steps"]
        n = (1 - share) * n_samples / 100
        return f"{n:.0f}" if n > 10 else f"{n:.1f}"

    return shown


def cost(part: str, setting: str, size: str, label: str = ""):
    """A field: how much larger the gap of a setting of `overlaid` is than that of B."""

    def shown(record, studies):
        metrics = by_row(record, size, label)["overlaid"]
        without, within = (values(metrics[f"{part}/{name}: gap"]) for name in ("B", setting))
        return interval({"values": within - without}, ".3f")

    return shown


def pooled(metrics: dict, starts, other: str, loss: str, measure: str, first="sgd") -> str:
    """One way less another by training set, the mean over starts: mean and 95 % interval."""
    rows = np.array(
        [
            values(metrics[f"{first}, {start}: {measure} at loss {loss}"])
            - values(metrics[f"{other}, {start}: {measure} at loss {loss}"])
            for start in starts
        ]
    )
    rows = rows[:, np.isfinite(rows).any(axis=0)]
    form = "+.4f" if measure == MEASURES[2] else "+.3f"
    return interval({"values": np.nanmean(rows, axis=0).tolist()}, form)


def pooled_table(record: list[dict], studies: dict) -> list:
    """Differences of SGD from guesses and walks, without and with biases, and by width."""
    rows = [("starts", "SGD less", "loss", *MEASURES)]
    control = by_row(record, "paper")["control"]
    cases = [
        (control, f"scales 2 and 3, biases {biases}", STARTS[k : k + 2], other, loss)
        for k, biases in ((0, 0), (2, 1))
        for other, losses in (("guess", ("0.1", "0.05")), (WALK, ("0.1", "0.02")))
        for loss in losses
    ]
    widths = [f"width {width}" for width in (4, 8, 16, 32)]
    cases += [
        (
            by_row(record, "paper")["capacity"],
            f"widths 4 to 32, scale 2, biases {biases}",
            [f"scale 2, biases {biases}, {width}" for width in widths],
            other,
            loss,
        )
        for biases in (0, 1)
        for other, loss in (("guess", "0.1"), (SHORT_WALK, "0.02"), (SHORT_WALK, "0.005"))
        if "capacity" in by_row(record, "paper")
    ]
    for metrics, label, starts, other, loss in cases:
        cells = [pooled(metrics, starts, other, loss, measure) for measure in MEASURES]
        rows.append((label, SEARCHES[other], loss, *cells))
    return rows


def schedules(loss: str):
    """A field: walks of every length against guesses at a loss, test accuracy."""

    def shown(record, studies):
        metrics = by_row(record, "paper")["control"]
        names = (f"walk of {n} steps less guess" for n in ("1,000", "10,000", "100,000"))
        texts = [interval(metrics[f"{name}: test accuracy at loss {loss}"]) for name in names]
        return f"{', '.join(texts[:-1])} and {texts[-1]}"

    return shown


def less(starts, other: str, loss: str, first: str = "sgd"):
    """A field: the difference of test accuracies, pooled over starts of `control`."""
    return lambda record, studies: pooled(
        by_row(record, "paper")["control"], starts, other, loss, MEASURES[0], first
    )


def towers(record: list[dict], studies: dict) -> str:
    """Towers against the plain network in A, and against their control."""
    few = by_row(record, "default")["remedies"]
    many = by_row(record, "paper", "plane_towers")["remedies"]
    plain, beside, factored, control = (
        values(metrics[f"plane_{name}, penalty 0: test accuracy"])
        for metrics, name in (
            (few, "plain/A"),
            (few, "towers/A"),
            (many, "towers/A"),
            (many, "towers/control"),
        )
    )
    return (
        f"over {len(control)} seeds their mean is {factored.mean():.3f} against "
        f"{control.mean():.3f} in the control (medians {np.median(factored):.3f} and "
        f"{np.median(control):.3f}), and {np.sum(factored < control)} seeds are below their "
        f"control. No difference from the plain network is shown over {len(plain)} seeds (means "
        f"{beside.mean():.3f} and {plain.mean():.3f}, paired p "
        f"{scipy.stats.ttest_rel(beside, plain).pvalue:.1g})"
    )


def change(name: str, part: str = "plane"):
    """A field: the mean change by one small step on A, with its interval."""
    return lambda record, studies: interval(
        by_row(record, "paper", part)["one_step"][f"{part}/A: {name}"], "+.4f"
    )


def steps(when: str, part: str):
    """A field: the first and last step whose changes count as early, or as late."""

    def field(record, studies):
        (entry,) = (e for e in record if (e["row"], e["label"]) == ("one_step", part))
        settings = entry["config"]["parts"][part]
        every, last = settings["eval"]["epochs"], settings["train"]["epochs"]
        measured = {*settings["eval"]["at"], *range(every, last + 1, every), last}
        early = settings["eval"]["early"]
        chosen = [step for step in measured if (step <= early) == (when == "early")]
        return f"{min(chosen)} to {max(chosen)}"

    return field


def early_evaluations(record: list[dict], studies: dict) -> str:
    """How many of SCAN's evaluations count as early, and how many of them are in the first 50."""
    config = next(e for e in record if (e["row"], e["size"]) == ("scan", "paper"))["config"]
    early, every = config["eval"]["early"], config["eval"]["every"]
    measured = {*config["eval"]["at"], *range(every, early + 1, every)}
    chosen = [step for step in measured if 0 < step <= early]
    n_first = sum(step <= 50 for step in chosen)
    return (
        f"{len(chosen)} evaluations in the first {early} steps, {n_first} of them in the first 50"
    )


@plots.styled
def draw_gaps(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Every seed of the paper's three experiments, with X_2 telling and without."""
    panels = {
        "digits: train less test": ("mnist", "paper", "gap", ("A", "B")),
        "SCAN: test accuracy": (
            "scan", "paper", "test accuracy, whole set", ("A", "B", "B, jump replaced"),
        ),
        "plane: test accuracy": ("plane", "default", "test accuracy", ("A", "control")),
    }  # fmt: skip
    fig = plots.new_figure(plots.PAGE, 2.3, layout="constrained")
    for ax, (label, (row, size, score, settings)) in zip(fig.subplots(1, 3), panels.items()):
        metrics = by_row(record, size)[row]
        figures.dots(ax, {s: values(metrics[f"{s}: {score}"]) for s in settings}, label)
        ax.set_xlim(-0.05, 0.35 if score == "gap" else 1.05)
        ax.set_xticks((0, 0.1, 0.2, 0.3) if score == "gap" else (0, 0.5, 1))
    plots.headline(fig, "New combinations: A does worse than B and the control (bars: means)")
    return plots.save(fig, path)


@plots.styled
def draw_control(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """SGD, guesses and walks in bands of loss: three measures, with and without biases."""
    metrics = by_row(record, "paper")["control"]
    ways = ("sgd", "sgd_fixed_biases", "guess", WALK)
    fig = plots.new_figure(plots.PAGE, 6.6, layout="constrained")
    axes = fig.subplots(3, 2, sharex=True, sharey="row")
    for line, start in zip(axes.T, ("scale 2, biases 0", "scale 2, biases 1")):
        for ax, measure in zip(line, MEASURES):
            names = {way: f"{way}, {start}: {measure} at loss " for way in ways}
            curves = {
                way: [values(metrics[f"{name}{loss:g}"]) for loss in LOSSES]
                for way, name in names.items()
                if f"{name}0.1" in metrics
            }
            figures.loss_curves(ax, np.array(LOSSES), curves)
            ax.grid(axis="y", **plots.GRID)
        line[0].set_title(start)
    for line, measure in zip(axes, MEASURES):
        line[0].set_ylabel(measure.replace(" ", "\n"))
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    words = "whether SGD or a search without a gradient finds them (means, 95 % intervals)"
    plots.headline(fig, f"Networks of equal training loss fail on the test, {words}")
    plots.legend_below(fig, axes[0, 0])
    return plots.save(fig, path)


@plots.styled
def draw_dose(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Test accuracy of digits by the share of samples in which X_2 tells; every seed."""
    metrics = by_row(record, "paper")["dose"]
    shares = (0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1)
    fig = plots.new_figure(plots.PAGE, 3.1, layout="constrained")
    for ax, score in zip(fig.subplots(1, 2), ("test accuracy", "S_2")):
        for k, share in enumerate(shares):
            name = {0: "B", 1: "A"}.get(share, f"rho {share:g}")
            seeds = values(metrics[f"{name}: {score}"])
            colour = plots.COLOURS[1 if share == 1 else 0]
            plots.seeds(ax, k, seeds, colour, size=3)
            ax.plot([k - 0.3, k + 0.3], [seeds.mean()] * 2, color=plots.INK, linewidth=1.4)
        ax.set_xticks(range(len(shares)), [f"{share:g}" for share in shares])
        ax.set(xlabel="share of samples in which X_2 tells", ylabel=score)
    words = "the lower is the test accuracy, and the higher S_2 (orange: A)"
    plots.headline(fig, f"Digits: the more often X_2 tells, {words}")
    return plots.save(fig, path)


TABLES = {
    "claims": claims_table,
    "starts": starts_table,
    "pooled": pooled_table,
    "towers": towers,
    "telling overlaid": cost("overlaid", "rho 0.9", "paper", "overlaid"),
    "telling beside": cost("beside", "rho 0.9", "fast"),
    "telling, default size": cost("overlaid", "rho 0.9", "default"),
    "rare, default size": cost("overlaid", "B, X_2 absent 0.9", "default"),
    **{f"schedules {loss}": schedules(loss) for loss in ("0.1", "0.05")},
    "early evaluations": early_evaluations,
    "norms": norms,
    **{f"occurrences {share}": occurrences(share) for share in (0, 0.9, 0.99)},
    "less guesses": less(STARTS, "guess", "0.1"),
    "less walks": less(STARTS, WALK, "0.02"),
    "less walks, scale 1, 0.02": less(["scale 1, biases 0"], WALK, "0.02"),
    "fixed less guesses, 0.1": less(STARTS[:2], "guess", "0.1", "sgd_fixed_biases"),
    "fixed less walks, 0.02": less(STARTS[:2], WALK, "0.02", "sgd_fixed_biases"),
    **{
        f"{when} {score}": change(f"{when} one step on {law}: {name}")
        for when in ("early", "late")
        for score, law, name in (
            ("D", "A", "D_1 + D_2"),
            ("D_2", "A", "D_2"),
            ("D_2 re-drawn", "re-drawn", "D_2"),
            ("loss", "A", "loss"),
            ("I", "A", "I of the target"),
        )
    },
    **{
        f"steps {when} {part}": steps(when, part)
        for when in ("early", "late")
        for part in ("plane", "digits")
    },
    **{
        f"{when} D_2 of digits": change(f"{when} one step on A: D_2", "digits")
        for when in ("early", "late")
    },
}
PICTURES = {
    "resistance_gaps.png": draw_gaps,
    "resistance_control.png": draw_control,
    "resistance_dose.png": draw_dose,
}
