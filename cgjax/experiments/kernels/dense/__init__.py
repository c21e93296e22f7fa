"""Dense networks on symbolic inputs, from rich to lazy and by depth."""
