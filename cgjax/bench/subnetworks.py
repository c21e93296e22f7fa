"""Speed of the subnetworks study.

All masks of one base in one program against one mask at a time; steps of bases and masks against
PyTorch; steps of a ResNet in both precisions; vision problems generated per second. Only the ratios
within one run matter.
"""

import importlib.util

import jax
import numpy as np

from cgjax import config as configs
from cgjax.bench.harness import ratios, seconds_per_step, table, torch_seconds
from cgjax.core import parallel
from cgjax.core.logging import say
from cgjax.experiments.subnetworks import bases, stages
from cgjax.experiments.subnetworks.search import training
from cgjax.experiments.subnetworks.vision import sets as vision

MASKS = 24  # of one base, as in a whole search
# title: sizes
NETWORKS = {
    "BERT of 2 layers of 64": {"model.hidden": 64, "model.layers": 2, "model.heads": 2},
    "BERT-small, 4 layers of 512": {"model.hidden": 512, "model.layers": 4, "model.heads": 8},
}
N_PROBLEMS = 200  # of each vision rule
# Sizes of the ResNet on a CPU, to show that it runs.
SMALL_RESNET = {"model.blocks": (1, 1), "model.widths": (4, 8), "data.image_size": 32}


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints a table for each network; batch and steps of 0 mean the backend's default."""
    on_cpu = jax.default_backend() == "cpu"
    batch, steps = batch or (16 if on_cpu else 64), steps or (2 if on_cpu else 50)
    n_masks = 4 if on_cpu else MASKS
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · batch {batch} · scan of {steps}")
    if not importlib.util.find_spec("torch"):
        say("torch is not installed: no comparison with PyTorch")
    for title, sizes in list(NETWORKS.items())[: 1 if on_cpu else None]:
        config = settings(sizes, batch)
        task = stages.task_of(config)
        base = bases.untrained(config, task)
        together = masks_step(config, task, base, n_masks, 0, steps)
        in_turn = masks_step(config, task, base, n_masks, 1, steps)
        alone = masks_step(config, task, base, 1, 0, steps)
        mask_times = {
            "in one program": together,
            "in one program, one at a time": in_turn,
            f"{n_masks} programs of one mask": n_masks * alone,
        }
        base_times = {"base": base_step(config, task, steps)}
        if importlib.util.find_spec("torch"):
            theirs = torch_steps(config, task, batch)
            for form, of_mask, of_base in zip(FORMS, theirs["masks"], theirs["base"]):
                mask_times[f"PyTorch, {form}"] = n_masks * of_mask
                base_times[f"PyTorch, {form}"] = of_base
        ratios(f"step of {n_masks} masks of one {title}", "ms", _in_ms(mask_times))
        ratios(f"step of a base, {title}", "ms", _in_ms(base_times))
    images(batch if on_cpu else 64, steps, SMALL_RESNET if on_cpu else {})
    rows = []
    for rule in vision.RULES:
        speed = vision.problems_per_second(rule, N_PROBLEMS if on_cpu else 4000, 64)
        rows.append((rule, f"{speed.per_second:.0f}", f"{speed.per_cpu_second:.0f}"))
    table("vision problems, 64 px", ("rule", "per second", "per CPU second"), rows)


FORMS = ("eager", "compiled")


def _in_ms(rows):
    return {name: 1e3 * seconds for name, seconds in rows.items()}


def images(batch: int, steps: int, sizes: dict) -> None:
    """Prints the times of a step of one mask and of one base of a ResNet, in both precisions."""
    times = {}
    for dtype in ("float32", "bfloat16"):
        config = settings({**sizes, "model.dtype": dtype}, batch, "number_contact")
        task = stages.task_of(config)
        base = bases.untrained(config, task)
        times[f"mask, {dtype}"] = masks_step(config, task, base, 1, 0, steps)
        times[f"base, {dtype}"] = base_step(config, task, steps)
    blocks = "+".join(map(str, config.model.blocks))
    title = (
        f"step of a ResNet of {blocks} bottlenecks, {config.data.image_size} px, {batch} problems"
    )
    ratios(title, "ms", _in_ms(times))


def settings(sizes: dict, batch: int, row: str = "joint"):
    """The config of a rule (default: a language rule) with one base and pre-registered masks."""
    config = configs.load(f"subnetworks:{row},fast")
    small = {
        "data.n_train": 4 * batch,
        "data.n_val": 8,
        "data.n_test": 8,
        "data.n_eval": 8,
        "data.batch": batch,
        "masks.batch": batch,
        "masks.n_draws": 0,
    }
    with config.unlocked():
        config.update_from_flattened_dict({**sizes, **small})
        config.train.seeds = (0,)
    return config


def base_step(config, task, steps: int) -> float:
    """Seconds of one update of one base."""
    in_steps = bases.in_steps(config, task)
    with in_steps.unlocked():
        return seconds_per_step(bases.experiment(config, task), in_steps, steps)


def masks_step(config, task, base, n: int, at_once: int, steps: int) -> float:
    """Seconds of one update of n masks of one base, half of them for each subroutine."""
    fixed = {"s0": 0.05, "lr": 1e-2, "layers": 0, "penalty": 1e-8}
    rows = [{"base": 0, "target": i % 2, **fixed, "seed": i} for i in range(n)]
    replicas = training.columns(base, rows)
    in_steps = training.in_steps(config, task)
    with in_steps.unlocked():
        in_steps.train.at_once = at_once
        return seconds_per_step(training.experiment(config, task, base, replicas), in_steps, steps)


def torch_steps(config, task, batch: int) -> dict:
    """{"base", "masks": seconds of one update of one network, eager and compiled}."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    model, ids = config.model, task.sets.table["ids"]
    layer = torch.nn.TransformerEncoderLayer(
        model.hidden,
        model.heads,
        4 * model.hidden,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
    )
    network = torch.nn.Sequential(
        torch.nn.Embedding(int(ids.max()) + 1, model.hidden),
        torch.nn.TransformerEncoder(layer, model.layers, enable_nested_tensor=False),
    ).to(device)
    rows = task.sets.rows["train"]["compositional"][:batch].ravel()
    x = torch.as_tensor(np.asarray(ids[rows], np.int64), device=device)
    labels = torch.full((batch,), 3, device=device)

    def odd_one_out(embedded):
        units = torch.nn.functional.normalize(embedded[:, 0], dim=-1).reshape(batch, 4, -1)
        logits = -torch.einsum("nid,nd->ni", units, units.sum(1))
        return torch.nn.functional.cross_entropy(logits, labels)

    def base_loss():
        return odd_one_out(network(x))

    weights = {
        name: w for name, w in network.named_parameters() if w.ndim > 1 and "0.weight" != name
    }
    scores = {name: torch.full_like(w, 0.05).requires_grad_() for name, w in weights.items()}

    def mask_loss():
        soft = {name: torch.sigmoid(s) for name, s in scores.items()}
        masked = {name: weights[name].detach() * m for name, m in soft.items()}
        embedded = torch.func.functional_call(network, masked, (x,))
        return odd_one_out(embedded) + 1e-8 * sum(m.sum() for m in soft.values())

    on_gpu = device == "cuda"
    base = torch_seconds(base_loss, torch.optim.Adam(network.parameters(), 1e-4), on_gpu)
    masks = torch_seconds(mask_loss, torch.optim.Adam(scores.values(), 1e-2), on_gpu)
    return {"base": base, "masks": masks}
