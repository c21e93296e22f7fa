"""Tasks of vision: problems from the generator's cache, and networks that embed their images."""

import re

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.experiments.subnetworks import tasks
from cgjax.experiments.subnetworks.vision import sets as vision
from cgjax.nets.resnet import StagedResNet
from cgjax.nets.vit import VisionTransformer

RULES = tuple(name.replace("-", "_") for name in vision.RULES)
LETTERS = "ab"  # the generator's names for a rule's first and second subroutine
# Kind of block, and width factor inside bottlenecks.
RESNETS = {
    "resnet18": ("basic", 1),
    "resnet50": ("bottleneck", 1),
    "wideresnet50": ("bottleneck", 2),
}
NETS = (*RESNETS, "vit")
STARTS = ("scratch", "random", "simclr")
HEAD = 128
PLACE = re.compile(r"^(stem|stage_(\d+)|layer_(\d+)|head)/.*kernel$")


def subroutines(rule: str) -> tuple[str, str]:
    """The subroutines of a rule, in the generator's order."""
    return vision.RULES[rule.replace("_", "-")].words


def layer_of(name: str) -> int | None:
    """Stem 0, stages from 1 on, the head last (99); None for norms and biases (never masked)."""
    match = PLACE.match(name)
    if not match:
        return None
    number = match[2] or match[3]
    return int(number) if number else (0 if match[1] == "stem" else 99)


def network(config):
    """The row's network: images [B, H, W, 3] -> [B, 128]."""
    model, dtype = config.model, tasks.DTYPES[config.model.dtype]
    if model.arch == "vit":
        return VisionTransformer(
            image=config.data.image_size,
            patch=model.patch,
            hidden=model.hidden,
            layers=model.layers,
            heads=model.heads,
            intermediate=4 * model.hidden,
            head=HEAD,
            dtype=dtype,
        )
    block, factor = RESNETS[model.arch]
    return StagedResNet(
        stage_sizes=tuple(model.blocks),
        widths=tuple(model.widths),
        block=block,
        width_factor=factor,
        head=HEAD,
        form=model.form,
        dtype=dtype,
    )


def drawn(config, part: str, name: str, n: int):
    """n problems of a set, read from the cache or generated."""
    options = vision.Options(config.data.balanced, config.data.balanced)
    which = name if name == "compositional" else f"{name[:-1]}{LETTERS[int(name[-1])]}"
    return vision.load(
        config.data.rule.replace("_", "-"),
        part,
        which,
        n,
        config.data.image_size,
        config.data.seed,
        options=options,
    )


def of_rule(config) -> tasks.Sets:
    """All sets of a rule; only images that some problem shows are generated."""
    names = subroutines(config.data.rule)
    loaded, rows, start = [], {part: {} for part in tasks.PARTS}, 0
    for name, wanted in tasks.sizes(config, len(names)).items():
        for part, n in wanted.items():
            rows[part][name] = np.arange(start, start + 4 * n, dtype=np.int32).reshape(n, 4)
            start += 4 * n
            if n:
                loaded.append(drawn(config, part, name, n))
    maps = np.concatenate(
        [part_set.maps.reshape(-1, *part_set.maps.shape[2:]) for part_set in loaded]
    )
    palettes = np.concatenate(
        [part_set.palettes.reshape(-1, *part_set.palettes.shape[2:]) for part_set in loaded]
    )
    return tasks.Sets(names, {"maps": maps, "palettes": palettes}, rows)


def task(config, start=None) -> tasks.Task:
    """A rule about images; start: pretrained weights, except the head, which is random."""
    net, size = network(config), config.data.image_size

    def init(key):
        params = net.init(key, jnp.zeros((1, size, size, 3)))["params"]
        if start is None:
            return params
        return {
            name: params[name] if name == "head" else jax.tree.map(jnp.asarray, start[name])
            for name in params
        }

    def embed(params, inputs):
        images = vision.images(inputs["maps"], inputs["palettes"])
        return net.apply({"params": params}, images).astype(jnp.float32)

    return tasks.Task(of_rule(config), init, embed, layer_of, tasks.DTYPES[config.model.dtype])
