"""A directory of the host as a container sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemo_launch.config.hints import did_you_mean


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
            ValueError: another shape, or a side that is empty or missing.
        """
        if isinstance(value, VolumeMapping):
            return value
        if isinstance(value, Mapping):
            return cls(**_parts(value))
        if isinstance(value, str):
            parts = value.split(":")
            if 1 <= len(parts) <= 3 and all(part.strip() for part in parts[:2]):
                source = parts[0]
                return cls(source, parts[1] if len(parts) > 1 else source, parts[2] if len(parts) > 2 else "")
        raise ValueError(f"{value!r} is not a mount; write src:dst, src:dst:options or {{source: …, dest: …}}")

    def __str__(self) -> str:
        return f"{self.source}:{self.dest}" + (f":{self.options}" if self.options else "")


def _parts(value: Mapping[object, object]) -> dict[str, str]:
    known = ("source", "dest", "options")
    for key in value:
        if key not in known:
            raise ValueError(f"a mount has no {key}, only {', '.join(known)}. {did_you_mean(str(key), known)}".strip())
    for key in known[:2]:
        if not value.get(key):
            raise ValueError(f"a mount needs {key}; write {{source: …, dest: …}} or src:dst")
    for key, part in value.items():
        if not isinstance(part, str):
            raise ValueError(f"{key} of a mount is {part!r}, not text")
    return {str(key): str(part) for key, part in value.items()}
