"""GPU kernels in Pallas."""
