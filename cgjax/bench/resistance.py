"""Speed of the resistance study.

On pairs of digits: all seeds in one program against one seed alone. On SCAN: our network against
the same network in PyTorch. Absolute times are printed too, but only the ratios within one run
matter. On a CPU networks, batches and seeds are small, to show that the benchmark runs.
"""

import importlib.util

import jax
import numpy as np

from cgjax import config as configs
from cgjax.bench.harness import seconds_per_step, table, torch_seconds
from cgjax.core import parallel
from cgjax.core.logging import say
from cgjax.experiments.resistance import pairs, scan
from cgjax.nets.rnn import PAD, previous

FORMS = ("direct", "patches")
AT_ONCE = (1, 4, 20)
SEEDS = 20
SCAN_SEEDS = 5
# Sizes for two minutes on two CPU cores, most of it compilation.
SMALL_DIGITS = {"data.batch": 4, "model.hidden": 4}
SMALL_SCAN = {"data.batch": 8, "model.embedding": 4, "model.encoder": 2}


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints a table for digits and one for SCAN; 0 means the default."""
    on_cpu = jax.default_backend() == "cpu"
    steps = steps or (2 if on_cpu else 200)
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · scan of {steps}")
    given = {"data.batch": batch} if batch else {}
    if on_cpu:
        digits(SMALL_DIGITS | given, steps, 4, (1, 2, 4))
        sentences(SMALL_SCAN | given, steps, 2)
    else:
        digits(given, steps, SEEDS, AT_ONCE)
        sentences(given, steps, SCAN_SEEDS)


# --- pairs of digits ------------------------------------------------------------------------------


def digits(changes: dict, steps: int, n_seeds: int, at_once: tuple, forms=FORMS) -> None:
    """Prints the throughput per seed with n_seeds in one program, over that of one seed alone."""
    alone = {form: digit_seconds(changes, steps, 1, 0, form) for form in forms}
    quickest, rows = min(alone.values()), []
    for form in forms:
        rows.append(digit_row(form, "one seed alone", alone[form], alone[form], quickest))
        for n in at_once:
            per_seed = digit_seconds(changes, steps, n_seeds, n, form) / n_seeds
            label = f"{n_seeds} seeds, {n} at once"
            rows.append(digit_row(form, label, per_seed, alone[form], quickest))
    columns = ("convolutions", "ms per step and seed", "vs this form alone", "vs fastest alone")
    title = f"digits: throughput per seed, batch {digit_settings(changes, 1, 0, 'auto').data.batch}"
    table(title + _small(changes), columns, rows)


def digit_row(form: str, label: str, seconds: float, alone: float, quickest: float) -> tuple:
    """A line of the table; alone, quickest: seconds of one seed alone, in this and any form."""
    cells = f"{1e3 * seconds:.3f}", f"{alone / seconds:.2f} x", f"{quickest / seconds:.2f} x"
    return f"{form}: {label}", *cells


def digit_settings(changes: dict, n_seeds: int, at_once: int, form: str):
    """The config of Figure 3a's network and training in setting A."""
    config = _settings("mnist", changes, n_seeds)
    with config.unlocked():
        # The time of a step does not depend on the content of the images.
        config.data.update({"widths": (2,), "digits": "synthetic"})
        config.model.form = form
        config.train.at_once = at_once
    return config


def digit_seconds(changes: dict, steps: int, n_seeds: int, at_once: int, form: str) -> float:
    """Seconds per step of all seeds together."""
    config = digit_settings(changes, n_seeds, at_once, form)
    return seconds_per_step(pairs.experiment(config), config, steps)


# --- SCAN -----------------------------------------------------------------------------------------


def sentences(changes: dict, steps: int, n_seeds: int) -> None:
    """Prints training tokens per second, ours and PyTorch's; tokens are action symbols and END."""
    seconds = {"ours, one seed": scan_seconds(changes, steps, 1)}
    seconds[f"ours, {n_seeds} seeds in one program, per seed"] = (
        scan_seconds(changes, steps, n_seeds) / n_seeds
    )
    config = _settings("scan", changes, 1)
    batch = lines(config)
    if importlib.util.find_spec("torch"):
        eager, compiled = torch_steps(config, batch)
        seconds |= {"PyTorch, eager": eager, "torch.compile": compiled}
    else:
        say("torch is not installed: no comparison with PyTorch")
    tokens, ours = int(np.sum(batch.actions != PAD)), seconds["ours, one seed"]
    rows = [
        (name, f"{1e3 * per_step:.3f}", f"{tokens / per_step:,.0f}", f"{per_step / ours:.2f} x")
        for name, per_step in seconds.items()
    ]
    columns = ("form", "ms per step", "tokens/s", "ours, one seed, is faster by")
    title = f"SCAN: train step of {len(batch.commands)} lines, {tokens:,} tokens"
    table(title + _small(changes), columns, rows)


def lines(config) -> scan.Lines:
    """A batch of training lines, evenly spaced."""
    every = scan.lines(config)["train"]
    rows = np.linspace(0, len(every.commands) - 1, config.data.batch).astype(int)
    return jax.tree.map(lambda leaf: leaf[rows], every)


def scan_seconds(changes: dict, steps: int, n_seeds: int) -> float:
    """Seconds per step of all seeds together, setting A."""
    config = _settings("scan", changes, n_seeds)
    with config.unlocked():
        config.data.settings = ("A",)
    return seconds_per_step(scan.experiment(config), config, steps)


def torch_steps(config, batch: scan.Lines) -> tuple[float, float]:
    """Seconds per step of the same network in PyTorch: eager and torch.compile.

    PyTorch reuses one batch and has a constant learning rate; ours draws a batch at every step.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    network = torch_network(config.model.embedding, config.model.encoder).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=config.optim.lr, eps=1e-7)
    symbols = (batch.commands, previous(batch.actions, scan.N_SYMBOLS), batch.actions)
    commands, before, actions = (
        torch.tensor(np.array(rows, np.int64), device=device) for rows in symbols
    )
    lengths = (commands != PAD).sum(dim=1).cpu()  # pack_padded_sequence needs them on the host

    def loss():
        logits = network(commands, lengths, before)
        return torch.nn.functional.cross_entropy(
            logits.reshape(-1, scan.N_SYMBOLS), actions.reshape(-1), ignore_index=PAD
        )

    return torch_seconds(loss, optimiser, device == "cuda")


def torch_network(embedding: int, encoder: int):
    """`nets.rnn.Seq2Seq` in PyTorch: (commands [B, T], lengths [B] on the host, previous symbols
    [B, L]) -> logits [B, L, symbols].

    PyTorch's LSTMs have two biases, ours have one. `torch.compile` cannot compile LSTMs, and then
    does not compile the code around them either: so they are in `recur`, which it skips.
    """
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            decoder = 4 * encoder
            self.words = nn.Embedding(scan.N_WORDS, embedding)
            self.symbols = nn.Embedding(scan.N_SYMBOLS + 1, embedding)
            self.ahead = nn.LSTM(embedding, encoder, batch_first=True)
            self.back = nn.LSTM(embedding, encoder, batch_first=True)
            self.decoder = nn.LSTM(embedding, decoder, batch_first=True)
            self.attention = nn.Linear(decoder, 2 * encoder, bias=False)
            self.attended = nn.Linear(decoder + 2 * encoder, decoder, bias=False)
            self.readout = nn.Linear(decoder, scan.N_SYMBOLS)

        def forward(self, commands, lengths, before):
            states, queries = self.recur(commands, lengths, before)
            scores = self.attention(queries) @ states.transpose(1, 2)
            is_pad = (commands == PAD).unsqueeze(1)
            scores = scores.masked_fill(is_pad, torch.finfo(scores.dtype).min)
            context = torch.softmax(scores, dim=-1) @ states
            return self.readout(torch.tanh(self.attended(torch.cat([queries, context], dim=-1))))

        @torch.compiler.disable
        def recur(self, commands, lengths, before):
            """H [B, T, 2 encoder], and the decoder's states [B, L, 4 encoder]."""
            states, start = self.encode(commands, lengths)
            return states, self.decoder(self.symbols(before), start)[0]

        def encode(self, commands, lengths):
            """H [B, T, 2 encoder]; state and cell of the decoder, each [1, B, 4 encoder]."""
            words = self.words(commands)
            n_real = lengths.to(commands.device).unsqueeze(1)
            places = torch.arange(commands.shape[1], device=commands.device).unsqueeze(0)
            # From the last real position to the first; later positions are never read.
            turned = (n_real - 1 - places).clamp(min=0).unsqueeze(-1)
            last = (n_real - 1).unsqueeze(-1)

            def at(x, index):
                return torch.gather(x, 1, index.expand(-1, -1, x.shape[-1]))

            ahead, ahead_1, ahead_n = self.direction(self.ahead, words, lengths)
            back, back_n, back_1 = self.direction(self.back, at(words, turned), lengths)
            states = torch.cat([ahead, at(back, turned)], dim=-1)
            state = torch.cat([states[:, 0], at(states, last)[:, 0]], dim=-1)
            cell = torch.cat([ahead_1, back_1, ahead_n, back_n], dim=-1)
            return states, (state.unsqueeze(0), cell.unsqueeze(0))

        @staticmethod
        def direction(lstm, x, lengths):
            """States [B, T, encoder]; cells [B, encoder] after the first and the last word."""
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            states, (_, cell) = lstm(packed)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
            first = lstm(x[:, :1])[1][1]  # an LSTM returns only its last cell
            return states, first[0], cell[0]

    return Network()


def _settings(row: str, changes: dict, n_seeds: int):
    """The config of a row at the paper's size, with n_seeds seeds and changes."""
    config = configs.load(f"resistance:{row},paper")
    with config.unlocked():
        config.train.seeds = tuple(range(n_seeds))
        config.update_from_flattened_dict(changes)
    return config


def _small(changes: dict) -> str:
    return " (small)" if any(name.startswith("model") for name in changes) else ""
