"""The benchmark of the kernels study, at sizes that say nothing about speed."""

import concurrent.futures
import importlib
import json
import re
import sys

import jax
import numpy as np
import pytest

from cgjax.bench import __main__ as command
from cgjax.bench import harness, kernels, ntk
from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.experiments.kernels import images, tasks, theory

TASK = tasks.cd(3)
KAPPAS = np.array([[0, 0.15, 0.4, 1], [0, 0.2, 0.5, 1], [0, 0.1, 0.3, 1]])


@pytest.fixture(scope="module")
def margins():
    return theory.margins(KAPPAS, TASK)


@pytest.mark.slow
def test_one_call_solves_every_task_with_every_machine(margins):
    """The shorter training set is masked; kernels in two chunks."""
    with jax.enable_x64(True):
        is_solved = np.asarray(kernels.whole_map([tasks.cd(1), TASK], chunk=3)(KAPPAS))
    assert is_solved.shape == (2, 2, 3, 18)
    for machine, name in enumerate(("svm", "regression")):
        np.testing.assert_allclose(is_solved[machine, 1], margins[name], atol=1e-7)
    assert np.all(is_solved[:, 0, :, :2] != 0) and np.all(is_solved[:, 0, :, 2:] == 0)


def test_scikit_learn_s_loop_solves_the_same_problems(margins):
    pytest.importorskip("sklearn")
    np.testing.assert_allclose(kernels.svc_loop(KAPPAS, TASK), margins["svm"], atol=5e-3)


@pytest.mark.parametrize("form", [pytest.param("full", marks=pytest.mark.slow), "mean_trace"])
def test_all_forms_give_one_kernel(form):
    case = ntk.Case(ntk.mlp(5, 4, 3, 2), 3, form)
    f, params, x = case.network(case.n)
    forms = ntk.forms(f, case)
    found = [kernel(params, x) for kernel in forms.values()]
    for kernel in found[1:]:
        np.testing.assert_allclose(kernel, found[0], rtol=2e-5, atol=1e-6)
    assert forms[ntk.OURS].keywords["precision"] == "highest"
    for name in (ntk.PLAIN, ntk.EACH):
        text = forms[name].lower(params, x).as_text()
        assert "HIGHEST" in text and "DEFAULT" not in text


@pytest.mark.slow
def test_a_process_answers_until_it_is_left_alone():
    """What the workers of a case report, and what becomes of one that dies."""
    name = "MLP 8-7-7-2, n 64"
    processes = ntk.begin(name, (ntk.OURS,)) | {"dead": harness.Asked("raise SystemExit(1)")}
    timings = ntk.in_turns(processes, ntk.compiled(processes), budget=0.1)
    assert timings.pop("dead") == "failed (exit 1)"
    assert timings[ntk.OURS]["seconds"] > 0 and timings[ntk.OURS]["peak"] > 0
    line = ntk.summary_line(name, timings | {ntk.PLAIN: "out of memory"})
    assert re.fullmatch(f"{name}: ours [0-9.]+ ms, jacrev out of memory", line)
    timings[ntk.PLAIN] = dict(timings[ntk.OURS])
    lines = ntk.rows(name, timings)
    assert [line[1] for line in lines] == [ntk.OURS, ntk.PLAIN]
    assert lines[0][-1] == "" and lines[1][-1] == "1.00 x"
    timings[ntk.PLAIN]["norm"] *= 2
    with pytest.raises(RuntimeError, match="different kernels"):
        ntk.rows(name, timings)


def test_what_a_limit_may_stop_compiles_beside_the_others(monkeypatch):
    """All are asked once and answer under their own names, ours first."""
    asked = []

    class Process:
        def __init__(self, how):
            self.ask, self.answer = lambda: asked.append(how), lambda show: how

    hows = (ntk.OURS, ntk.PLAIN)
    monkeypatch.setattr(ntk, "begin", lambda name: {how: Process(f"{name}: {how}") for how in hows})
    names = ntk.LARGE
    begun = ntk.begun(names)
    wanted = {name: {how: f"{name}: {how}" for how in hows} for name in names}
    assert {name: found for name, (_, found) in begun.items()} == wanted
    assert all(tuple(found) == hows for _, found in begun.values())
    assert sorted(asked) == sorted(text for found in wanted.values() for text in found.values())


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_cases_are_printed_as_they_are_timed(backend, monkeypatch, capsys):
    """On every backend but a TPU all of them; an accelerator's many processes in two groups."""
    groups = []

    def begun(names):
        groups.append(names)
        return {name: (name, {ntk.OURS: {"seconds": 1, "peak": 0, "norm": 1}}) for name in names}

    def timed(name, found):
        if name == "ConvNet, n 4":
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(ntk, "begun", begun)
    monkeypatch.setattr(ntk, "in_turns", timed)
    part = kernels.against_jacrev()
    next(part)
    if backend == "tpu":
        assert next(part, "ended") == "ended" and not groups
        return
    assert groups == ([] if backend == "cpu" else [ntk.LARGE])
    with pytest.raises(KeyboardInterrupt):
        next(part)
    assert "MLP 784-512-512-10, n 8: ours 1000.000 ms\n" in capsys.readouterr().out


def test_running_out_of_memory_is_said(monkeypatch, capsys):
    def kernel(params, x):
        raise MemoryError

    monkeypatch.setattr(sys, "stdin", ["\n"])
    monkeypatch.setattr(ntk, "forms", lambda f, case: {ntk.OURS: kernel})
    ntk.worker("MLP 8-7-7-2, n 64", ntk.OURS)
    assert json.loads(capsys.readouterr().out) == {"failed": "out of memory"}


def test_the_convnet_s_part_says_time_share_and_error(monkeypatch, capsys):
    f, params, x = ntk.mlp(6, 5, 3, 1)(8)

    def stand_in(n, dtype=np.float32):
        return f, *jax.tree.map(lambda a: np.asarray(a, dtype), (params, x))

    monkeypatch.setattr(ntk, "digit_pairs", stand_in)
    assert len(list(kernels.convnet(8, rows=64))) == 1
    out = capsys.readouterr().out
    assert out.count("ntk 8 x 8") == 1  # the plan once, not for each precision
    assert all(f"NTK, 8 pairs, {precision}" in out for precision in kernels.PRECISIONS)
    errors = re.findall(r"8 pairs, .*% +(\S+e-\d+)", out)
    assert len(errors) == len(kernels.PRECISIONS) and all(float(error) < 1e-5 for error in errors)


def test_parts_are_chosen_and_named(capsys):
    kernels.run(parts="convnet")
    assert "need an accelerator" in capsys.readouterr().out
    with pytest.raises(
        BadInput, match="no part 'phases': all, or some of phase,ntk,convnet,images"
    ):
        kernels.run(parts="phase,phases")
    module, function = command.FAMILIES["kernels"]
    assert getattr(importlib.import_module(f"cgjax.bench.{module}"), function) is kernels.run


def test_parts_are_timed_when_all_of_them_are_compiled(capsys):
    done = []

    def part(name, fails=False):
        done.append(f"{name} compiled")
        if fails:
            raise jax.errors.JaxRuntimeError("no room\nfor it")
        yield
        done.append(f"{name} timed")

    kernels.in_two_steps({"a": part("a"), "b": part("b", fails=True), "c": part("c")})
    assert sorted(done[:3]) == ["a compiled", "b compiled", "c compiled"]
    assert done[3:] == ["a timed", "c timed"]
    assert "b: no room\n" in capsys.readouterr().out


@pytest.mark.slow  # 4 s: a training step for one and for two seeds is compiled
@pytest.mark.usefixtures("one_device")
def test_steps_of_image_networks_are_tabled(capsys):
    sizes = {"model.convnet.channels": (2,), "model.convnet.hidden": (3,), "eval.layers": (2,)}
    changes, dtypes = kernels.SMALL | sizes, {"convnet": ("float32",)}
    kernels.compare(("convnet",), "smoke", changes, 1, 2, dtypes)
    out = capsys.readouterr().out
    assert "convnet: train step, batch 4, 28 x 28 x 2" in out
    assert "float32, one seed" in out and "float32, 2 seeds in one program" in out


def test_a_form_that_fails_is_a_line_of_the_table():
    call = concurrent.futures.Future()
    call.set_exception(jax.errors.JaxRuntimeError("no room for 3 GiB\nand more"))
    why = kernels._timed(call, 2)
    assert kernels._row("first", why, why) == ("first", "no room for 3 GiB", "")
    assert kernels._row("second", 2e-3, why) == ("second", "2.000", "")
    assert kernels._row("second", 2e-3, 1e-3) == ("second", "2.000", "2.00 x")


@pytest.mark.parametrize("net", kernels.ROWS)
def test_pytorch_s_networks_are_ours(net):
    """Their shapes, as a count of parameters, and what they give."""
    torch = pytest.importorskip("torch")
    config = kernels.settings(net, "fast", {"data.batch": 2})
    x = kernels.batch(config)
    shape = (x.shape[-1], *x.shape[1:3])
    theirs = kernels.torch_network(config, shape)
    ours = jax.eval_shape(lambda key: images.network(config).init(key, x), jax.random.key(0))
    assert sum(p.numel() for p in theirs.parameters()) == tree.size(ours["params"])
    assert theirs(torch.zeros(2, *shape)).shape == (2, 1)
