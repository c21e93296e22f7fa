"""Kernel models in closed form and solved numerically: nothing here trains a network."""
