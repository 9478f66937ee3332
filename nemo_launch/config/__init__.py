"""What the user asks for: one dataclass per executor, and the ways to build it (flags, files, Python)."""
