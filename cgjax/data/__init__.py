"""Where arrays come from when no paper owns them."""
