"""Training steps of the image networks at the published sizes, with one seed and with several,
against PyTorch.

Our steps draw, index, crop and compose their images; PyTorch's steps reuse one batch that is
already on the device. So the ratios are lower bounds.
"""

import concurrent.futures
import importlib.util
import itertools
import os

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.bench.harness import Asked, answers, fastest, step_call, table, torch_calls
from cgjax.core.logging import say
from cgjax.experiments.kernels.images import networks

ROWS = {
    "convnet": "addition_mnist",
    "resnet": "addition_cifar_resnet",
    "vit": "addition_cifar_vit",
}
SEEDS = 4
# The ViT, which has no Pallas kernels, takes longest to compile: only one precision.
DTYPES = {
    "convnet": ("float32", "bfloat16"),
    "resnet": ("float32", "bfloat16"),
    "vit": ("float32",),
}
TORCH = ("eager", "compiled")
# Synthetic images: the time of a step does not depend on their content.
MADE_UP = {"data.synthetic": 2000, "data.n_pool": 100, "data.n_total": 4000, "data.n_val": 2}
SMALL = {"data.batch": 4, "data.n_total": 64}


def run(steps: int = 0) -> None:
    """Prints a table for each network; on a CPU networks are small, to show that it runs."""
    if not importlib.util.find_spec("torch"):
        say("torch is not installed: no comparison with PyTorch")
    if jax.default_backend() == "cpu":
        compare(tuple(ROWS), "smoke", SMALL, steps or 2, dtypes=dict.fromkeys(ROWS, ("float32",)))
    else:
        compare(tuple(ROWS), "fast", {}, steps or 100)


def compare(nets: tuple, size: str, changes: dict, steps: int, seeds=SEEDS, dtypes=DTYPES) -> None:
    """Prints a table for each network: ours by precision with one seed and several, then PyTorch.

    All programs are compiled in parallel before the first one is timed. On a CPU, PyTorch's are
    compiled one after the other.
    """
    theirs = tuple(itertools.product(nets, TORCH)) if importlib.util.find_spec("torch") else ()
    parallel = () if jax.default_backend() == "cpu" else theirs  # a CPU has too few cores
    begun = {key: _begin(*key, size, changes) for key in parallel}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        ours = {
            (net, dtype, n): pool.submit(compiled, net, dtype, n, size, changes, steps)
            for net in nets
            for dtype, n in itertools.product(dtypes[net], (1, seeds))
        }
    first = {key: process.answer() for key, process in begun.items()}
    for net in nets:
        times = {
            f"{dtype}, {_seeds(n)}": _timed(ours[net, dtype, n], steps * n)
            for dtype, n in itertools.product(dtypes[net], (1, seeds))
        }
        for key in theirs:
            if key[0] == net:
                process = begun.get(key) or _begin(*key, size, changes)
                times[f"PyTorch, {key[1]}, TF32"] = _time_again(process, first.get(key))
        rows = [_row(name, t, next(iter(times.values()))) for name, t in times.items()]
        config = settings(net, size, changes)
        columns = ("form", "ms per step and seed", "one seed of ours is faster by")
        table(f"{net}: train step, batch {config.data.batch}, {shape(config)}", columns, rows)


def _timed(call: concurrent.futures.Future, n: int) -> float | str:
    """Seconds per step of a call of n steps, or the first line of the error."""
    try:
        return fastest(call.result()) / n
    except jax.errors.JaxRuntimeError as error:
        return str(error).splitlines()[0][:60]


def _begin(*arguments) -> Asked:
    """Starts a process with `torch_worker` and these arguments."""
    code = "from cgjax.bench import images; images.torch_worker{!r}"
    # The process uses JAX only to compose the batch.
    process = Asked(code.format(arguments), {"JAX_PLATFORMS": "cpu"})
    process.ask()
    return process


def _time_again(process: Asked, answer: dict | str | None) -> float | str:
    """Seconds per step, timed while no program compiles; or a text that says why there are none.

    answer: the first one, if it was read already.
    """
    answer = process.answer() if answer is None else answer
    if isinstance(answer, dict):
        process.ask()
        answer = process.answer()
    process.end()
    return answer["seconds"] if isinstance(answer, dict) else answer


def _row(name: str, t: float | str, ours: float | str) -> tuple:
    if isinstance(t, str):
        return name, t, ""
    return name, f"{1e3 * t:.3f}", "" if isinstance(ours, str) else f"{t / ours:.2f} x"


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds in one program"


def settings(net: str, size: str, changes: dict, seeds: int = 1):
    """The config of the network's addition row, with synthetic images."""
    config = configs.load(f"kernels:{ROWS[net]},{size}")
    with config.unlocked():
        config.update_from_flattened_dict(MADE_UP | changes)
        config.train.seeds = tuple(range(seeds))
    return config


def compiled(net: str, dtype: str, seeds: int, size: str, changes: dict, steps: int):
    """The training call of all seeds together: a function without arguments."""
    config = settings(net, size, changes | {"model.dtype": dtype}, seeds)
    shown = networks.load(config, config.data.tasks[0], config.data.distances[0])
    in_steps = networks.settings(config, shown)
    with in_steps.unlocked():
        return step_call(networks.build(in_steps, shown), in_steps, steps)


def shape(config) -> str:
    """The shape of the network's input for one sample, as text."""
    return " x ".join(map(str, batch(config).shape[1:]))


def batch(config) -> jax.Array:
    """A training batch [B, H, W, c] of the first seed."""
    shown = networks.load(config, config.data.tasks[0], config.data.distances[0])
    samples = shown.sets[0].train.images[: config.data.batch]
    return networks.show(shown, jnp.asarray(shown.pixels), samples)


# --- the same networks in PyTorch -----------------------------------------------------------------


def torch_worker(net: str, form: str, size: str, changes: dict) -> None:
    """Runs in a separate process: answers with seconds per step; form: one of TORCH."""
    call, steps = torch_steps(settings(net, size, changes))[form]
    answers(lambda: {"seconds": fastest(call) / steps})


def torch_steps(config) -> dict:
    """{form of TORCH: (function that makes training steps, number of steps)}."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    x = torch.as_tensor(np.moveaxis(np.asarray(batch(config)), -1, 1).copy(), device=device)
    network = torch_network(config, x.shape[1:]).to(device)
    y = torch.zeros(len(x), device=device)
    name, optimisers = config.optim.optimiser, {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    options = {"momentum": 0.9} if name == "sgd" else {}
    optimiser = optimisers[name](network.parameters(), config.optim.lr, **options)

    def loss():
        return torch.mean((network(x)[:, 0] - y) ** 2)

    calls, steps = torch_calls(loss, optimiser, device == "cuda")
    return {form: (call, steps) for form, call in zip(TORCH, calls)}


def torch_network(config, shape: tuple[int, int, int]):
    """The row's network on images [c, H, W]: [B, c, H, W] -> [B, 1]."""
    sizes = config.model[config.model.net]
    return {"convnet": torch_convnet, "resnet": torch_resnet, "vit": torch_vit}[config.model.net](
        shape, **{name: sizes[name] for name in sizes}
    )


def torch_convnet(shape, channels, hidden):
    """`nets.conv.ConvNet` in PyTorch."""
    from torch import nn

    read, height, width = shape
    layers = []
    for out in channels:
        layers += [nn.Conv2d(read, out, 5), nn.ReLU(), nn.BatchNorm2d(out)]
        read, height, width = out, height - 4, width - 4
    layers += [nn.MaxPool2d(2), nn.Flatten()]
    widths = (read * (height // 2) * (width // 2), *hidden, 1)
    for inside, out in zip(widths, widths[1:]):
        layers += [nn.Linear(inside, out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def torch_resnet(shape, channels):
    """`nets.resnet.ResNet` in PyTorch."""
    from torch import nn

    def conv_norm(read, out, size, stride):
        conv = nn.Conv2d(read, out, size, stride, size // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(out))

    class Block(nn.Module):
        def __init__(self, read, out, stride):
            super().__init__()
            self.first, self.second = conv_norm(read, out, 3, stride), conv_norm(out, out, 3, 1)
            same = stride == 1 and read == out
            self.shortcut = nn.Identity() if same else conv_norm(read, out, 1, stride)

        def forward(self, x):
            y = self.second(nn.functional.relu(self.first(x)))
            return nn.functional.relu(y + self.shortcut(x))

    layers, read = [conv_norm(shape[0], channels[0], 3, 1), nn.ReLU()], channels[0]
    for stage, out in enumerate(channels):
        layers += [Block(read, out, 2 if stage else 1), Block(out, out, 1)]
        read = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(read, 1))


def torch_vit(shape, dim, depth, heads, head_dim, mlp_dim, patch: int = 8, dropout: float = 0.1):
    """`nets.vit.ViT` in PyTorch."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            inner = heads * head_dim
            self.norm = nn.LayerNorm(dim)
            self.qkv, self.out = nn.Linear(dim, 3 * inner, bias=False), nn.Linear(inner, dim)
            self.mlp = nn.Sequential(
                nn.LayerNorm(dim),
                nn.Linear(dim, mlp_dim),
                nn.GELU(),
                nn.Dropout(dropout),
                nn.Linear(mlp_dim, dim),
                nn.Dropout(dropout),
            )

        def forward(self, x):
            qkv = self.qkv(self.norm(x)).unflatten(-1, (3, heads, head_dim)).transpose(1, 3)
            mixed = nn.functional.scaled_dot_product_attention(*qkv.unbind(2)).transpose(1, 2)
            x = x + nn.functional.dropout(self.out(mixed.flatten(2)), dropout)
            return x + self.mlp(x)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Conv2d(shape[0], dim, patch, patch)
            n_tokens = 1 + (shape[1] // patch) * (shape[2] // patch)
            self.first = nn.Parameter(torch.randn(1, 1, dim))
            self.positions = nn.Parameter(torch.randn(1, n_tokens, dim))
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1))

        def forward(self, x):
            tokens = self.embedding(x).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.first.expand(len(x), -1, -1), tokens], 1) + self.positions
            return self.head(self.blocks(nn.functional.dropout(tokens, dropout))[:, 0])

    return Network()
