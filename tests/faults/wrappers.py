"""Stand-ins for Slurm's commands that call the real ones, but late, with noise or with a failure."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

COMMANDS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo")


@dataclass(frozen=True)
class Rules:
    """What a stand-in does to its command. The default does nothing but count the calls."""

    before: float = 0
    """Seconds before the real command starts."""
    after: float = 0
    """Seconds between the end of the real command and its answer: the job exists, its id is not known yet."""
    held: int = 0
    """In the call of this number both begin only with :meth:`WrappedCommands.release`: who kills there is in time."""
    refuse_first: int = 0
    """So many calls fail without the real command being called: the controller was not reached."""
    fail_first: int = 0
    """So many calls fail although the real command did its work: the answer was lost."""
    error: str = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    """What those calls print on standard error; their status is 1."""
    banner: str = ""
    """Printed in front of the real output, as by a site's own wrapper or a login script."""
    trailer: str = ""
    """Printed behind the real output."""
    suffix: str = ""
    """Put behind the real output: ``;alpha`` makes the ``42`` of ``sbatch --parsable`` a cluster's ``42;alpha``."""
    silent: bool = False
    """The real output is dropped."""


@dataclass(frozen=True)
class Call:
    """One call of a stand-in."""

    argv: list[str]
    """Its arguments."""
    entered: float
    """Unix time at which it was called."""
    returned: float | None
    """Unix time at which the real command was done; None when it is not."""
    status: int | None
    """Exit status of the real command."""
    stdout: str
    """Output of the real command."""


@dataclass(frozen=True)
class WrappedCommands:
    """A directory of stand-ins, used as ``launcher(…, env=commands.env(launcher.env()))``."""

    directory: Path

    def env(self, env: dict[str, str]) -> dict[str, str]:
        """That environment with the stand-ins first on PATH."""
        return {**env, "PATH": f"{self.directory}:{env['PATH']}"}

    def set(self, command: str, rules: Rules | None = None, **changes: object) -> None:
        """The rules for one command from its next call on: a :class:`Rules`, or the fields that differ from it."""
        known = json.loads((self.directory / "rules.json").read_text())
        new = replace(rules or Rules(), **changes)  # type: ignore[arg-type]
        known[command] = {**asdict(new), "real": known[command]["real"]}
        self._write(known)

    def _write(self, rules: dict[str, object]) -> None:
        new = self.directory / "rules.json.new"
        new.write_text(json.dumps(rules))
        new.chmod(0o644)
        new.replace(self.directory / "rules.json")

    def release(self) -> None:
        """Let held commands go on, and those that come later."""
        (self.directory / "release").touch()

    def calls(self, command: str) -> list[Call]:
        """The calls of a command so far, in their order."""
        found: list[Call] = []
        while (entered := self.directory / f"{command}.{len(found) + 1}.entered").exists():
            start = json.loads(entered.read_text())
            end_file = entered.with_suffix(".returned")
            end = json.loads(end_file.read_text()) if end_file.exists() else {}
            found.append(Call(start["argv"], start["time"], end.get("time"), end.get("status"), end.get("stdout", "")))
        return found

    def entered(self, command: str, nth: int = 1) -> Callable[[], bool]:
        """A point for :func:`kill_at`: the command was called, the real one has not started if ``before`` is set."""
        return (self.directory / f"{command}.{nth}.entered").exists

    def returned(self, command: str, nth: int = 1) -> Callable[[], bool]:
        """A point for :func:`kill_at`: the real command is done; its answer is held back if ``after`` is set."""
        return (self.directory / f"{command}.{nth}.returned").exists


def slow_sbatch(
    directory: Path, python: Path, rules: Rules | None = None, commands: Iterable[str] = COMMANDS
) -> WrappedCommands:
    """Stand-ins in ``directory``, which exists and belongs to the user; ``rules`` hold for sbatch.

    ``python`` runs them: one that the user can execute. The other commands are only counted, until
    :meth:`WrappedCommands.set` gives them rules too.
    """
    text = Path(__file__).with_name("wrapper.py").read_text()
    wrapped = WrappedCommands(directory)
    real = {name: path for name in commands if (path := shutil.which(name, path="/usr/local/bin:/usr/bin:/bin"))}
    wrapped._write({name: {**asdict(Rules()), "real": path} for name, path in real.items()})
    for name in real:
        stand_in = directory / name
        stand_in.write_text(f"#!{os.fspath(python)} -IS\n{text}")
        stand_in.chmod(0o755)
    if rules is not None:
        wrapped.set("sbatch", rules)
    return wrapped
