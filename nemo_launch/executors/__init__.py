"""Where tasks run: one folder per executor, one contract (base)."""
