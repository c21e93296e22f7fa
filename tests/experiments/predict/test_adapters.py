"""Every family's pair has the fields that the theories read; programs are traced, not trained."""

import jax
import ml_collections
import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.experiments.across import adapters
from cgjax.experiments.across.adapters import bumps, kernels, resistance, vectors

# A row of each family at its own smoke size, made one model on one split.
SMALL = {
    "vectors": ("vectors:compositional_diagonal,smoke", ("data.sizes=16", "eval.measures=()")),
    "kernels": ("kernels:addition_rich,smoke",
                ("data.tasks=cd_1", "model.scales=1.0", "optim.lrs=0.01")),
    "bumps": ("bumps:phase,smoke", (
        "model.name=mlp", "data.encoding=onehot", "data.regions=donut_2_5", "data.stripes=none",
        "data.copies=0", "eval.layers=false")),
    "resistance": ("resistance:plane,smoke", (
        "data.settings=A", "model.heads=2", "eval.at=()", "eval.keep=()")),
    "subnetworks": ("subnetworks:joint,smoke", ("data.held_out=combinations",)),
}  # fmt: skip


def config(row, changes):
    return ml_collections.ConfigDict(
        {
            "pair": {"row": row, "changes": changes},
            "train": {"seeds": (0, 1)},
            "eval": {"n_train": 8, "n_new": 8, "iterations": 2},
            "masks": {"keep": 0.05},
        }
    )


SLOW = ("vectors", "resistance", "subnetworks")  # whose data take seconds to draw
FAMILIES = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SMALL]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pair_has_what_theories_ask_for(family):
    own = config(*SMALL[family])
    pair = adapters.build(own, adapters.settings_of(own))
    params, extra = jax.eval_shape(
        pair.experiment.init, jax.random.key(0), {k: v[0] for k, v in replicas(pair).items()}
    )
    assert len(pair.rows) == len(pair.looks) == 2
    params, look = pair.join(params, extra), pair.looks[0]
    for x, y in ((look.x, look.y), (look.x_new, look.y_new)):
        outputs = jax.eval_shape(pair.f, params, x)
        assert outputs.shape == y.shape and len(y) <= 8
        # The correct outputs have error 0; uninformative outputs have error 1 or more.
        assert float(pair.error(y, y)) == pytest.approx(0, abs=1e-5)
        assert jax.eval_shape(pair.loss, y, outputs).shape == ()
    units = jax.eval_shape(pair.layer, params, look.grid)
    assert units.shape[0] == np.prod(pair.shape) and units.size > units.shape[0]
    if not isinstance(pair.parts, str):
        read = jax.eval_shape(pair.parts.read, outputs)
        assert np.shape(pair.parts.outputs) == read.shape[1:]
        assert np.shape(pair.parts.inputs) in (look.x.shape[1:], look.x.shape)
    assert len(pair.routines) >= 2
    for loss in pair.routines.values():
        assert jax.eval_shape(loss, params, look).shape == ()


def replicas(pair):
    return {name: np.asarray(values) for name, values in pair.experiment.replicas.items()}


@pytest.mark.slow
def test_the_theorem_vouches_for_parts_on_every_support_of_vectors():
    settings = adapters.settings_of(config(*SMALL["vectors"]))
    assert vectors.unidentified(settings, "diagonal", "compositional") == 0
    assert vectors.unidentified(settings, "diagonal", "mlp") == 1
    assert vectors.unidentified(settings, "random", "mlp") == 0  # nothing is held out


def test_fields_are_not_identified_in_the_hole_and_profiles_are():
    """A field is unknown where no training image lights it; a profile is lit elsewhere."""
    row, changes = SMALL["bumps"]

    def share(*more):
        kept = [
            w for w in changes if w.partition("=")[0] not in {m.partition("=")[0] for m in more}
        ]
        small = ("data.sigmas=0.3",)  # the bells' tails would otherwise reach across the hole
        settings = adapters.settings_of(config(row, (*kept, *small, *more)))
        shown = bumps.sets.make(settings)
        (cell,) = bumps.training.cells(settings, shown.axes)
        return bumps.unidentified(settings, shown, shown.of(0, cell.combination))

    product = ("model.name=product",)
    assert share() == 1  # an MLP has no fields
    assert share(*product) == pytest.approx(4 / 8)  # values of the hole
    # With stripes, the blank image is not the product of two absent factors' fields.
    assert share(*product, "data.stripes=null_stripe", "data.copies=1") == 1
    assert share(*product, "model.product.stripes=true") == 0


def test_context_says_which_feature_is_redundant():
    settings = adapters.settings_of(config(*SMALL["kernels"]))
    (task,) = kernels.networks.members(settings)
    rows = np.flatnonzero(task.is_train)
    labels = kernels.asked(task, rows).inputs
    assert labels.shape == (len(rows), 14)
    first, second = (labels[task.x[rows, 0] == c] for c in (0, 1))
    assert (first == [0] * 8 + [1] * 6).all() and (second == [0] * 2 + [1] * 6 + [0] * 6).all()


@pytest.mark.slow
def test_towers_stand_side_by_side():
    row, changes = SMALL["resistance"]
    own = config(row, ("data.settings=A", "model.towers=true", *changes[2:]))
    settings = adapters.settings_of(own)
    net = resistance.of_plane.network(settings)
    params = net.init(jax.random.key(0), np.zeros((1, 2)))["params"]
    x = np.array([[0.5, -0.5], [0.5, 0.3], [-0.2, -0.5]], np.float32)
    activations = np.asarray(resistance.hidden(settings, params, x))
    half = activations.shape[1] // 2
    assert half == settings.model.width
    np.testing.assert_array_equal(activations[0, :half], activations[1, :half])  # the same X_1
    np.testing.assert_array_equal(activations[0, half:], activations[2, half:])  # the same X_2


@pytest.mark.parametrize(
    "row, changes, words",
    [
        ("support:demo,smoke", (), "not a row of a family with pairs"),
        ("bumps:demo,smoke", (), "several programs"),
        ("subnetworks:joint,smoke", (), "holds something out"),
        ("bumps:phase,smoke", ("eval.layers=false",), "one cell"),
    ],
)
def test_what_is_no_pair_is_refused(row, changes, words):
    own = config(row, changes)
    with pytest.raises(BadInput, match=words):
        adapters.build(own, adapters.settings_of(own))
