"""What every run needs: the training loop, checkpoints, logs, devices, hosts. No science."""
