"""A key that is declared as traced is an argument of all programs of its rows, no constant in one.

Nothing is compiled: the programs are written as text, with the row's values and with others.
"""

import jax
import pytest
from recording import nothing_compiles
from test_unread_keys import KINDS, few_stops, load  # noqa: F401

from cgjax import experiments
from cgjax.config.declare import Dotted, declared_keys, leaves
from cgjax.config.overrides import part_of
from cgjax.core import program, train
from cgjax.sweep import together

JIT, VMAP = jax.jit, jax.vmap


def traced(config) -> dict:
    """{name: (what is declared, value)}"""
    keys = {}
    for name, value in leaves(config):
        inner = part_of(config, name)[1] or name
        known = declared_keys(config).get(inner)
        if known is not None and known.is_traced:
            keys[name] = inner, value
    return keys


def programs(config, folder, monkeypatch) -> list[str]:
    """Every program that the row trains, in order."""
    texts, original = [], train.train_shares

    def noted(members, *rest):
        with monkeypatch.context() as patch:
            patch.setattr(jax, "jit", JIT)
            patch.setattr(jax, "vmap", VMAP)
            texts.append(
                together._program_text(program.SetUp(members[0].experiment, members[0].config))
            )
        return original(members, *rest)

    with nothing_compiles(), monkeypatch.context() as patch:
        patch.setattr(train, "train_shares", noted)
        experiments.family(config.family).run(config, folder, figures=False)
    return texts


@pytest.mark.slow
# support: too few rows train; predict has the keys of the families it asks.
@pytest.mark.parametrize("family", sorted(set(KINDS) - {"support", "predict"}))
def test_traced_keys_are_arguments(family, tmp_path, monkeypatch):
    seen = set()
    for i, (row, changes) in enumerate(KINDS[family]):
        config, other = load(family, row, changes), load(family, row, changes)
        keys = traced(config)
        if {inner for inner, _ in keys.values()} <= seen:
            continue
        seen |= {inner for inner, _ in keys.values()}
        for name, (_, value) in keys.items():
            many = isinstance(value, tuple)
            Dotted(other)[name] = tuple(x / 2 for x in value) if many else value / 2
        known = programs(config, tmp_path / f"{i}", monkeypatch)
        assert known and known == programs(other, tmp_path / f"{i} other", monkeypatch), row
    assert seen
