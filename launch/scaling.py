"""Expected strong and weak scaling of three jobs to 8 x 8 GPUs, from figures measured on one.

    python launch/scaling.py

Prints what was measured, what is assumed, then for 1, 8 and 64 GPUs (nodes of eight) the products,
bytes and collectives of each GPU and the expected time. Nothing here ran on more than one GPU: the
tables say where collectives, the host or too little work are expected to limit, not how fast
a cluster is. Strong: the same job on more GPUs. Weak: as many times the job as GPUs. Efficiency:
FLOP per GPU and second, relative to one GPU. Where a run lies on its GPUs follows the code:
`parallel.layout` for training, `ntk_plan.choose` for kernels.
"""

import heapq
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cgjax import report
from cgjax.analysis.ntk import plan as ntk_plan
from cgjax.bench.harness import table

DEVICES = (1, 8, 64)
NODE = 8
FLOAT = 4  # bytes


class Figure(NamedTuple):
    """A number, what it is, and where it comes from."""

    value: float
    what: str
    source: str


def _measured() -> dict[str, Figure]:
    """The record's times on one H200."""
    step = report.studies("sprites")["speed"]["step_ms"]
    ntk = report.studies("kernels")["speed"]["ntk_ms"]
    where = "one H200, cgjax/report/record/{}/speed.json"
    figures = {
        name: Figure(
            1e-3 * step[name],
            f"s a sprites step, {name}, batch 512, one seed, float32",
            where.format("sprites"),
        )
        for name in ("compositional", "monolithic")
    }
    pairs = "s for the ConvNet's NTK on 2,000 pairs of digits, "
    texts = {"ntk": ("highest", "float32"), "ntk_tf32": ("default", "products in TF32")}
    for name, (precision, text) in texts.items():
        figures[name] = Figure(1e-3 * ntk[precision], pairs + text, where.format("kernels"))
    return figures


MEASURED = _measured()
ASSUMED = {
    "nvlink": Figure(450e9, "bytes/s each way of a GPU to its node",
                     "vendor: NVLink of an H200, 900 GB/s both ways"),
    "nic": Figure(50e9, "bytes/s each way of a GPU's own network card",
                  "vendor: ConnectX-7, 400 Gb/s, one for each GPU of a DGX H200"),
    "reached": Figure(0.7, "of these rates that a large collective reaches", "a guess"),
    "latency": Figure(15e-6, "s of a collective within a node, however small", "a guess"),
    "latency_nodes": Figure(40e-6, "s of a collective over nodes, however small", "a guess"),
    "fixed": Figure(0.10e-3, "s of a sprites step that no smaller batch saves; the rest of it "
                    "goes with the rows, down to 8", "a guess: launches of small kernels"),
    "host": Figure(4e9, "bytes/s at which one process puts blocks into a kernel", "a guess"),
    "memory": Figure(70e9, "bytes of a GPU that an NTK may use", "vendor: half of 141 GB"),
    "spec_rate": Figure(4e19 / (100 * 3600), "FLOP/s of mask training, quick",
                        "an estimate: 4e19 FLOP of ResNet50 masks in about 100 hours"),
}  # fmt: skip

ASSUMED_TOO = (
    "times are of the work named: no compilation, evaluation, checkpoints, start or queue",
    "GPUs and nodes are alike, none fails, none waits for another but in collectives",
    "one all-reduce of all gradients ends a step, and nothing overlaps with a collective",
    "a backward pass is twice the forward one; the shared model with alpha, which was not timed, "
    "has the compositional one's rate",
    "an NTK of any size has the rate measured on 2,000 pairs; copies to the host overlap with it",
    "an NTK over nodes is collected whole on every host, which needs as much memory there",
    "a mask run uses one GPU, by itself, and goes back through the whole network",
    "no mask training was timed on a GPU: the grid is shown at two rates that it may lie between",
)


def measured(name: str) -> float:
    return MEASURED[name].value


def assumed(name: str) -> float:
    return ASSUMED[name].value


class Point(NamedTuple):
    """A job on so many GPUs; FLOP and bytes of a GPU, on average, over the whole job."""

    devices: int
    how: str
    work: float  # FLOP of the whole job that one GPU would need too
    flops: float
    sent: float  # bytes that it hands on in collectives
    collectives: str
    seconds: float  # expected


# --- collectives ----------------------------------------------------------------------------------


def ring_rate(devices: int) -> float:
    """Bytes/s along a ring; over nodes as many rings as network cards share the way out."""
    rate = assumed("nvlink")
    if devices > NODE:
        rate = min(rate, NODE * assumed("nic"))
    return rate * assumed("reached")


def latency(devices: int) -> float:
    return assumed("latency" if devices <= NODE else "latency_nodes")


def all_gather(size: float, devices: int) -> tuple[float, float]:
    """Bytes handed on and seconds until each device has all `size` bytes."""
    if devices == 1:
        return 0.0, 0.0
    sent = size * (devices - 1) / devices
    return sent, latency(devices) + sent / ring_rate(devices)


def all_reduce(size: float, devices: int) -> tuple[float, float]:
    """The same for a sum of `size` bytes: scattered sums, then gathered."""
    if devices == 1:
        return 0.0, 0.0
    sent = 2 * size * (devices - 1) / devices
    return sent, latency(devices) + sent / ring_rate(devices)


def makespan(seconds: Iterable[float], devices: int) -> float:
    """When the last of some independent runs ends: the longest first, each to the next free GPU."""
    free = [0.0] * devices
    for length in sorted(seconds, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + length)
    return max(free)


# --- the sprites table ----------------------------------------------------------------------------

BATCH, STEPS, SEEDS = 512, 392_000, 5  # as published: 2,000 epochs of 196 batches
ROWS = {"compositional": 9, "monolithic": 2, "shared, with alpha": 1}  # rows of the table
PARAMETERS = {"compositional": 2 * 277_475, "monolithic": 587_779, "shared, with alpha": 277_604}
# FLOP of one scene, forward, in the reordered form; backward is counted as two more.
FORWARD = {
    "compositional": 2 * 12_632_694,
    "monolithic": 27_573_979,
    "shared, with alpha": 2 * 13_963_895,
}


def step_flops(rows: float, kind: str = "compositional") -> float:
    return 3 * FORWARD[kind] * rows


def step_seconds(rows: float, kind: str = "compositional") -> float:
    """Of one GPU, without collectives."""
    timed = kind if kind in MEASURED else "compositional"
    per_row = (measured(timed) - assumed("fixed")) / BATCH
    return assumed("fixed") + rows * per_row * FORWARD[kind] / FORWARD[timed]


def sprites_run(devices: int, seeds: int = SEEDS, batch: int = BATCH) -> Point:
    """One compositional row as `fit` lays it out: gcd(seeds, devices) ways, then the batch."""
    over_seeds = math.gcd(seeds, devices)
    over_data = devices // over_seeds
    own_seeds, rows = seeds // over_seeds, batch / over_data
    size = own_seeds * FLOAT * PARAMETERS["compositional"]
    sent, waiting = all_reduce(size, over_data)
    return Point(
        devices,
        f"mesh ({over_seeds}, {over_data}): {seeds} seeds, batch {batch:,}",
        STEPS * step_flops(seeds * batch),
        STEPS * step_flops(own_seeds * rows),
        STEPS * sent,
        f"{STEPS:,} all-reduces of {_bytes(size)}" if over_data > 1 else "none",
        STEPS * (step_seconds(own_seeds * rows) + waiting),
    )


def sprites_table(devices: int, times: int = 1) -> Point:
    """All rows and seeds, each a run of its own on one GPU."""
    runs = [kind for kind, n in ROWS.items() for _ in range(n * SEEDS * times)]
    seconds = [STEPS * step_seconds(BATCH, kind) for kind in runs]
    work = sum(STEPS * step_flops(BATCH, kind) for kind in runs)
    return Point(
        devices,
        f"{len(runs):,} runs",
        work,
        work / devices,
        0.0,
        "none",
        makespan(seconds, devices),
    )


# --- the NTK of 50,000 images ---------------------------------------------------------------------

IMAGES = 50_000
# Of the ConvNet that was measured, on pairs of digits: one output.
CONVNET = ntk_plan.Facts(
    outputs=1,
    params=3_853_953,
    flops=193_752_773,
    activations=4_568_262,
    dense=((6145, 512), (513, 1024), (1025, 1)),
    spread=((1056, 51, 32), (800, 801, 32), (576, 801, 64), (384, 1601, 64)),
    rest=(32, 32, 32, 32, 64, 64, 64, 64),
    itemsize=FLOAT,
    leaves=(32, 1600, 32, 25_600, 64, 51_200, 64, 102_400, 512, 3_145_728, 1024, 524_288, 1, 1024,
            32, 32, 32, 32, 64, 64, 64, 64),
)  # fmt: skip
# Values of a sample that are gathered: products per position summed, and both factors elsewhere.
FACTORS = sum(k * m for _, k, m in CONVNET.spread) + sum(CONVNET.rest)
FACTORS += sum(k + m for k, m in CONVNET.dense)


def ntk_flops(n: int) -> float:
    """Each pair of samples once."""
    return ntk_plan.choose(CONVNET, n, None, "full", "structured", 1e18, 1, tile=1).flops


def ntk_rate(name: str = "ntk") -> float:
    """FLOP/s that was measured."""
    return ntk_flops(2000) / measured(name)


def ntk(devices: int, n: int = IMAGES) -> Point:
    """Tiles as planned; the right factors of each block are gathered, blocks go to the host."""
    kernel = ntk_plan.kernel_bytes(CONVNET, n, None, "full")  # collected on the host
    memory = assumed("memory") + kernel
    plan = ntk_plan.choose(CONVNET, n, None, "full", "structured", memory, devices, insist=True)
    down = math.ceil(n / plan.tile)
    blocks = down * (down + 1) // 2
    size = plan.tile * FACTORS * FLOAT
    sent, waiting = all_gather(size, devices)
    busy = plan.flops / devices / ntk_rate() + blocks * waiting
    collecting = n * n * FLOAT / assumed("host")  # beside the next block
    return Point(
        devices,
        f"{n:,} images, {_bytes(kernel)}: {blocks:,} blocks of {plan.tile:,}",
        ntk_flops(n),
        plan.flops / devices,
        blocks * sent,
        f"{blocks:,} all-gathers of {_bytes(size)}" if devices > 1 else "none",
        max(busy, collecting),
    )


# --- the published mask grid ----------------------------------------------------------------------

CONFIGURATIONS = 4 * 3 * 2  # initial values, sets of layers, learning rates; for each subroutine
EPOCHS = 90


class Masks(NamedTuple):
    """Searches of one kind: base models, FLOP of one input forward, inputs of an epoch."""

    bases: int
    forward: float
    inputs: int
    parameters: int  # that all layer sets together mask


# Three rules x three seeds of each vision model, two rules x two starts x three seeds of each
# language task; every problem has four inputs.
GRID = {
    "ResNet50, with and without SimCLR": Masks(18, 2_734_398_683, 4 * 10_000, 27_911_360),
    "WideResNet50": Masks(9, 7_566_067_675, 4 * 10_000, 71_222_464),
    "BERT-small, agreement": Masks(12, 406_642_576, 4 * 9_500, 12_582_912),
    "BERT-small, anaphora": Masks(12, 406_642_576, 4 * 2_500, 12_582_912),
}


def mask_run_flops(masks: Masks) -> float:
    """Forward and twice as much backward, as if no layer set left out a part of the backward."""
    return 3 * masks.forward * masks.inputs * EPOCHS


def mask_grid(devices: int, rate: float, times: int = 1) -> Point:
    """Both subroutines' searches of every base, each a run of its own on one GPU."""
    runs = [
        mask_run_flops(masks)
        for masks in GRID.values()
        for _ in range(masks.bases * 2 * CONFIGURATIONS * times)
    ]
    return Point(
        devices,
        f"{len(runs):,} runs at {rate / 1e12:.0f} TFLOP/s",
        sum(runs),
        sum(runs) / devices,
        0.0,
        "none",
        makespan([flops / rate for flops in runs], devices),
    )


def mask_bytes(masks: Masks) -> float:
    """Of one search: weights, mask, Adam's two moments."""
    return 4 * FLOAT * masks.parameters


# --- tables ---------------------------------------------------------------------------------------


def efficiency(point: Point, one: Point) -> float:
    return (point.work / point.devices / point.seconds) / (one.work / one.seconds)


def scaling(at: Callable[[int], Point]) -> list[tuple[Point, float]]:
    """Points and efficiencies at 1, 8 and 64 GPUs."""
    one = at(1)
    return [(point, efficiency(point, one)) for point in map(at, DEVICES)]


def jobs() -> dict[str, Callable[[int], Point]]:
    slow, quick = ntk_rate("ntk_tf32"), assumed("spec_rate")
    return {
        "sprites table, strong: one run on each GPU": sprites_table,
        "sprites table, weak: as many tables as GPUs": lambda d: sprites_table(d, d),
        "one sprites row, strong: one program on all GPUs": sprites_run,
        "one sprites row, weak in seeds: five for each GPU": lambda d: sprites_run(d, SEEDS * d),
        "one sprites row, weak in batch: 512 for each GPU": lambda d: sprites_run(
            d, SEEDS, BATCH * d
        ),
        "NTK of 50,000 images, strong": ntk,
        "NTK, weak: as many times the pairs": lambda d: ntk(d, round(IMAGES * math.sqrt(d))),
        "mask grid, strong, at the rate of the NTK in TF32": lambda d: mask_grid(d, slow),
        "mask grid, strong, at the quick rate": lambda d: mask_grid(d, quick),
        "mask grid, weak, at the rate of the NTK in TF32": lambda d: mask_grid(d, slow, d),
    }


def main() -> None:
    figures("measured on one GPU", MEASURED)
    figures("assumed", ASSUMED)
    print("\n".join(f"  {text}" for text in ASSUMED_TOO) + "\n")
    columns = ("GPUs", "how", "FLOP a GPU", "sent a GPU", "collectives", "expected", "efficiency")
    for title, at in jobs().items():
        rows = [
            (
                str(point.devices),
                point.how,
                f"{point.flops:.2g}",
                _bytes(point.sent),
                point.collectives,
                _time(point.seconds),
                f"{share:.0%}",
            )
            for point, share in scaling(at)
        ]
        table(title, columns, rows)
        print()
    rows = [(name, _bytes(mask_bytes(m)), f"{mask_run_flops(m):.2g}") for name, m in GRID.items()]
    table("one search of the mask grid", ("base", "state", "FLOP"), rows)


def figures(title: str, found: dict[str, Figure]) -> None:
    print(f"{title}:")
    for figure in found.values():
        print(f"  {figure.value:.3g} {figure.what} ({figure.source})")


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.3g} {unit}"
        size /= 1000


def _time(seconds: float) -> str:
    for limit, unit in ((120, "s"), (7200, "min"), (172_800, "h")):
        if seconds < limit:
            return f"{seconds / {'s': 1, 'min': 60, 'h': 3600}[unit]:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"


if __name__ == "__main__":
    main()
