"""The numbers of the run as JSON lines, and as lines of the log."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from pathlib import Path
from types import TracebackType

from trainer.ranks import Mistake


class MetricsFile:
    """One JSON object per line, whole lines only. A run that goes on from step n first drops what came after n."""

    def __init__(self, path: Path, from_step: int) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = _lines_up_to(path, from_step) if from_step else b""
            temporary = path.with_name(f".{path.name}.tmp")
            temporary.write_bytes(kept)
            if path.exists() and not path.is_file():  # /dev/null, a pipe
                temporary.unlink()
            else:
                temporary.replace(path)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            remedy = "Choose another metrics.path"
            raise Mistake(f"cannot write {error.filename or path}: {error.strerror}. {remedy}.") from error

    def write(self, numbers: dict[str, float | int | None]) -> None:
        """Append a line; what is no number (a loss that ran away) is null, as JSON has no other word."""
        finite = {name: value if value is None or math.isfinite(value) else None for name, value in numbers.items()}
        os.write(self._file, json.dumps({**finite, "time": time.time()}).encode() + b"\n")

    def __enter__(self) -> MetricsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


def _lines_up_to(path: Path, step: int) -> bytes:
    kept = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines(keepends=True):
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a line that was cut off by a kill
                if line.endswith(b"\n") and json.loads(line)["step"] <= step:
                    kept.append(line)
    return b"".join(kept)


class Pace:
    """Tokens per second and the seconds that are left, from what was measured since the last question."""

    def __init__(self, step: int) -> None:
        self._step, self._tokens, self._time = step, 0, time.perf_counter()

    def add(self, tokens: int) -> None:
        """One more step, with so many tokens."""
        self._tokens += tokens

    def measure(self, step: int, max_steps: int) -> tuple[float, float]:
        """(tokens per second, seconds until the last step)."""
        now = time.perf_counter()
        seconds = max(now - self._time, 1e-9)
        speed, left = self._tokens / seconds, (max_steps - step) * seconds / max(1, step - self._step)
        self._step, self._tokens, self._time = step, 0, now
        return speed, left
