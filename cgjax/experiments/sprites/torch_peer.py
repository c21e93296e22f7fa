"""The published renderer in PyTorch, the reference for our implementation.

Two decoders, sigmoid occlusion, mean squared error, AdamW, as the paper's own code has them.
`torch` is imported inside functions: nothing else in the package needs it.
"""

from collections.abc import Iterator

import numpy as np

from cgjax.core import tree


def decoder(hidden: int = 256, channels: int = 32):
    """The paper's UpsampleMLP for one sprite: latents [n, 5] -> images [n, 3, 64, 64]."""
    import torch

    layers = [torch.nn.Linear(5, hidden)]
    for width in (hidden, hidden, 16 * channels):
        layers += [torch.nn.ELU(), torch.nn.Linear(hidden, width)]
    layers.append(torch.nn.Unflatten(1, (channels, 4, 4)))
    for width in (channels, channels, channels, 3):
        double = torch.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        conv = torch.nn.Conv2d(channels, width, 2, padding="same")
        layers += [torch.nn.ELU(), double, conv]
    return torch.nn.Sequential(*layers)


def loss_fn(slots):
    """(latents [n, 10], images [n, 3, 64, 64]) -> mean squared error of two composed decoders."""
    import torch

    def loss(latents, images):
        front, back = slots[0](latents[:, :5]), slots[1](latents[:, 5:])
        colour_sum = front.sum(1, keepdim=True)
        drawn = front * torch.sigmoid(colour_sum) + back * torch.sigmoid(-colour_sum)
        return ((drawn - images) ** 2).mean()

    return loss


def state_dict(params) -> dict:
    """Parameters of one decoder by PyTorch's names, the inverse of `convert.from_torch`."""
    n_dense = sum(name.startswith("dense_") for name in params)
    first_conv = 2 * n_dense + 2  # behind the head and its reshape: (ELU, upsampling, convolution)
    converted = {}
    for name, layer in params.items():
        kind, number = name.split("_")
        place = 2 * int(number) if kind == "dense" else first_conv + 3 * int(number)
        axes = (1, 0) if kind == "dense" else (3, 2, 0, 1)
        converted[f"{place}.weight"] = np.transpose(layer["kernel"], axes)
        converted[f"{place}.bias"] = np.asarray(layer["bias"])
    return converted


def train(
    params,
    latents: np.ndarray,
    images: np.ndarray,
    batches: Iterator[np.ndarray],
    rates: Iterator[float],
    compiled: bool = True,
) -> Iterator[np.ndarray]:
    """Trains from our parameters of both slots (leading axis 2); yields the losses of each epoch.

    latents [n, 10] scaled; images uint8 [n, 64, 64, 3]; batches: one array of row indices per step,
    grouped by epoch, [[rows, ...], ...]; rates: one learning rate per epoch. Precisions are
    PyTorch's defaults: convolutions in TF32 on a GPU, matrix products in float32.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    slots = torch.nn.ModuleList([decoder(), decoder()])
    for k, slot in enumerate(slots):
        arrays = state_dict(tree.take(params, k))
        slot.load_state_dict({name: torch.tensor(array.copy()) for name, array in arrays.items()})
    slots = slots.to(device)
    optimiser = torch.optim.AdamW(
        slots.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-5
    )
    loss = loss_fn(slots)
    if compiled:  # two programs: an epoch's last batch is smaller
        loss = torch.compile(loss, dynamic=False)
    latents, images = (torch.as_tensor(array).to(device) for array in (latents, images))
    images = images.permute(0, 3, 1, 2)
    for epoch, rate in zip(batches, rates):
        for group in optimiser.param_groups:
            group["lr"] = rate
        losses = []
        for rows in [torch.as_tensor(np.array(rows)).to(device) for rows in epoch]:
            optimiser.zero_grad(set_to_none=True)
            value = loss(latents[rows], images[rows].float() / 255)
            value.backward()
            optimiser.step()
            losses.append(value.detach())
        yield torch.stack(losses).cpu().numpy()
