"""Kernel models in closed form: studies and their figures."""
