"""Compositional generalization from first principles (Wiedemer et al. 2023): occluding sprites."""
