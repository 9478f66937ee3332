"""The recipes and their trainer, on real processes."""
