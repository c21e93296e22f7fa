"""The two architectures, tokens [B, T, d] -> outputs [B, D], at any width of one program."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.nets.mlp import MLP
from cgjax.nets.transformer import NORMAL, TransformerLayer, layer_norm

ARCHITECTURES = ("mlp", "transformer")


class TokenMLP(nn.Module):
    """Three dense layers with ReLU on all tokens at once."""

    n_outputs: int
    width: int

    @nn.compact
    def __call__(self, tokens):
        net = MLP((self.n_outputs,), self.width, 3, "relu", name="net")
        return net(tokens.reshape(len(tokens), -1))


class TokenTransformer(nn.Module):
    """Two pre-norm layers of four heads; a dense layer reads a token that has no input.

    Every position has its own embedding of its token. Tokens are half as wide as the feed-forward
    layers.
    """

    n_outputs: int
    width: int  # of the feed-forward layers

    @nn.compact
    def __call__(self, tokens):
        (n, n_tokens, size), hidden = tokens.shape, self.width // 2
        embedding = self.param("embedding", NORMAL, (n_tokens, size, hidden))
        first = self.param("class_token", NORMAL, (1, 1, hidden))
        position = self.param("position", NORMAL, (1, n_tokens, hidden))
        x = jnp.einsum("btd,tdh->bth", tokens, embedding) + position
        x = jnp.concatenate([jnp.broadcast_to(first, (n, 1, hidden)), x], axis=1)
        for i, n_wanted in enumerate((None, 1)):
            layer = TransformerLayer(4, self.width, norm_first=True, name=f"layer_{i}")
            x = layer(x, n_wanted=n_wanted)
        return nn.Dense(self.n_outputs, name="head")(layer_norm(1e-12, "norm")(x[:, 0]))


def build(name: str, n_outputs: int, width: int) -> nn.Module:
    """An architecture of ARCHITECTURES."""
    return (TokenMLP if name == "mlp" else TokenTransformer)(n_outputs, width)


def narrowed(params: dict, width) -> dict:
    """Initial parameters of which only the first `width` units of hidden layers are in use.

    A unit whose weights and bias are all zero has the output 0 (ReLU, GELU) and no gradient, so it
    stays unused, and networks of several widths train in one program. Weights of the MLP that read
    these units are scaled as in a network of that width.
    """
    is_mlp = "net" in params
    params = jax.tree.map(lambda leaf: leaf, params)  # a copy of the dicts, whose entries change
    for i in (0, 1):
        layers = params["net" if is_mlp else f"layer_{i}"]
        names = (f"dense_{i}", f"dense_{i + 1}") if is_mlp else ("ffn_in", "ffn_out")
        before, after = (layers[name] for name in names)
        full = len(before["bias"])
        used = (jnp.arange(full) < width).astype(jnp.float32)
        scale = jnp.sqrt(full / width) if is_mlp else 1.0
        before |= {"kernel": before["kernel"] * used[None], "bias": before["bias"] * used}
        after |= {"kernel": after["kernel"] * used[:, None] * scale, "bias": after["bias"] * scale}
    return params
