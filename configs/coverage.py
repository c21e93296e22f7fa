"""Coverage: how many combinations must be seen for composition, and which? A study of four tasks.

    python -m cgjax.main --config=configs/coverage.py                three tasks
    python -m cgjax.main --config=configs/coverage.py:<task>[,fast]  one task, two architectures

A part is one architecture on one task. All its seeds, numbers of values, sizes of the training set,
widths and graphs are replicas of one program.
"""

from cgjax.config import split_variant
from cgjax.config.declare import base, declare, declare_parts, declare_training, key, names_in

ROWS = {
    "demo": "Combinations needed, by number of values and width; connected and other graphs",
    "addition": "Addition tables, MLP and transformer; also by number of factors",
    "bumps": "Bumps at a column and a row, MLP and transformer",
    "sprites": "A front and a back sprite, MLP and transformer",
    "teacher": "A teacher of 4 to 8 modules, MLP and transformer",
}

KEYS = {
    "data.seed": key(0, "draws training sets, sprites and teachers, with the seed", low=0),
    "data.task": key("addition", "what combinations stand for",
                     choices=names_in("experiments.coverage.tasks", "TASKS")),
    "data.n_values": key((6, 8, 12, 16, 24), "values of each factor, or modules", low=4,
                       distinct=True),
    "data.base": key(16, "values where widths and graphs are compared", low=4),
    "data.factors": key((2,), "numbers of factors, at the fewest values", low=2, high=4,
                          distinct=True),
    "data.n_sizes": key(8, "sizes of the training set, at equal ratios", low=3,
                        high=64),
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
    "eval.fits": key(0.9, "training R2 below which a cell is reported as not fitted", high=1.0),
    "eval.other_thresholds": key((0.5, 0.95), "whose exponents are reported too", above=0, high=1,
                                 may_be_empty=True, items=float),
}  # fmt: skip

# What a task and an architecture change. The teacher draws new inputs at every step and needs more.
TASKS = {
    "addition": {"data": {"factors": (2, 3, 4)}},
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
    names = SOME.get((row, size)) or [name for name in parts if row in ("demo", name.split("_")[0])]
    declare_parts(config, {name: parts[name] for name in names})
    return config


def length(steps):
    """Training of so many steps, one evaluation at the end."""
    return {"train": {"steps": steps, "steps_per_call": steps // 10, "log_every": steps // 10}}


def every_part(steps, teacher_steps):
    """Both architectures on all tasks."""
    return {
        f"{task}_{name}": merged(
            length(teacher_steps if task == "teacher" else steps),
            changes,
            more,
            {"data": {"task": task}, "model": {"name": name}},
        )
        for task, changes in TASKS.items()
        for name, more in ARCHITECTURES.items()
    }


def full(config):
    """Five seeds of every part."""
    config.train.seeds = (0, 1, 2, 3, 4)
    return every_part(1500, 3000)


def laptop(config):
    """Three seeds; fewer values, sizes and widths. Row `teacher` trains the MLP alone, with five
    seeds: the transformer does not fit its table in 2,000 steps."""
    is_teacher = config.row == "teacher"
    config.train.seeds = tuple(range(5 if is_teacher else 3))
    config.data.update({"n_values": (6, 8, 12), "base": 12, "n_sizes": 5, "batch": 32})
    config.data.bridges = (1, 4, 16)
    config.model.widths = (16, 64)
    parts = every_part(500, 2000)
    for name, part in parts.items():
        if name.startswith("addition"):
            part["data"]["factors"] = (2, 3)
        elif name.startswith("teacher"):
            n_values = (4, 5, 6, 7) if is_teacher else (4, 5, 6)
            part["data"] |= {"n_values": n_values, "base": 6, "bridges": (1, 4)}
    return parts


def smoke(config):
    """Seconds: the whole path."""
    config.train.seeds = (0, 1)
    config.data.update({"n_values": (4, 6), "base": 6, "n_sizes": 3, "bridges": (1,), "batch": 8})
    config.model.widths = (4, 8)
    parts = every_part(20, 20)
    for name in ("teacher_mlp", "teacher_transformer"):
        parts[name]["data"] |= {"n_values": (4, 5), "base": 5, "bridges": (1,)}
    return parts


# Parts of rows and sizes that do not train both architectures.
SOME = {
    ("demo", "default"): ("addition_mlp", "addition_transformer", "bumps_mlp", "teacher_mlp"),
    ("demo", "smoke"): ("teacher_mlp",),
    ("teacher", "default"): ("teacher_mlp",),
}

# CPU time at the default size, in seconds.
SECONDS = {"demo": 190, "addition": 130, "bumps": 120, "sprites": 145, "teacher": 80}
TIMES = {
    "smoke": "seconds, mostly compiling",
    "fast": "one to three minutes on one H200, mostly compiling",
    "paper": "as fast",
}


def describe_rows():
    """One line per row for `--list`."""
    for name, doc in ROWS.items():
        times = {"default": f"{SECONDS[name]} s of CPU time"} | TIMES
        yield {"name": name, "doc": doc, "times": times, "expect": ""}
