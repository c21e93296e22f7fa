"""Shared test set-up: eight virtual CPU devices, silent broadcasting across ranks is an error.

Tests compile more than they compute. So XLA optimises nothing here and compiles each program in one
piece: cutting it up to compile the pieces at once is more work, and the cores have other tests.
"""

import contextlib
import functools
import gc
import inspect
import os
import pathlib
import shutil
import tempfile
import weakref

# Threads of BLAS spin while they wait, and each core has its own process. The matrices here are
# small: two threads take twice the CPU time of one. NumPy reads the variable when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jaxlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if os.environ["JAX_PLATFORMS"] == "cpu":  # tests marked gpu run the programs that users run
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "")
        + " --xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
        + " --xla_cpu_parallel_codegen_split_count=1"
    ).strip()
else:  # the processes of a test, and those of xdist, share the GPU
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if os.environ["JAX_PLATFORMS"] == "cpu" and jaxlib.version.__version_info__ < (0, 11):
    # Programs compile in half the time with the emitters from before. Later versions no longer have
    # them, and XLA ends a process that is given a flag it does not know.
    os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

import jax
import numpy as np
import pytest
from digits import all_digits  # noqa: F401

# Traced programs are many small objects that live long: looking through them for garbage as often
# as Python does by itself takes a twentieth of the time.
gc.set_threshold(200_000, 20, 20)
# JAX makes a new MLIR context for every program: a sixth of the time that a small one takes. The
# name is private, so a version without it is only slower.
with contextlib.suppress(ImportError, AttributeError):
    from jax._src.interpreters import mlir

    mlir.make_ir_context = functools.cache(mlir.make_ir_context)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Many tests compile the same program in processes or closures of their own. A folder of the
# caller's choice is kept, and saves the next run most of the compiling. One that is thrown away
# has only what takes long: other processes seldom need the rest, and writing costs time.
_OWN = "CGJAX_CACHE" not in os.environ
if _OWN:
    os.environ["CGJAX_CACHE"] = tempfile.mkdtemp(prefix="cgjax-test-cache-")
_CACHE = os.environ["CGJAX_CACHE"]
_WORTH_WRITING = 0.3 if "cgjax-test-cache-" in _CACHE else 0.0  # seconds to compile
jax.config.update("jax_compilation_cache_dir", _CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
# Within a process a program is found by its key in memory. The functions are private: with a
# version that has others the tests are only slower.
with contextlib.suppress(ImportError, AttributeError):
    from jax._src import compiler

    _read, _write, _compiled = compiler._cache_read, compiler._cache_write, {}

    def read_cache(name, key, options, backend, devices):
        place = key, *(device.id for device in devices)
        return _compiled.get(place) or _read(name, key, options, backend, devices)

    def write_cache(key, seconds, name, backend, executable, callbacks):
        if len(_compiled) >= 1000:  # each has memory of its own
            _compiled.clear()
        if not callbacks:
            place = key, *(device.id for device in executable.local_devices())
            _compiled[place] = executable, seconds
        if seconds > _WORTH_WRITING:
            _write(key, seconds, name, backend, executable, callbacks)

    if all(
        len(inspect.signature(ours).parameters) == len(inspect.signature(theirs).parameters)
        for ours, theirs in ((read_cache, _read), (write_cache, _write))
    ):
        compiler._cache_read, compiler._cache_write = read_cache, write_cache


# At every call of a network linen traces the initialiser of each parameter, to compare its shape
# with that of the given value. Initialisers whose first argument is that very shape need no trace.
# The class is private: with a version that has another the tests are only slower.
with contextlib.suppress(ImportError, AttributeError):
    from flax.core.scope import Scope

    _param = Scope.param

    def param(self, name, init_fn, *init_args, unbox=True, **init_kwargs):
        if init_args and self.has_variable("params", name):
            value = self.get_variable("params", name)
            given = isinstance(value, jax.Array | np.ndarray) and isinstance(init_args[0], tuple)
            if given and init_args[0] == value.shape:
                self.reserve(name, "params")
                return value
        return _param(self, name, init_fn, *init_args, unbox=unbox, **init_kwargs)

    if inspect.signature(param).parameters.keys() == inspect.signature(_param).parameters.keys():
        Scope.param = param


# The files that take longest, longest first: a long file that starts last leaves a core idle.
LONGEST = (
    "test_unread_keys", "test_notebooks", "test_identify", "test_subnetwork_runs", "test_ntk",
    "test_machines", "test_images", "test_main", "test_train", "test_models", "test_lenses",
    "test_under_jit", "test_lens_reports", "test_trust", "test_kernels_bench",
    "test_support_studies", "test_scenes", "test_decoders", "test_upsample_kernel",
    "test_resistance_runs", "test_bump_training", "test_pairs", "test_dependence", "test_sweep",
    "test_bump_figures", "test_run", "test_claims", "test_support", "test_vectors",
    "test_staged_resnet", "test_masks", "test_report", "test_precision", "test_bump_turning",
    "test_plots", "test_upsample_loss", "test_dense", "test_coverage", "test_counterexamples",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    rank = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_collection_finish(session):
    gc.collect()
    gc.freeze()  # what is imported stays: no need to look at it again


@pytest.fixture
def quick_collection():
    """`gc.collect` looks at what the test makes, not at all that tests before it have left."""
    gc.freeze()


def coarse_layouts():
    """(place, name, function) of a layout that measures axes and their ticks once.

    Matplotlib measures all axes, moves them, and then repeats both. Each time it finds the ticks of
    an axis again for its label, for the title and for axes that share it. The names are private:
    with a version that has others the tests are only slower.
    """
    try:
        from matplotlib import _constrained_layout, layout_engine
        from matplotlib.axis import Axis

        measures = [
            (_constrained_layout, "get_pos_and_bbox"),
            (Axis, "_update_ticks"),
            (Axis, "_get_ticklabel_bboxes"),
        ]
        originals = [(*place, getattr(*place)) for place in measures]
        layout = layout_engine.do_constrained_layout
    except (ImportError, AttributeError):
        return []
    known = None  # (name, axes or axis): measure, during a layout

    def layout_once(*arguments, **options):
        nonlocal known
        known = {}
        try:
            return layout(*arguments, **options)
        finally:
            known = None

    def once(name, measure):
        def measured(which, *rest):
            if known is None:
                return measure(which, *rest)
            if (name, which) not in known:
                known[name, which] = measure(which, *rest)
            return known[name, which]

        return measured

    return [
        (layout_engine, "do_constrained_layout", layout_once),
        *((place, name, once(name, measure)) for place, name, measure in originals),
    ]


@pytest.fixture(scope="session", autouse=True)
def coarse_figures():
    """Few pixels, few and coarse layouts before a figure is saved: `whole_figures` has all."""
    from cgjax.plots import style

    window_extent, laid_out = style._window_extent, weakref.WeakSet()

    def extent(ax):
        if ax.get_figure() in laid_out:
            return ax.get_window_extent()
        laid_out.add(ax.get_figure())
        return window_extent(ax)

    coarse = [(style, "_window_extent", extent), *coarse_layouts()]
    whole = [(module, name, getattr(module, name)) for module, name, _ in coarse]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(style.STYLE, "figure.dpi", 48)
        for place in coarse:
            patch.setattr(*place)
        yield whole


@pytest.fixture
def whole_figures(coarse_figures, monkeypatch):
    """For tests that look at pixels and places."""
    from cgjax.plots import style

    monkeypatch.setitem(style.STYLE, "figure.dpi", style.DPI)
    for place in coarse_figures:
        monkeypatch.setattr(*place)


@pytest.fixture(scope="session", autouse=True)
def files_are_read_once():
    """Config files of one text are compiled once, entries of the repository's record read once.

    No test changes the record.
    """
    from cgjax import config, report

    read, known = report._read_entry, functools.cache(report._read_entry)

    def entry(path):
        return dict(known(path)) if path.is_relative_to(report.RECORD) else read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_read_entry", entry)
        patch.setattr(config, "compile", functools.cache(compile), raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def draws_compile_like_the_rest():
    """Runs compile random draws with little optimisation; here they have none, as all has."""
    from cgjax.core import rng

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rng, "quick_options", lambda: None)
        yield


def pytest_unconfigure(config):
    if _OWN:  # the one that made it ends last
        shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="module")
def one_device():
    """For whole files that ask nothing about devices: programs for eight take far longer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
        yield


@pytest.fixture(autouse=True)
def _gpu(request):
    """Tests marked gpu are skipped where there is none."""
    if request.node.get_closest_marker("gpu") and jax.default_backend() != "gpu":
        pytest.skip("no GPU: JAX_PLATFORMS=cuda,cpu python -m pytest -m gpu on a machine with one")


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A folder with the family of `victim`, and in `lab / "whole"` an uninterrupted run of it."""
    import victim

    folder = victim.make(tmp_path_factory.mktemp("lab"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)  # `cgjax.load` imports the family
        yield folder


GOLDEN = pathlib.Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden():
    """`golden("sprites/renders")` -> the reference arrays of that file."""
    return lambda name: np.load(GOLDEN / f"{name}.npz")
