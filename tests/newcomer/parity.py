"""Parity of two signs, which no sum of its parts can tell: --config=newcomer/parity.py"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.config import over_parts, parts, split_variant
from cgjax.config.declare import base, declare, declare_parts, declare_training, key
from cgjax.core import checkpoint, optim, program, train
from cgjax.published import results

PUBLISHED = {"sum": 0.5, "product": 1.0}
SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])


def get_config(arg=""):
    config = base("newcomer.parity")
    config.row, config.size = split_variant(arg, ["demo"])
    declare_training(config)
    declare(config, {"model.kind": key("sum", "what is learned", choices=tuple(PUBLISHED))})
    declare(config, {"optim.lr": key(0.1, "learning rate", above=0)})
    declare_parts(config, {kind: {"model.kind": kind} for kind in PUBLISHED})
    config.train.steps = 20 if config.size == "smoke" else 200
    return config


def describe_rows():
    yield {"name": "demo", "doc": "A sum, a product", "times": {"smoke": "seconds"}, "expect": "1"}


def run(config, workdir, figures=True):
    def one(name, settings):
        _, history = train.fit(experiment(settings), settings, workdir / name, name)
        paper = {"mean": PUBLISHED[name], "sd": None, "where": "by hand"}
        accuracy = history["eval"]["accuracy"][-1]
        return {"accuracy": results.summary(accuracy, settings.train.seeds, paper)}, {}

    return *over_parts(config, one), {}


def load(config, workdir, part="", step=None):
    own, variables, steps = checkpoint.read_part(dict(parts(config)), workdir, part, step)
    return checkpoint.Loaded(predictor(own), variables["params"], own, steps)


def predictor(config):
    if config.model.kind == "product":
        return lambda params, x: params["w"][0] * x.prod(-1)
    return lambda params, x: x @ params["w"]


def experiment(config):
    f = predictor(config)

    def loss(params, extra, batch, key, step, replica):
        x = jax.random.rademacher(key, (16, 2), float)
        return jnp.mean((f(params, x) - x.prod(-1)) ** 2), (extra, {})

    def evaluate(params, extra, data, key, replica):
        return {"accuracy": jnp.mean((f(params, data) > 0) == (data.prod(-1) > 0))}, {}

    return program.Experiment(
        data=SIGNS,
        replicas={"seed": np.array(config.train.seeds)},
        init=lambda key, replica: ({"w": 0.1 * jax.random.normal(key, (2,))}, {}),
        plan=None,
        batch=lambda data, rows, key, step: {},
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name("sgd", config.optim.lr),
        headline=("accuracy", "max"),
    )
