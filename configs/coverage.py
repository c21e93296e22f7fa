"""How many combinations must be seen for composition, and which? Our own study of four tasks.

    python -m cgjax.main --config=configs/coverage.py             three tasks, MLP and transformer
    python -m cgjax.main --config=configs/coverage.py:demo,fast   four tasks, five seeds: an accelerator

A part is one architecture on one task. All its seeds, numbers of values, sizes of the training set,
widths and graphs are replicas of one program.
"""

from cgjax.config import split_variant
from cgjax.config.choices import names_in
from cgjax.config.declare import base, declare, declare_parts, declare_training, key

ROWS = {"demo": "Combinations needed, by values, factors and width; connected and other graphs"}

KEYS = {
    "data.seed": key(0, "draws training sets, sprites and teachers, with the seed", low=0),
    "data.task": key("addition", "what combinations stand for",
                     choices=names_in("experiments.coverage.tasks", "TASKS")),
    "data.n_values": key((6, 8, 12, 16, 24), "values of each factor, or modules", low=4,
                       distinct=True),
    "data.base": key(16, "values where widths and graphs are compared", low=4),
    "data.n_factors": key((2,), "numbers of factors, at the fewest values", low=2, high=4,
                          distinct=True),
    "data.n_sizes": key(8, "sizes of the training set, at equal ratios", low=3),
    "data.bridges": key((1, 2, 4, 8, 16, 32, 64), "combinations that join two blocks", low=1,
                        distinct=True, may_be_empty=True, items=int),
    "data.batch": key(64, "combinations of one step", low=1),
    "model.name": key("mlp", "architecture",
                      choices=names_in("experiments.coverage.models", "ARCHITECTURES")),
    "model.widths": key((16, 32, 64, 128), "of hidden (feed-forward) layers; growth with values "
                        "uses the greatest", low=1, distinct=True),
    "optim.lr": key(3e-3, "first learning rate of Adam, along a cosine to 0", above=0,
                    is_traced=True),
    "eval.threshold": key(0.8, "held-out R2 that counts as composition", above=0, high=1),
    "eval.other_thresholds": key((0.5, 0.95), "whose exponents are reported too", above=0, high=1,
                                 may_be_empty=True, items=float),
}  # fmt: skip

# What a task changes, and rates of the transformer, which trains well only at lower ones.
TASKS = {
    "addition": {"data": {"n_factors": (2, 3, 4)}},
    "bumps": {},
    "sprites": {},
    "teacher": {"data": {"n_values": (4, 5, 6, 7, 8), "base": 8, "bridges": (1, 2, 4, 8, 16)}},
}
ARCHITECTURES = {"mlp": {}, "transformer": {"optim": {"lr": 1e-3}}}


def merged(*changes):
    """Nested changes together."""
    joined = {}
    for change in changes:
        for section, values in change.items():
            joined[section] = {**joined.get(section, {}), **values}
    return joined


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    config = base("coverage")
    config.row, config.size = row, size
    declare_training(config)
    declare(config, KEYS)
    parts = {"smoke": smoke, "default": laptop, "fast": full, "paper": full}[size](config)
    declare_parts(config, parts)
    return config


def length(config, steps):
    """Training of so many steps, one evaluation at the end."""
    config.train.update({"steps": steps, "steps_per_call": steps // 10, "log_every": steps // 10})


def every_part():
    """Both architectures on all tasks."""
    return {
        f"{task}_{name}": merged(changes, more, {"data": {"task": task}, "model": {"name": name}})
        for task, changes in TASKS.items()
        for name, more in ARCHITECTURES.items()
    }


def full(config):
    """Five seeds of every part."""
    length(config, 3000)
    config.train.seeds = (0, 1, 2, 3, 4)
    return every_part()


def laptop(config):
    """Three seeds; fewer values, sizes and widths."""
    length(config, 1500)
    config.train.seeds = (0, 1, 2)
    config.data.update({"n_sizes": 5, "bridges": (1, 4, 16), "n_values": (6, 9, 13), "base": 13})
    config.model.widths = (16, 64)
    fewer = {"addition": {"n_factors": (2,)}, "teacher": {"n_values": (4, 6), "base": 6}}
    return {
        name: merged(part, {"data": fewer.get(part["data"]["task"], {})})
        for name, part in every_part().items()
        if part["data"]["task"] in fewer
    }


def smoke(config):
    """Seconds: the whole path."""
    length(config, 20)
    config.train.seeds = (0, 1)
    config.data.update({"n_sizes": 3, "bridges": (1,), "n_values": (4, 6), "base": 6, "batch": 8})
    config.model.widths = (4, 8)
    parts = every_part()
    small = {"data": {"n_values": (4, 5), "base": 5, "bridges": (1,)}}
    return {
        "addition_mlp": parts["addition_mlp"],
        "teacher_transformer": merged(parts["teacher_transformer"], small),
    }


TIMES = {
    "default": "to be measured",
    "smoke": "seconds, mostly compiling",
    "fast": "to be measured",
    "paper": "as fast",
}


def describe_rows():
    """One line per row for `--list`."""
    for name, doc in ROWS.items():
        yield {"name": name, "doc": doc, "times": TIMES, "expect": ""}
