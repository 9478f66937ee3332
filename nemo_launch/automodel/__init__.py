"""AutoModel YAML as a recipe: what it runs, its overrides, what is worth a warning, and runs inside torchrun."""
