"""When do neural networks compose what they have learned? Five theories, one JAX codebase."""

import numbers
import os
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # JAX takes a second to import: most commands do without
    from cgjax.core.checkpoint import Loaded

__version__ = "0.1.0"  # as in pyproject.toml


def load(workdir: str | os.PathLike, part: str = "", step: int | str | None = None) -> "Loaded":
    """Opens a finished run: `predict(params, inputs)`, `params`, `config` and `step`.

    The first axis of `params` are the seeds; `predict` takes the parameters of one of them. `step`
    is that of each seed's checkpoint.

    part: the model of a run that trained several, e.g. "compositional". step: "latest" opens a run
    that is not finished; a number opens one of the steps in `checkpoint.keep`. Loading takes no
    lock, trains nothing and writes nothing.

    ```python
    run = cgjax.load("runs/sprites/demo", "compositional")
    params = jax.tree.map(lambda leaf: leaf[0], run.params)  # the first seed
    images = run.predict(params, latents)  # [n, 10] -> [n, 64, 64, 3]
    ```
    """
    from cgjax import experiments
    from cgjax.config.ownership import check_unchanged, read_config
    from cgjax.core.errors import BadInput

    workdir = pathlib.Path(workdir)
    if not (workdir / "config.json").exists():
        raise BadInput(f"'{workdir}' holds no run: no config.json there")
    if not (step is None or isinstance(step, str) and step == "latest"):
        if isinstance(step, bool) or not isinstance(step, numbers.Integral) or step < 0:
            raise BadInput(f'step must be None, "latest" or a number, not {step!r}')
        step = int(step)
    config = read_config(workdir)
    check_unchanged(workdir, config)
    return experiments.family(config.family).load(config, workdir, part, step)
