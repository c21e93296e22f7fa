"""Forced rendering of disentangled latents (Liang, Qian, Ziyin and Fiete 2025)."""
