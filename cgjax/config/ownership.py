"""The owner of a workdir: once something is trained in a folder, it belongs to that config.

The same config resumes. Replicas (seeds, and every other key that a row declares as an axis) can be
added. Naming a subset of the trained replicas only reads them. `--extend` trains longer. Every
other change needs a new folder; otherwise results would stand under a config that did not produce
them.
"""

import contextlib
import json
import os
import pathlib
from typing import Any, NamedTuple

from cgjax import config as configs
from cgjax.config.declare import copied, declared_keys, leaves
from cgjax.core import hosts
from cgjax.core.errors import BadInput, first_line
from cgjax.core.workdir import (
    ASIDE,
    LOCK,
    disk_errors,
    environment,
    is_owned,
    read_json,
    saved_steps,
    write_atomic,
)

# --extend may change the length and the times of evaluations and checkpoints. Names are the last
# two parts of a key.
LENGTHS = ("train.steps", "train.epochs")
PERIODS = (
    "eval.every", "eval.epochs", "eval.at", "eval.keep",
    "checkpoint.every", "checkpoint.epochs", "checkpoint.keep",
)  # fmt: skip
MEND = "restore a copy of it, or begin again with --start_anew (which keeps the old files aside)"


def default_workdir(config) -> pathlib.Path:
    """runs/<family>/<row>[-<size>]"""
    return pathlib.Path("runs") / config.family / full_name(config)


def full_name(config) -> str:
    """<row>[-<size>]"""
    return config.row + ("" if config.size == "default" else f"-{config.size}")


class Ownership(NamedTuple):
    """What a command may do in a workdir."""

    config: Any  # of the command; with the end of the schedule if the run was extended
    reads_only: bool  # a subset of the trained replicas is named: nothing is written
    came_from: list  # earlier configs of an extended run: [{"config_hash", "changed"}]
    changed: list  # differences that --extend applies now


def compare(workdir: pathlib.Path, config, extend: bool = False) -> Ownership:
    """Compares the config with the owner of the workdir; only reads."""
    if not is_owned(workdir):
        if extend:
            raise BadInput(f"nothing is trained in '{workdir}': there is nothing to --extend")
        _check_foreign_file(workdir / "config.json")
        return Ownership(config, False, [], [])
    if not any(
        (workdir / name).exists() for name in ("config.json", "results.json", "checkpoints")
    ):
        raise BadInput(f"'{workdir}' holds runs in its sub-folders: choose another --workdir")
    old, came_from = read_config(workdir), _read_past(workdir)
    config = copied(config)
    _keep_schedule(old, config, extended=bool(came_from))
    axes = {name for name, key in declared_keys(config).items() if key.is_axis}
    new = _new_parts(workdir, old, config)
    changed = [
        line
        for line in configs.differences(old, config)
        if _name(line) not in axes and not _name(line).startswith(new)
    ]
    if changed:
        _check_extension(workdir, old, config, changed, extend)
    check_unchanged(workdir, old)
    reads_only = _compare_axes(workdir, old, config, axes)
    if reads_only and changed:
        raise BadInput("--extend trains every replica: name all of them")
    if reads_only and new:
        raise BadInput(f"'{workdir}' lacks parts, which are trained for all replicas: name all")
    return Ownership(config, reads_only, came_from, changed)


def take_ownership(workdir: pathlib.Path, config, extend: bool = False) -> Ownership:
    """Calls `compare` and, if the command trains, writes config.json.

    Of several hosts only the first does this, and sends the result to the others.
    """
    if not hosts.several():
        return _take_ownership(workdir, config, extend)
    ownership = hosts.from_writer(
        lambda: _without_declarations(_take_ownership(workdir, config, extend))
    )
    config, writer_config = copied(config), ownership.config
    if "schedule_end" in writer_config.get("optim", {}):
        config.optim.schedule_end = writer_config.optim.schedule_end
    if odd := configs.differences(writer_config, config):
        raise BadInput(f"host 0 was given another config ({'; '.join(odd)}): give all the same")
    return ownership._replace(config=config)


def _without_declarations(ownership: Ownership) -> Ownership:
    """A form that can be sent: the declarations of the config hold functions."""
    return ownership._replace(config=configs.from_json(configs.to_json(ownership.config)))


def _take_ownership(workdir: pathlib.Path, config, extend: bool) -> Ownership:
    ownership = compare(workdir, config, extend)
    if ownership.reads_only:
        return ownership
    if ownership.changed:
        last = {
            "config_hash": configs.fingerprint(read_config(workdir)),
            "changed": ownership.changed,
        }
        ownership = ownership._replace(came_from=[*ownership.came_from, last])
        past = json.dumps({"came_from": ownership.came_from}, indent=1)
        write_atomic(workdir / "extensions.json", past)
    path, text = workdir / "config.json", configs.to_json(ownership.config)
    if not path.exists() or path.read_bytes() != text.encode():
        old = [read_config(workdir)] if is_owned(workdir) else []
        write_environment(workdir, ownership.config, *old)
        write_atomic(path, text)
    return ownership


@contextlib.contextmanager
def restored_if_refused(workdir: pathlib.Path):
    """If the block raises BadInput before it saves a checkpoint, the owner stays as it was."""
    if not hosts.is_writer() or not is_owned(workdir):  # `locked` removes the files of a new run
        yield
        return
    paths = [workdir / name for name in ("config.json", "extensions.json", "env.json")]

    def contents():
        return {path: path.read_text(errors="surrogateescape") for path in paths if path.is_file()}

    old_contents, old_saved = contents(), saved_steps(workdir)
    try:
        yield
    except BadInput:
        if saved_steps(workdir) <= old_saved:
            for path, text in contents().items():
                if path not in old_contents:
                    path.unlink()
                elif text != old_contents[path]:
                    write_atomic(path, old_contents[path])
        raise


def read_config(workdir: pathlib.Path):
    """The config that owns a workdir."""
    path = workdir / "config.json"
    try:
        config = configs.from_json(json.dumps(read_json(path, MEND)))
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"cannot read '{path}': {first_line(error)}; {MEND}") from None
    try:
        configs.check_names(config, path)
    except BadInput as error:
        raise BadInput(f"{error}; {MEND}") from None
    return config


def check_unchanged(workdir: pathlib.Path, config) -> None:
    """Raises BadInput if config.json, read as `config`, is not as this program has written it."""
    known = []
    for name, key in (("env.json", "config_hashes"), ("results.json", "config_hash")):
        with contextlib.suppress(BadInput):  # a damaged file is reported by those who need it
            hashes = read_json(workdir / name).get(key)
            known += hashes if isinstance(hashes, list) else [hashes] * bool(hashes)
    if known and configs.fingerprint(config) not in known:
        raise BadInput(f"'{workdir / 'config.json'}' was changed since it was written: {MEND}")


def write_environment(workdir: pathlib.Path, *owners) -> None:
    """Writes env.json: versions and devices, and the hashes that config.json may have.

    It is written before config.json changes, with both configs, so that a kill between the two
    files leaves a workdir that can be read.
    """
    hashes = [configs.fingerprint(config) for config in owners]
    write_atomic(
        workdir / "env.json", json.dumps(environment() | {"config_hashes": hashes}, indent=1)
    )


def start_anew(workdir: pathlib.Path) -> pathlib.Path | None:
    """Moves everything in the workdir into a sub-folder; None if the workdir is empty."""
    contents = [
        path for path in workdir.iterdir() if path.name != LOCK and not path.name.startswith(ASIDE)
    ]
    if not contents:
        return None
    number = 1
    while (target := workdir / f"{ASIDE}{number}").exists():
        number += 1
    with disk_errors(target):
        target.mkdir()
        for path in contents:
            os.replace(path, target / path.name)
    return target


def _new_parts(workdir, old, config) -> tuple[str, ...]:
    """Prefixes of the keys of added parts; raises BadInput if an existing part is left out."""
    had, asked = set(old.get("parts", {})), set(config.get("parts", {}))
    if had - asked:
        raise BadInput(
            f"'{workdir}' holds the parts {', '.join(sorted(had))}: name all of them "
            "(others can be added), or use a new --workdir"
        )
    return tuple(f"parts.{name}." for name in sorted(asked - had)) if had else ()


def _name(line: str) -> str:
    return line.partition(":")[0]


def _check_foreign_file(path: pathlib.Path) -> None:
    """Raises BadInput for a config.json of another program, which must not be replaced."""
    if not path.exists():
        return
    try:
        known = read_json(path)
    except BadInput:  # torn when a run was killed before it trained anything
        known = {"family": "", "row": "", "size": ""} if not path.is_dir() else {}
    if not {"family", "row", "size"} <= set(known):
        raise BadInput(f"'{path}' is not a run's config.json: choose another --workdir")


def _read_past(workdir: pathlib.Path) -> list:
    path = workdir / "extensions.json"
    if not path.exists():
        return []
    past = read_json(path, MEND).get("came_from")
    if not isinstance(past, list) or not past or not all(isinstance(item, dict) for item in past):
        raise BadInput(f"'{path}' does not list the earlier configs of the run: {MEND}")
    return past


def _keep_schedule(old, config, extended: bool) -> None:
    """Sets schedule_end to the old end, so that a run that trains longer keeps its schedule."""
    if "schedule_end" not in config.get("optim", {}) or config.optim.schedule_end:
        return
    length = "train.epochs" if "epochs" in config.train else "train.steps"
    before = dict(leaves(old))
    end, had = before.get("optim.schedule_end"), before.get(length)
    if end:
        if extended:
            config.optim.schedule_end = end
    elif isinstance(had, int) and dict(leaves(config))[length] > had:
        config.optim.schedule_end = had


def _check_extension(workdir, old, config, changed: list[str], extend: bool) -> None:
    def is_one_of(name, endings):
        return ".".join(name.split(".")[-2:]) in endings

    # `_keep_schedule` sets schedule_end when the length changes; `_check_past` checks its value.
    may_change = (*LENGTHS, *PERIODS, "optim.schedule_end")
    odd = [line for line in changed if not is_one_of(_name(line), may_change)]
    if odd:
        raise BadInput(
            f"'{workdir}' holds a run of another config ({'; '.join(odd)}): use a new --workdir"
        )
    if not extend:
        raise BadInput(
            f"'{workdir}' holds a run of another config ({'; '.join(changed)}): use a new "
            "--workdir, or --extend to train longer or evaluate and save at other times"
        )
    before, after = dict(leaves(old)), dict(leaves(config))
    for name in (name for name in map(_name, changed) if is_one_of(name, LENGTHS)):
        if after.get(name, 0) < before.get(name, 0):
            was, now = before[name], after.get(name, "(absent)")
            raise BadInput(f"--extend lengthens {name}: {now} is less than {was}")
    try:
        before, after = dict(configs.parts(old)), dict(configs.parts(config))
        for part in before.keys() & after.keys():
            _check_past(before[part], after[part])
    except (TypeError, AttributeError, KeyError) as error:
        path = workdir / "config.json"
        raise BadInput(f"cannot read '{path}': {first_line(error)}; {MEND}") from None


def _check_past(old, config) -> None:
    """Raises BadInput if the config contradicts what the run does up to its old end.

    Replicas that are added later repeat the whole run, with the times of the config.
    """
    (end, old_every), (length, every) = map(configs.length_and_period, (old, config))
    if "schedule_end" in config.get("optim", {}):
        was, would = old.optim.schedule_end or end, config.optim.schedule_end or length
        if was != would:
            raise BadInput(f"--extend keeps the schedule: it ends at {was}, not at {would}")
    # Different periods differ in their first multiples, unless eval.at lists hundreds of them.
    steps = {end, *old.eval.at, *config.eval.at}
    for period in filter(None, (old_every, every)):
        steps.update(range(period, min(end, 1000 * period) + 1, period))

    def past(settings) -> list[set[int]]:
        evaluated = [step for step in steps if configs.is_evaluation(settings, step)]
        times = evaluated, settings.eval.keep, settings.checkpoint.keep
        return [{step for step in items if step <= end} for items in times]

    does = ("eval.at", "evaluates"), ("eval.keep", "keeps arrays"), ("checkpoint.keep", "saves")
    for (key, verb), was, would in zip(does, past(old), past(config)):
        lead = f"--extend changes nothing up to {end}, and the run {verb} at"
        if missing := was - would:
            raise BadInput(f"{lead} {min(missing)}: add it to {key}")
        if new := would - was:
            raise BadInput(f"{lead} {sorted(was) or 'none'}: leave {min(new)} out of {key}")


def _compare_axes(workdir, old, config, axes) -> bool:
    """Whether a subset of the trained replicas is named; a mix of old and new ones is an error."""
    before, after = dict(leaves(old)), dict(leaves(config))
    fewer, more = [], []
    for name in sorted(axes):
        trained = before.get(name, ())
        if not isinstance(trained, tuple):
            raise BadInput(f"'{workdir / 'config.json'}' has {name}={trained!r}: {MEND}")
        had, asked = set(trained), set(after[name])
        if asked < had:
            fewer.append(name)
        elif asked > had:
            more.append(name)
        elif asked != had:
            raise BadInput(
                f"'{workdir}' has trained {name}={trained}: name all of them to add some, "
                f"or only some of them to read (not {after[name]})"
            )
    if fewer and more:
        raise BadInput(f"'{workdir}': {fewer[0]} asks for less and {more[0]} for more than it has")
    return bool(fewer)
