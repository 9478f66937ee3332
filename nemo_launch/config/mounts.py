"""A directory of the host as a container sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VolumeMapping:
    """One mount: ``source`` on the host appears as ``dest`` in the container, with ``options`` such as ``ro``."""

    source: str
    dest: str
    options: str = ""

    @classmethod
    def parse(cls, value: object) -> VolumeMapping:
        """Make a mapping from ``src:dst[:opts]``, ``src`` (same place inside), a ``{source, dest}`` dict or a mapping.

        Raises:
            ValueError: another shape, or an empty side.
        """
        if isinstance(value, VolumeMapping):
            return value
        if isinstance(value, dict) and {"source", "dest"} <= set(value) <= {"source", "dest", "options"}:
            if all(isinstance(part, str) for part in value.values()):
                return cls(**value)
        if isinstance(value, str):
            parts = value.split(":")
            if 1 <= len(parts) <= 3 and all(parts[:2]):
                source = parts[0]
                return cls(source, parts[1] if len(parts) > 1 else source, parts[2] if len(parts) > 2 else "")
        raise ValueError(f"{value!r} is not a mount; write src:dst, src:dst:options or {{source, dest}}")

    def __str__(self) -> str:
        return f"{self.source}:{self.dest}" + (f":{self.options}" if self.options else "")
