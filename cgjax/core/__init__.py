"""What every run needs, and no science."""
