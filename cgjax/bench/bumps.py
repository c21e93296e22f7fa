"""Speed of the bumps study: seeds in one program, seeds one at a time, the networks in PyTorch.

Absolute times are printed too, but only the ratios within one run matter.
"""

import importlib.util

import jax

from cgjax import config as configs
from cgjax.bench.harness import ratios, seconds_per_step, torch_seconds
from cgjax.core import parallel
from cgjax.core.logging import say
from cgjax.experiments.bumps import sets, training

SEEDS = 5
# title: (part of the table, sizes on a CPU)
NETWORKS = {
    "MLP, 3 layers of 256": ("mlp", {}),
    "CNN, 8 layers of 64 channels": ("cnn", {"hidden": 8, "n_hidden": 4}),
    "embedding network": ("embed", {}),
    "pixel-token MLP, 4 layers of 256": ("pixel_mlp", {"features": 16, "depth": 2}),
}


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints a table for each network; batch and steps of 0 mean the backend's default."""
    on_cpu = jax.default_backend() == "cpu"
    batch, steps = batch or 32, steps or (2 if on_cpu else 200)
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · batch {batch} · scan of {steps}")
    if not importlib.util.find_spec("torch"):
        say("torch is not installed: no comparison with PyTorch")
    for title, (part, small) in NETWORKS.items():
        sizes = small if on_cpu else {}
        setup = (part, sizes, batch, steps)
        rows = {
            f"{SEEDS} seeds in one program": SEEDS * ours(*setup, SEEDS, 0),
            f"{SEEDS} seeds in one program, one at a time": SEEDS * ours(*setup, SEEDS, 1),
            f"{SEEDS} programs of one seed": SEEDS * ours(*setup, 1, 0),
        }
        if importlib.util.find_spec("torch") and part in ("mlp", "cnn"):
            eager, compiled = torch_steps(part, sizes, batch)
            rows |= {"PyTorch, eager": SEEDS * eager, "torch.compile": SEEDS * compiled}
        rows = {name: 1e3 * seconds for name, seconds in rows.items()}
        ratios(f"train step of {title}, {SEEDS} seeds{' (small)' if sizes else ''}", "ms", rows)


def settings(part: str, sizes: dict, batch: int, n_seeds: int):
    """The config of one cell of the table: the donut, no stripes, no penalty."""
    config = configs.load("bumps:table,paper")
    config = dict(configs.parts(config))[part]
    with config.unlocked():
        config.train.seeds = tuple(range(n_seeds))
        config.data.update({"regions": config.data.regions[:1], "copies": (1,), "batch": batch})
        config.model[part].update(sizes)
        if "reg" in config:
            config.reg.update({name: (0.0,) for name in training.PENALTIES})
    return config


def ours(part, sizes, batch, steps, n_seeds, at_once) -> float:
    """Seconds per step and seed of our training loop."""
    config = settings(part, sizes, batch, n_seeds)
    with config.unlocked():
        config.train.at_once = at_once
        experiment = training.experiment(config, sets.make(config))
        return seconds_per_step(experiment, config, steps) / n_seeds


def torch_steps(part: str, sizes: dict, batch: int) -> tuple[float, float]:
    """Seconds per step of one network in PyTorch: eager and torch.compile."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    model = settings(part, sizes, batch, 1).model[part]
    n = 28
    if part == "mlp":
        widths = [2 * n, *[model.width] * model.n_hidden]
        body = []
        for n_in, n_out in zip(widths, widths[1:]):
            body += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
        body += [torch.nn.Linear(model.width, n * n), torch.nn.Unflatten(1, (n, n))]
        network = torch.nn.Sequential(*body)
    else:
        h, up = model.hidden, torch.nn.ConvTranspose2d
        body = [torch.nn.Unflatten(1, (2 * n, 1, 1)), up(2 * n, h, 7), torch.nn.ReLU()]
        for i in range(model.n_hidden):
            body += [up(h, h, 4, 2, 1) if i < 2 else up(h, h, 3, 1, 1), torch.nn.ReLU()]
        network = torch.nn.Sequential(*body, up(h, 1, 3, 1, 1), torch.nn.Flatten(1, 2))
    network = network.to(device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
    x = torch.rand(batch, 2 * n, device=device)
    target = torch.rand(batch, n, n, device=device)

    def loss():
        return ((network(x) - target) ** 2).mean()

    return torch_seconds(loss, optimiser, device == "cuda")
