"""The plan: the runs that would decide the open claims, most claims per minute first.

An open claim needs a run of its rows at the published scale. Of rows with parts, tasks or distances
it needs those that the claim names. A recorded run is extended by seeds if a command gives its
config, unless all seeds of the one part that a claim needs take less time. Else the plan has a new
run, which replaces it. The number of seeds is the verdict's (`published.verdict`), or the published
one if no verdict states a number.

Times are recorded ones, in proportion to seeds, tasks, image sizes and lengths. They are upper
bounds: several seeds of one program share its time, and many recorded runs shared their device.
"""

import collections
import json
import math
import re
from typing import NamedTuple

from cgjax import config as configs
from cgjax import report
from cgjax.config.declare import leaves
from cgjax.published import PUBLISHED
from cgjax.published.claims import CLAIMS, overrides_of
from cgjax.report import standing as standings

DECIDED = ("match", "no match")
# Notes of recorded runs whose time is that of a part of the run.
PART_OF_THE_TIME = re.compile(r"last part|last command|resumed|time limits|gone on with")
# A run's time is in proportion to its seeds, these keys and the longest of its stages.
PROPORTIONAL = (
    "data.tasks", "data.distances", "data.n_total", "data.n_train", "data.image_size",
)  # fmt: skip
# Of keys that list what a row runs, those of which a run may have a choice. CELLS are runs of their
# own; the others are values that a search tries, and seeds of what is searched.
CELLS = ("data.tasks", "data.distances")
CHOSEN = (*CELLS, "masks.seeds", *configs.SEARCHED)
EVERY = ("eval.every", "eval.epochs")  # the time between scores
# Of a composed image of three digits, each shifted by the distance; of two, it is an upper bound.
DIGIT_COLUMNS = 28
STAGES = (
    ("train.steps", "train.epochs"),
    ("masks.epochs", "masks.layers", "masks.lrs", "masks.s0s", "masks.seeds"),
    ("search.walk_steps",),
)


class Target(NamedTuple):
    """What one command runs, without its seeds; an entry of the record."""

    family: str
    row: str
    size: str
    label: str
    overrides: tuple = ()  # ((key, value), ...)
    parts: tuple = ()  # empty: all parts

    @property
    def flag(self) -> str:
        return f"{self.family}:{self.row}" + ("" if self.size == "default" else f",{self.size}")

    @property
    def name(self) -> str:
        """Of its file in the record."""
        return "-".join(filter(None, (self.row, self.size, self.label)))

    def config(self):
        config = configs.load(self.flag, dict(self.overrides))
        return configs.some_parts(config, ",".join(self.parts)) if self.parts else config


class Run(NamedTuple):
    """A command, the claims that it would decide and its time."""

    target: Target
    seeds: tuple[int, ...]  # empty if the row has none
    claims: tuple[str, ...]
    share: float  # claims; one that needs k runs counts 1 / k
    seconds: float | None  # None: no run of the row is recorded on this device
    source: str  # of the time
    replaces: bool  # whether the record has other numbers under this name
    after: int = 0  # how many runs of the target come before, with fewer seeds

    @property
    def folder(self) -> str:
        """Below `reproduce.FOLDER`; the same seeds resume in the same folder."""
        seeds = f"-seeds_{ranges(self.seeds)}" if self.seeds else ""
        return f"{self.target.family}/{self.target.name}{seeds}"

    def arguments(self, folder, in_shell: bool = False) -> list[str]:
        """Arguments of `cgjax.main`; in_shell: a long range of seeds is a call of seq."""
        changes = [f"--config.{key}={value}" for key, value in self.target.overrides]
        if self.seeds:
            first, last = self.seeds[0], self.seeds[-1]
            is_long = len(self.seeds) > 20 and last - first + 1 == len(self.seeds)
            seeds = f"$(seq -s, {first} {last})" if in_shell and is_long else self.seeds
            seeds = seeds if isinstance(seeds, str) else ",".join(map(str, seeds))
            changes.append(f"--config.train.seeds={seeds}")
        if self.target.parts:
            changes.append(f"--parts={','.join(self.target.parts)}")
        workdir = f"--workdir={folder}/{self.folder}"
        return [f"--config={self.target.flag}", *changes, workdir, "--no_figures"]


class Plan(NamedTuple):
    runs: list[Run]
    left: dict[str, list[str]]  # reason -> claims that no run of this plan decides


class Need(NamedTuple):
    """A run that a claim needs."""

    target: Target
    trained: tuple[int, ...]  # seeds that the record has under the target's config
    n: int  # seeds in all; 0 if the row has none
    is_pooled: bool = False  # the number is of all seeds together: more seeds repeat the run


class Part(NamedTuple):
    """A run of one part of a row, with the part that it needs."""

    target: Target
    share: float  # of the row's parts


class Side(NamedTuple):
    """A number that a claim compares, as far as it is recorded."""

    place: tuple[str, str]  # row, metric
    recorded: standings.Found | None
    verdicts: list  # of its comparisons


def plan(families=(), record=report.RECORD, device: str = "", claims=None) -> Plan:
    """The plan for the open claims of some families (default: all).

    device: as `parallel.describe_devices` names it; times are those of runs on such a device.
    """
    claims = CLAIMS.values() if claims is None else claims
    claims = [claim for claim in claims if not families or claim.family in families]
    needs, left = {}, collections.defaultdict(list)
    builder = Needs(record)
    for standing in standings.standings(record, claims):
        if standing.word in DECIDED:
            continue
        needed = builder.of(standing)
        if isinstance(needed, str):
            left[needed].append(standing.claim.id)
        else:
            needs[standing.claim.id] = needed
    groups = _merged(_grouped(needs))
    times = Times(record, device)
    runs = [run for target, group in groups.items() for run in _runs(target, group, needs, times)]
    return Plan(sorted(runs, key=_order), dict(left))


def _order(run: Run) -> tuple:
    """Sort key: claims per second; runs of unknown time last, most claims first."""
    if run.seconds is None:
        return 1, -run.share, run.target, run.after
    return 0, -run.share / max(run.seconds, 1.0), run.target, run.after


# --- what a claim needs ---------------------------------------------------------------------------


class Needs:
    """The runs that claims need; configs and entries are read once."""

    def __init__(self, record):
        self.record, self.entries, self.configs = record, {}, {}
        self.scales = standings.Scales()

    def of(self, standing) -> list[Need] | str:
        """The runs that would decide a claim, or why no number of seeds does."""
        if standing.word == "not finite":
            return "a seed that counts has no finite number"
        needs = {}
        sides = list(self._sides(standing))
        for side in sides:
            need = self._need(standing.claim, side, _places_in(side, sides))
            if need is None:
                return "no number of our seeds decides"
            old = needs.get(need.target, need)
            needs[need.target] = need if need.n >= old.n else old
        lacking = [need for need in needs.values() if len(need.trained) < max(need.n, 1)]
        if not lacking:
            return "the seeds that would decide are not known: p is corrected for other comparisons"
        return lacking

    def _sides(self, standing):
        """Each measured number of a claim.

        Decided comparisons do not count, unless Holm's correction alone leaves the claim open.
        """
        claim, by_place = standing.claim, collections.defaultdict(list)
        places = [side for chain in claim.chains for side in chain if isinstance(side, tuple)]
        places = [(claim.row, claim.metric)] if claim.form == "value" else places
        found = {
            place: standings.side_of(place, self._runs(claim.family), self.scales, claim)
            for place in dict.fromkeys(places)
        }
        if claim.form == "value" and standing.verdict:
            by_place[places[0]] = [standing.verdict]
        open_parts = [part for part in standing.parts if part[2].word not in DECIDED]
        for left, right, verdict in open_parts or standing.parts:
            verdict = verdict if open_parts else standing.verdict
            # A run below the published scale says nothing about the seeds that it would take.
            if any(
                found[place] and not found[place].is_published
                for place in {left, right} & found.keys()
            ):
                verdict = verdict._replace(seeds=None)
            for place in (left, right):
                by_place[place].append(verdict)
        for place, recorded in found.items():
            yield Side(place, recorded, by_place[place])

    def _runs(self, family: str) -> list[dict]:
        if family not in self.entries:
            self.entries[family] = report.entries(family, self.record)
        return self.entries[family]

    def _config(self, flag: str):
        if flag not in self.configs:
            self.configs[flag] = configs.load(flag)
        return self.configs[flag]

    def _need(self, claim, side: Side, places: set[str]) -> Need | None:
        """The run that one number of a claim needs; None if no number of seeds decides.

        places: parts of the side's run in which the claim has numbers.
        """
        new = self._new(claim.family, *side.place, claim.size)
        published = len(_seeds(self._config(f"{claim.family}:{side.place[0]},{claim.size}")))
        stated = published and max(published, _stated_seeds(claim.family, *side.place))
        if side.recorded is None or not side.recorded.is_published:
            return Need(new, (), stated)
        run, metric = side.recorded.run, side.recorded.metric
        trained = _seeds(run["config"])
        # A number whose comparisons are decided, or lack the other number, needs no more seeds.
        wanted = [verdict.seeds for verdict in side.verdicts if verdict.word not in DECIDED]
        n = max([0, *(seeds for seeds in wanted if seeds is not None)])
        n *= _seeds_per_value(metric, trained)
        if None in wanted or len(trained) < published:
            enough = stated if None in wanted else published
            n = max(enough, n if math.isfinite(n) else 0)
        elif math.isinf(n):
            return None
        if not n:
            return Need(new, trained, 0)
        n, target = math.ceil(n), self._repeatable(run)
        part = self._part(target or new, places)
        if part and n * part.share < n - (len(trained) if target else 0):
            return Need(part.target, (), n, _is_pooled(metric, trained))
        if target:
            return Need(target, trained, n)
        return Need(new, (), n, _is_pooled(metric, trained))

    def _part(self, target: Target, places: set[str]) -> "Part | None":
        """The one part of a target in which a claim has numbers; of its own label in the record.

        None if there is no such part, or two: seeds are paired in runs of all parts only.
        """
        parts = self._config(target.flag).get("parts", {})
        if target.overrides or target.parts or len(places) != 1 or not places < set(parts):
            return None
        names = _with_source(self._config(target.flag), *places)
        return Part(target._replace(label="_".join(names), parts=names), len(names) / len(parts))

    def _repeatable(self, run: dict) -> Target | None:
        """The target of a recorded run that a command extends by seeds; None if none does.

        The size `fast` is a sample of the published tasks and seeds: a run at `paper` replaces it.
        Published numbers that pool the seeds of a run cannot be joined with those of another run.
        """
        numbers, seeds = PUBLISHED[run["family"]].get(run["row"], {}), _seeds(run["config"])
        pooled = (name for name in numbers if _is_pooled(run["metrics"].get(name), seeds))
        if run["size"] in ("smoke", "fast") or any(pooled):
            return None
        target = Target(run["family"], run["row"], run["size"], run["label"], *_choice(run))
        return None if report.changes(run, {"config": target.config().to_dict()}) else target

    def _new(self, family: str, row: str, metric: str, size: str) -> Target:
        config = self._config(f"{family}:{row},{size}")
        overrides, parts = overrides_of(row, metric), ()
        part = metric.partition("/")[0]
        recorded = [e for e in self._runs(family) if (e["row"], e["size"]) == (row, size)]
        if part in config.get("parts", {}) and not any(not e["label"] for e in recorded):
            parts = _with_source(config, part) if len(config.parts) > 1 else ()
        words = [f"d{v}" if key == "data.distances" else v for key, v in overrides]
        return Target(family, row, size, "_".join((*words, *parts)), overrides, parts)


def _places_in(side: Side, sides: list[Side]) -> set[str]:
    """First words of the metrics that a claim has in the run of one of its sides: its parts."""
    if side.recorded is None:
        return set()
    run = side.recorded.run
    metrics = [
        other.recorded.metric for other in sides if other.recorded and other.recorded.run is run
    ]
    return {
        name.partition("/")[0]
        for name, metric in run["metrics"].items()
        if any(metric is other for other in metrics)
    }


def _choice(run: dict) -> tuple[tuple, tuple]:
    """What a recorded run takes of its row and size: values of CHOSEN, of the row or a part; parts.

    Values that are those of the row are left out, and parts if the run has all of them.
    """
    config = configs.load(Target(run["family"], run["row"], run["size"], "").flag)
    before, after = dict(leaves(configs.from_json(json.dumps(run["config"])))), dict(leaves(config))
    chosen = {key: re.sub(r"^parts\.[^.]+\.", "", key) for key in before}
    order = {name: i for i, name in enumerate(CHOSEN)}  # that of `claims.overrides_of`
    overrides = tuple(
        (key, ",".join(map(str, before[key])))
        for key, name in sorted(chosen.items(), key=lambda item: order.get(item[1], 0))
        if name in CHOSEN and name in after and before[key] != after.get(key)
    )
    names, ours = set(config.get("parts", {})), set(run["config"].get("parts", {}))
    return overrides, tuple(sorted(ours)) if ours < names else ()


def _with_source(config, part: str) -> tuple[str, ...]:
    """A part, and the part whose selected configurations it takes: a run needs both."""
    of_row, of_part = (settings.get("masks", {}) for settings in (config, config.parts[part]))
    source = of_part.get("selected_by", of_row.get("selected_by", ""))
    return tuple(sorted({part, source} - {""}))


def _seeds(config) -> tuple[int, ...]:
    return tuple(config.get("train", {}).get("seeds", ()))


def _stated_seeds(family: str, row: str, metric: str) -> int:
    """Over how many seeds a paper states the deviation of a number; 0 if it does not."""
    number = PUBLISHED[family].get(row, {}).get(metric, {})
    return number.get("n", 0) if number.get("spread") == "seeds" else 0


def _is_pooled(metric: dict | None, trained) -> bool:
    """Whether a metric is one number, or several, of all trained seeds together."""
    if metric is None or len(trained) < 2:
        return False
    return not metric["seeds"] or len(metric["values"]) == 1


def _seeds_per_value(metric: dict, trained) -> float:
    """Seeds behind each value: 1, unless the values are of groups of seeds."""
    values = len(metric["values"])
    return len(trained) / values if _is_pooled(metric, trained) and values > 1 else 1.0


# --- runs -----------------------------------------------------------------------------------------


class Group(NamedTuple):
    """What all claims need of one target."""

    trained: tuple[int, ...]
    is_pooled: bool
    claims: dict[str, int]  # claim -> seeds in all


def _grouped(needs: dict[str, list[Need]]) -> dict[Target, Group]:
    groups = {}
    for claim, needed in needs.items():
        for need in needed:
            group = groups.get(need.target, Group(need.trained, False, {}))
            groups[need.target] = Group(
                group.trained if need.trained else (),  # if one claim needs every seed anew, all do
                group.is_pooled or need.is_pooled,
                group.claims | {claim: need.n},
            )
    return groups


def _merged(groups: dict[Target, Group]) -> dict[Target, Group]:
    """Groups without those whose tasks and distances another run of the row has too."""
    merged = dict(groups)
    for target in sorted(groups, key=lambda target: -len(target.overrides)):
        for other in groups:
            same = target[:3] == other[:3] and target.parts == other.parts
            same &= all(key in CELLS for key, _ in target.overrides)
            if same and set(other.overrides) < set(target.overrides) and other in merged:
                for claim, n in merged.pop(target).claims.items():
                    merged[other].claims[claim] = max(n, merged[other].claims.get(claim, 0))
                break
    return merged


def _runs(target: Target, group: Group, needs: dict, times: "Times"):
    """Runs of one target: first the number of seeds with the most claims per second, then more."""
    trained, waiting, after = list(group.trained), dict(group.claims), 0
    while waiting:
        choices = [
            _run(target, group, trained, n, waiting, needs, times, after)
            for n in sorted(set(waiting.values()))
        ]
        # Of equally good choices the one with more seeds; without a time, claims per seed.
        run = max(
            reversed(choices), key=lambda run: run.share / (run.seconds or len(run.seeds) or 1)
        )
        yield run
        trained, after = sorted({*trained, *run.seeds}), after + 1
        waiting = {claim: n for claim, n in waiting.items() if claim not in run.claims}


def _run(target, group: Group, trained, n: int, waiting: dict, needs, times, after: int) -> Run:
    """The run that makes n seeds of a target."""
    claims = tuple(claim for claim, m in waiting.items() if m <= n)
    seeds = tuple(_new_seeds([] if group.is_pooled else trained, n))
    share = sum(1 / len(needs[claim]) for claim in claims)
    replaces = (group.is_pooled and after > 0) or (not trained and times.has(target))
    return Run(target, seeds, claims, share, *times.of(target, seeds), replaces, after)


def _new_seeds(trained, n: int):
    """The least seeds that make n with the trained ones."""
    seed, missing = 0, n - len(trained)
    while missing > 0:
        if seed not in trained:
            yield seed
            missing -= 1
        seed += 1


def ranges(seeds) -> str:
    """ "0-4", "5,7" """
    if len(seeds) > 2 and seeds == tuple(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ",".join(map(str, seeds)) if len(seeds) < 8 else f"{seeds[0]}-{seeds[-1]}_{len(seeds)}"


# --- times ----------------------------------------------------------------------------------------


class Times:
    """Times of runs, from recorded ones on the same kind of device.

    They are runs of the same row, and of rows that train the same program on other data.
    """

    def __init__(self, record, device: str):
        self.kind, self.entries = standings.device_kind(device), {}
        self.records = dict.fromkeys((record, report.RECORD))

    def _recorded(self, family: str) -> list[tuple]:
        """(entry, its config) of every timed run."""
        if family not in self.entries:
            self.entries[family] = [
                (entry, configs.from_json(json.dumps(entry["config"])))
                for record in self.records
                for entry in report.entries(family, record)
                if entry.get("wall_s")
            ]
        return self.entries[family]

    def has(self, target: Target) -> bool:
        """Whether the record has an entry of the target's name."""
        record = next(iter(self.records))
        return (record / target.family / f"{target.name}.json").exists()

    def of(self, target: Target, seeds) -> tuple[float | None, str]:
        """Seconds, and what they are from; of parts that were never run together, their sum."""
        seconds, source = self._together(target, seeds)
        if seconds is None and len(target.parts) > 1:
            each = [self._together(target._replace(parts=(p,)), seeds) for p in target.parts]
            if all(known is not None for known, _ in each):
                return sum(known for known, _ in each), "; ".join(text for _, text in each)
        return seconds, source

    def _together(self, target: Target, seeds) -> tuple[float | None, str]:
        """The least of several estimates.

        Runs that share a device are slower than alone, and never faster.
        """
        config = target.config()
        if seeds:
            config.train.seeds = tuple(seeds)
        here, at_least, elsewhere = [], [], []
        for entry, recorded in self._recorded(target.family):
            if entry["row"] != target.row and not _is_same_program(recorded, config):
                continue
            ratio = _work_ratio(recorded, config)
            if ratio is None:
                continue
            seconds = entry["wall_s"] * ratio
            text = f"{standings.described(entry)}: {entry['wall_s']:.0f} s x {ratio:.3g}"
            if standings.device_kind(entry.get("devices") or "") != self.kind:
                elsewhere.append((seconds, text))
            elif PART_OF_THE_TIME.search(entry.get("note") or ""):
                at_least.append((seconds, f"at least: {text}, the time of a part"))
            elif less := _less_work(recorded, config):
                at_least.append((seconds, f"at least: {text}, {less}"))
            else:
                here.append((seconds, text))
        if here or at_least:
            return min(here) if here else max(at_least)
        if elsewhere:
            seconds, text = min(elsewhere)
            return None, f"unknown on this device; elsewhere {seconds:.0f} s: {text}"
        return None, "unknown: no run of this row and part is recorded"


def _is_same_program(old, new) -> bool:
    """Whether two rows without parts differ in data and durations only."""
    if "parts" in old or "parts" in new:
        return False
    before, after = (
        {key: value for key, value in leaves(config) if not key.startswith("data.")}
        for config in (old, new)
    )
    fixed = [key for key in after if key.startswith(("model.", "optim."))]
    same = before.keys() == after.keys() and all(before[key] == after[key] for key in fixed)
    batches = [config.get("data", {}).get("batch") for config in (old, new)]
    return same and batches[0] == batches[1]


def _work_ratio(old, new) -> float | None:
    """Work of one config over that of another; None if a part of `new` is not in `old`.

    Parts count alike, each by its own length.
    """
    before, after = dict(configs.parts(old)), dict(configs.parts(new))
    if not after.keys() <= before.keys():
        return None
    return sum(_ratio(before[name], after[name]) for name in after) / len(before)


def _less_work(old, new) -> str:
    """Why `old` takes less time than `new` by more than its lengths tell; "" if it does not."""
    recorded = dict(configs.parts(old))
    for name, settings in configs.parts(new):
        before, after = dict(leaves(recorded[name])), dict(leaves(settings))
        for key in before.keys() & after.keys():
            if key == "optim.stop" and after[key] < before[key]:
                return "which stops at a larger loss"
            more_often = key in EVERY and after[key] < before[key]
            if more_often or (key.startswith("eval.n_") and after[key] > before[key]):
                return "with fewer scores"
    return ""


def _ratio(old, new) -> float:
    before, after = dict(leaves(old)), dict(leaves(new))

    def change(keys) -> float:
        product = 1.0
        for key in keys:
            if key in before and key in after:
                sizes = [_size(key, values[key]) for values in (after, before)]
                product *= sizes[0] / sizes[1] if sizes[1] else 1.0
        return product

    # Compilation and start take the same time for any number of seeds.
    seeds = max(1.0, change(("train.seeds",)))
    return seeds * change(PROPORTIONAL) * max(change(stage) for stage in STAGES)


def _size(key: str, value) -> float:
    """How much work a value makes, up to a factor."""
    if key == "data.distances":
        return sum(DIGIT_COLUMNS + 2 * distance for distance in value)
    if isinstance(value, tuple):
        return len(value)
    return value**2 if key == "data.image_size" else value
