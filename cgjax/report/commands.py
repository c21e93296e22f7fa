"""How a run differs from its row, and the command that repeats it at the size it was run."""

import functools
import json
import re
import shlex

from cgjax import config as configs
from cgjax import experiments
from cgjax.config.declare import leaves
from cgjax.config.overrides import FIXED
from cgjax.core.errors import BadInput

MAIN = "python -m cgjax.main"


def flag(run: dict) -> str:
    """The value of --config: "bumps:B8,paper"."""
    size = "" if run["size"] == "default" else f",{run['size']}"
    return f"{run['family']}:{run['row']}{size}"


@functools.lru_cache(maxsize=1024)  # a page has many claims of one row
def _row(flag: str) -> tuple[dict, list[str]] | None:
    """{key: value} and the parts of a row; None if no config file of the package has it.

    A record may name any family: loading a file of that name would run its code.
    """
    if flag.partition(":")[0] not in experiments.FAMILIES:
        return None
    try:
        config = configs.load(flag)
    except BadInput:
        return None
    return dict(leaves(config)), sorted(config.get("parts", {}))


def changes(run: dict) -> dict[str, tuple]:
    """{key: (value of the row, value of the run)}; "parts" has the names of parts.

    A key that only one of them declares is left out: a recorded config may be older than the row.
    """
    if (declared := _row(flag(run))) is None:
        return {}
    row, parts = declared
    config, changed = configs.from_json(json.dumps(run["config"])), {}
    chosen = [name for name in parts if name in config.get("parts", {})]
    if chosen and chosen != parts:
        changed["parts"] = (tuple(parts), tuple(chosen))
    for name, value in leaves(config):
        head, _, inner = name.removeprefix("parts.").partition(".")
        # A run may set any key of the row for one part.
        shared = inner if name.startswith("parts.") and head in parts else ""
        before = row.get(name, row.get(shared))
        if before is not None and before != value and name not in FIXED:
            changed[name] = (before, value)
    return changed


def command(run: dict) -> str:
    """The command that runs a run again, with its seeds and its other differences from the row."""
    words = [f"{MAIN} --config={flag(run)}"]
    for name, (before, value) in changes(run).items():
        option = "--parts" if name == "parts" else f"--config.{name}"
        # Words need quotes where the row's own value does not show that words are meant.
        written = text(value) if before != () else str(value)
        words.append(shlex.quote(f"{option}={written}"))
    return " ".join(words)


def text(value) -> str:
    """A value as `--config.key=value` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and value and all(map(_is_plain, value)):
        return ",".join(map(str, value))
    return str(value)


def _is_plain(item) -> bool:
    return bool(re.fullmatch(r"[\w.+-]+", str(item)))
