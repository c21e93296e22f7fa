"""Speed of the sprites study: the train step against its direct form and PyTorch, rendering
against a loop over Pillow's polygons.

Absolute times are printed too, but only the ratios within one run matter.
"""

import importlib.util
import math

import jax
import numpy as np

from cgjax import config as configs
from cgjax.bench.harness import fastest, ratios, seconds_per_step, torch_seconds
from cgjax.core import parallel
from cgjax.core.logging import say
from cgjax.experiments.sprites import models, scenes, sets, torch_peer
from cgjax.experiments.sprites import run as sprites

SEEDS = 5  # as in the paper


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints both tables; batch and steps of 0 mean the backend's default."""
    on_cpu = jax.default_backend() == "cpu"
    batch, steps = batch or (64 if on_cpu else 512), steps or (2 if on_cpu else 1000)
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · batch {batch} · scan of {steps}")
    ratios("train step, compositional model", "ms per step", train_steps(batch, steps))
    ratios("render 64 x 64 RGB uint8", "µs per sprite", rendering(1024 if on_cpu else 1_000_000))


# --- training -------------------------------------------------------------------------------------


def train_steps(batch: int, steps: int) -> dict:
    """ms per optimiser step: gather, forward, backward, AdamW, as the loop runs them.

    Each is printed as soon as it is timed, so that an interrupted benchmark shows it.
    """
    rows = {}

    def add(name, seconds):
        rows[name] = 1e3 * seconds
        say(f"{name}: {rows[name]:.3f} ms")

    add("ours", jax_step(batch, steps, "auto", "float32"))
    if jax.default_backend() != "cpu":
        add("ours, bfloat16 activations", jax_step(batch, steps, "auto", "bfloat16"))
        several = jax_step(batch, steps, "auto", "float32", range(SEEDS))
        add(f"ours, {SEEDS} seeds at once, per seed", several / SEEDS)
    add("upsample, then convolve", jax_step(batch, steps, "direct", "float32"))
    if importlib.util.find_spec("torch"):
        eager, compiled = torch_steps(batch)
        add("PyTorch, eager", eager)
        add("torch.compile", compiled)
    else:
        say("torch is not installed: no comparison with PyTorch")
    return rows


def jax_step(batch: int, steps: int, form: str, dtype: str, seeds=(0,)) -> float:
    """Seconds per step of all seeds of the published compositional model, in the loop's call."""
    config = configs.load("sprites:orthogonal_compositional,paper")
    config.train.seeds = tuple(seeds)
    config.data.update({"n_train": 20_000, "batch": batch})
    config.eval.n = 1000
    config.model.update({"form": form, "dtype": dtype})
    model = models.build(config, "compositional")
    experiment = sprites.experiment(config, model, sets.make(config))
    return seconds_per_step(experiment, config, steps)


def torch_steps(batch: int) -> tuple[float, float]:
    """Seconds per step of the same two decoders in PyTorch: eager and torch.compile."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")

    slots = torch.nn.ModuleList([torch_peer.decoder(), torch_peer.decoder()]).to(device)
    optimiser = torch.optim.AdamW(slots.parameters(), lr=1e-3, weight_decay=1e-5)
    z = torch.rand(batch, 10, device=device)
    target = torch.rand(batch, 3, 64, 64, device=device)
    loss = torch_peer.loss_fn(slots)
    return torch_seconds(lambda: loss(z, target), optimiser, device == "cuda")


# --- rendering ------------------------------------------------------------------------------------


def rendering(n: int) -> dict:
    """µs per sprite: our renderer in calls of n sprites, and Pillow polygons in a loop on one core.

    On a CPU, calls with larger n would measure how fast the system allocates memory.
    """
    raw = jax.random.uniform(jax.random.key(0), (n, 5))
    scaled = scenes.scale_latents(raw)
    rows = {"ours": 1e6 * fastest(lambda: scenes.render_u8(scaled).block_until_ready()) / n}
    if importlib.util.find_spec("PIL"):
        few = np.asarray(scaled[:1024], np.float64)
        rows["Pillow polygon loop, one core"] = 1e6 * fastest(lambda: pillow_loop(few)) / len(few)
    else:
        say("Pillow is not installed: no comparison for rendering")
    return rows


def pillow_loop(scaled: np.ndarray, size: int = 64) -> np.ndarray:
    """Draws one sprite at a time: vertices, polygon, flip; the colour is constant."""
    from PIL import Image, ImageDraw

    shapes = []
    for n, start in ((3, math.pi / 2), (4, math.pi / 4), (30, 0.0)):
        angles = start + 2 * math.pi * np.arange(n) / n
        radius = 1 / math.sqrt(n * math.sin(math.pi / n) * math.cos(math.pi / n))
        shapes.append(radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    images = np.empty((len(scaled), size, size, 3), np.uint8)
    for i, (x, y, shape, scale, _) in enumerate(scaled):
        vertices = (size * (scale * shapes[int(shape)] + (x, y))).astype(int)
        canvas = Image.new("RGB", (size, size))
        ImageDraw.Draw(canvas).polygon([tuple(v) for v in vertices.tolist()], fill=(255, 128, 0))
        images[i] = np.asarray(canvas)[::-1]
    return images
