"""One experiment in its workdir: trains what is missing, draws, writes and prints the results."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import time
import zlib

import jax
import numpy as np

from cgjax import config as configs
from cgjax import experiments
from cgjax.config.declare import leaves
from cgjax.config.ownership import (
    Ownership,
    compare,
    default_workdir,
    full_name,
    restored_if_refused,
    start_anew,
    take_ownership,
    write_environment,
)
from cgjax.core import checkpoint, hosts, parallel, signals
from cgjax.core.errors import BadInput, first_line
from cgjax.core.logging import counted, is_sound_npz, say, write_arrays
from cgjax.core.workdir import Access, is_owned, locked, opened
from cgjax.data import sources
from cgjax.published.results import is_entry, print_table, read_results, write_results


def start(config, flags) -> None:
    """Checks the devices and the config; then prints the plan (--dry_run) or runs it."""
    # Hosts must be joined before JAX initialises its devices.
    with hosts.joined(None if flags.dry_run else hosts.find(flags)):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            # A GPU takes a second or two, and so do the imports of a family.
            devices = pool.submit(parallel.require_devices)
            family = experiments.family(config.family)
            devices.result()
        experiments.check(family, config)
        workdir = flags.workdir or default_workdir(config)
        use_compilation_cache()
        if flags.dry_run:
            ownership = compare(workdir, config, flags.extend)
            print_plan(ownership, family, workdir, flags.config)
            return
        with signals.handled():
            run(config, family, workdir, flags)


def seeds(config) -> str:
    """ " · seeds 0, 1"; empty if the row has no seeds."""
    numbers = config.get("train", {}).get("seeds", ())
    return f" · seeds {', '.join(map(str, numbers))}" if numbers else ""


def run(config, family, workdir: pathlib.Path, flags, train=None) -> None:
    """Runs one experiment in its workdir: trains what is missing, draws, prints the table.

    train: replaces training in `core.train.fit` (`core.workdir.Access.train`).
    """
    reads_only = not flags.start_anew and hosts.from_writer(
        lambda: compare(workdir, config, flags.extend).reads_only
    )
    with contextlib.ExitStack() as stack:
        if not reads_only:  # reading needs no lock
            stack.enter_context(locked(workdir))
        if flags.start_anew and (aside := hosts.from_writer(lambda: start_anew(workdir))):
            say(f"the old content of the workdir is now in {aside}")
        stack.enter_context(restored_if_refused(workdir))
        config, reads_only, came_from, _ = take_ownership(workdir, config, flags.extend)
        draws = not (flags.no_figures or reads_only)
        say(f"{config.family} · {full_name(config)}{seeds(config)} → {workdir}")
        results = None
        if not reads_only:
            results = hosts.from_writer(lambda: finished(workdir, config, draws))
        if results is None:
            say(f"jax {jax.__version__} · {parallel.describe_devices()}")
            if not reads_only:
                write_environment(workdir, config)
            with tools(flags, workdir):
                access = Access(reads_only, train)
                results = run_family(config, family, workdir, draws, access, came_from)
        else:
            say("already finished: nothing to train")
        is_published = configs.is_published(config, configs.split_flag(flags.config)[0])
        print_table(results, is_published, flags.full_table, configs.is_drawn(config))
        if reads_only:
            say(f"some of the replicas in {workdir}: nothing was written")
            return
        drawn = results["figures"] or ()
        figures = f"{counted(len(drawn), 'figure')} in {workdir}/figures; " if drawn else ""
        say(f"{figures}numbers in {workdir}/results.json")


def run_family(config, family, workdir, draws: bool, access: Access, came_from: list) -> dict:
    """Runs the row and writes its results: arrays.npz, then results.json."""
    started = time.monotonic()
    with opened(workdir, access), configs.missing_keys(config), sources.noted() as data_sets:
        family_results = family.run(config, workdir, figures=draws)
    metrics, arrays, extra = checked_results(config, family_results)
    drawn = (path for kind in ("png", "gif") for path in (workdir / "figures").glob(f"*.{kind}"))
    figures = sorted(path.name for path in drawn) if draws else None
    extra = {**extra, "figures": figures, "arrays": sorted(arrays), "came_from": came_from}
    extra["data"] = data_sets
    files = [workdir / name for name in extra.get("files", ())]
    files += [path for path in (workdir / "figures").glob("*") if draws and path.is_file()]
    extra["files"] = {str(path.relative_to(workdir)): _checksum(path) for path in sorted(files)}
    extra["wall_s"] = time.monotonic() - started
    if access.reads_only:
        return {"metrics": metrics, **extra}
    if arrays:
        write_arrays(workdir / "arrays.npz", arrays)
    extra |= hosts.from_writer(lambda: checkpoint.trained_with(workdir))
    return write_results(workdir / "results.json", metrics, configs.fingerprint(config), extra)


def checked_results(config, returned) -> tuple[dict, dict, dict]:
    """The values that a family's `run` returned; BadInput if they break the contract."""
    who, wanted = f"family '{config.family}'", "(metrics, arrays, extra)"
    if not isinstance(returned, tuple) or len(returned) != 3:
        got = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise BadInput(f"run of {who} returned {got}: it must return {wanted}")
    if not all(isinstance(part, dict) for part in returned):
        raise BadInput(f"run of {who} must return three dicts, {wanted}")
    metrics, arrays, extra = returned
    for name, entry in metrics.items():
        if not is_entry(entry):
            raise BadInput(
                f"metric '{name}' of {who} is not an entry of results.json: make it with "
                "cgjax.published.results.summary(values, seeds, published)"
            )
    try:
        json.dumps([metrics, extra])
    except (TypeError, ValueError) as error:
        raise BadInput(f"metrics or extra of {who} are not json: {first_line(error)}") from None
    files = extra.get("files", [])
    if not isinstance(files, list) or not all(_is_inside(name) for name in files):
        raise BadInput(f"extra['files'] of {who} must list names of files in the workdir")
    for name, values in arrays.items():
        if not isinstance(name, str) or np.asarray(values).dtype == object:
            raise BadInput(f"'{name}' among the arrays of {who} is not an array of numbers or text")
    return metrics, arrays, extra


def _is_inside(name) -> bool:
    """Whether it is a relative path that does not leave its folder."""
    parts = pathlib.PurePath(name).parts if isinstance(name, str) else ("..",)
    return ".." not in parts and not pathlib.PurePath(name).is_absolute()


def _checksum(path: pathlib.Path) -> str | None:
    return f"{zlib.crc32(path.read_bytes()):08x}" if path.is_file() else None


def finished(workdir: pathlib.Path, config, draws: bool) -> dict | None:
    """results.json, if it is of this config and all that derives from it is sound; else None."""
    path = workdir / "results.json"
    if not path.exists():
        return None
    results = read_results(path)
    if results["config_hash"] != configs.fingerprint(config):
        return None
    if results["arrays"] and not is_sound_npz(workdir / "arrays.npz"):
        return None
    if draws and results["figures"] is None:
        return None
    figures = (results["figures"] or ()) if draws else ()
    if not all((workdir / "figures" / name).exists() for name in figures):
        return None
    wanted = {
        name: checksum
        for name, checksum in (results.get("files") or {}).items()
        if draws or not name.startswith("figures/")
    }
    is_sound = all(_checksum(workdir / name) == checksum for name, checksum in wanted.items())
    return results if is_sound else None


@contextlib.contextmanager
def tools(flags, workdir: pathlib.Path):
    """The profiler (--profile) and the NaN check (--debug_nans)."""
    with contextlib.ExitStack() as stack:
        if flags.profile:
            stack.enter_context(jax.profiler.trace(str(workdir / "profile")))
        if flags.debug_nans:
            stack.enter_context(jax.debug_nans(True))
        yield


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that the next start is fast."""
    folder = os.environ.get("CGJAX_CACHE") or os.environ.get("XDG_CACHE_HOME")
    if not os.environ.get("CGJAX_CACHE"):
        try:
            folder = str(pathlib.Path(folder or pathlib.Path.home() / ".cache") / "cgjax")
        except RuntimeError:  # no home directory: every start compiles
            return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def print_plan(ownership: Ownership, family, workdir, flag: str) -> None:
    """Prints what would run: the resolved config, parameters, memory, steps, expected time."""
    config = ownership.config
    for name, value in leaves(config):
        say(f"{name} = {value}")
    if hasattr(family, "plan"):
        with configs.missing_keys(config):
            sizes = family.plan(config)
        for part, size in sizes.items():
            say(f"{part or config.row}: {size if isinstance(size, str) else _size(size)}")
        if not sizes:
            say("nothing is trained")
    else:
        say(f"size of training: not known, because family '{config.family}' has no plan(config)")
    try:
        path = configs.find(configs.split_flag(flag)[0])
        rows = {row["name"]: row for row in configs.described_rows(path)}
    except BadInput:  # a config file need not describe its rows
        rows = {}
    times = rows.get(config.row, {}).get("times", {})
    say(f"expected time: {times.get(config.size, 'not known')}")
    if ownership.reads_only:
        say(f"would read some of the replicas in {workdir}; nothing was written")
    elif is_owned(workdir):
        say(f"would go on in {workdir}; nothing was written")
    else:
        say(f"would run in {workdir}; nothing was written")


def _size(size: dict) -> str:
    """The numbers of `program.training_size`, and its note about what it does not count."""
    text = (
        f"{size['parameters']:,} parameters x {counted(size['replicas'], 'replica')}, "
        f"{counted(size['steps'], 'step')}, state {size['bytes'] / 1e6:,.1f} MB"
    )
    return "; ".join(filter(None, (text, size.get("note"))))
