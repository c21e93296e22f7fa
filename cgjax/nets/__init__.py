"""Networks as flax.linen modules, one file per kind."""
