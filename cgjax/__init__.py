"""When do neural networks compose what they have learned? Five theories, one JAX codebase."""

import pathlib


def load(workdir, part: str = ""):
    """Opens a finished run: `predict(params, inputs)`, `params` (first axis: seeds), `config`.

    part: the model of a run that trained several, e.g. "compositional".

    >>> run = cgjax.load("runs/sprites/demo", "compositional")
    >>> params = jax.tree.map(lambda leaf: leaf[0], run.params)
    >>> run.predict(params, latents).shape
    (8, 64, 64, 3)
    """
    from cgjax import config, experiments
    from cgjax.core.errors import BadInput

    workdir = pathlib.Path(workdir)
    if not (workdir / "config.json").exists():
        raise BadInput(f"'{workdir}' holds no run: no config.json there")
    settings = config.from_json((workdir / "config.json").read_text())
    return experiments.family(settings.family).load(settings, workdir, part)
