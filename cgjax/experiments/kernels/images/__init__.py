"""Convolutional networks, residual networks and vision transformers on composed images."""
