"""Kernel theory of compositional generalization (Lippl and Stachenfeld 2025)."""
