"""Recorded configs that are older than keys of their rows.

`config.is_published` ignores keys that only one config has. So a recorded run counts as the paper's
even where the row has since set a key that the run did not have. This holds only if the row leaves
such keys at their defaults, which change nothing.
"""

import json

import pytest

from cgjax import config as configs
from cgjax import experiments, report
from cgjax.config.declare import declared_keys


def is_default(value, default) -> bool:
    """Whether a value is the default; of a tuple, whether it repeats the default's items."""
    return set(value) == set(default) if isinstance(value, tuple) else value == default


def lacking(entry: dict) -> dict:
    """{(part, key): value} of keys that the entry lacks and its row sets to other than the default.

    The row is that of the current config file at size `paper`.
    """
    recorded = configs.from_json(json.dumps(entry["config"]))
    paper = configs.load(f"{entry['family']}:{entry['row']},paper")
    current, defaults, found = dict(configs.parts(paper)), declared_keys(paper), {}
    for part, settings in configs.parts(recorded):
        known = dict(configs.leaves(settings))
        for name, value in configs.leaves(current.get(part, {})):
            if name in known or name.startswith("parts.") or name not in defaults:
                continue
            if not is_default(value, defaults[name].default):
                found[part, name] = value
    return found if found and configs.is_published(recorded) else {}


@pytest.mark.parametrize("family", experiments.FAMILIES)
def test_runs_that_count_as_published_lack_no_key_that_their_row_sets(family):
    """If one does: add the key to the record with the value that the older code had."""
    found = {
        f"{entry['row']}-{entry['size']}-{entry['label']}": keys
        for entry in report.entries(family)
        if "config" in entry and (keys := lacking(entry))
    }
    assert not found


def test_a_run_from_another_start_is_found():
    """`long` starts at zero, its recorded run at the background, where the code had no key."""
    (entry,) = (each for each in report.entries("bumps") if each["label"] == "background")
    assert not configs.is_published(configs.from_json(json.dumps(entry["config"])))
    assert entry["config"]["model"].pop("starts_at") == "background"
    assert lacking(entry) == {("", "model.starts_at"): "zero"}
