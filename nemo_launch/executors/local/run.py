"""One task under supervision: started, watched, asked to save, ended; its state in a small file at every step."""

from __future__ import annotations

import contextlib
import os
import signal as signals
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from nemo_launch import identity, records
from nemo_launch.errors import RecordError
from nemo_launch.executors.local import processes
from nemo_launch.layout import TaskPaths

#: What a batch script leaves running when it ends gets this long after TERM (Slurm's nodes clean up at once).
_LEFTOVER_SECONDS = 5.0
#: After this long KILL has no effect (another user's process, one that sleeps in the kernel): said and left alone.
_IMMORTAL_SECONDS = 30.0
#: How soon the processes are looked for again while they are being ended: first, and at most.
_LOOK, _LOOK_MOST = 0.05, 2.0


@dataclass
class Run:
    """What the launcher asked for one task, and what has become of it. Times are seconds, ``clock``'s are monotonic."""

    name: str
    dir: str
    command: list[str]
    env: dict[str, str] = field(repr=False)
    cwd: str
    after: list[str]
    grace: float
    time: float | None = None
    margin: float | None = None
    signal: int | None = None
    resume_on: list[str] = field(default_factory=list)
    """Causes after which it is started again: timeout, error."""
    resume_codes: list[int] = field(default_factory=list)
    """Exit codes that count as error; empty: all."""
    max_restarts: int = 0

    restart: int = field(default=0, init=False)
    """How often it was started before."""
    state: str = field(default="waiting", init=False)
    """waiting, running, then for good: ended, skipped (a predecessor did not succeed), cancelled (never started)."""
    said: dict[str, Any] = field(default_factory=dict, init=False)
    """The rest of the state file."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    alarms: dict[str, float] = field(default_factory=dict, init=False)
    """What to do when the clock gets there: checkpoint, limit, kill, look, give up."""
    _look: float = field(default=_LOOK, init=False)
    _swept: bool = field(default=False, init=False)
    """What the batch script left behind got its TERM."""
    _asked: bool = field(default=False, init=False)
    """It was told that its end is near."""
    _known: set[processes.Process] = field(default_factory=set, init=False)

    @property
    def paths(self) -> TaskPaths:
        """The task's files."""
        return TaskPaths(self.dir, self.dir)

    @property
    def final(self) -> bool:
        """Nothing more will happen."""
        return self.state not in ("waiting", "running")

    @property
    def succeeded(self) -> bool:
        """Its dependants may start."""
        return self.state == "ended" and self.said.get("code") == 0 and "cause" not in self.said

    def record(self, sure: bool = False) -> None:
        """Write the state file; unless it must be ``sure``, a full disk is only complained about."""
        try:
            records.write_json(self.paths.state, {"state": self.state, **self.said})
        except RecordError as error:
            if sure:
                raise
            print(error, file=sys.stderr, flush=True)

    def become(self, state: str, **said: Any) -> None:
        """Enter a state and record it."""
        self.state = state
        self.said.update(said)
        self.record()

    def start(self) -> None:
        """Start the batch script in a session of its own, its output in the job's log."""
        try:
            with open(self.paths.log(str(os.getpid())), "ab") as log:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.cwd,
                    env={**self.env, "NEMO_LAUNCH_JOB_ID": str(os.getpid()), "NEMO_LAUNCH_ATTEMPT": str(self.restart)},
                    start_new_session=True,
                )
        except OSError as error:
            reason = f"could not be started: {error.strerror}: {error.filename}"
            self.become("ended", started=time.time(), ended=time.time(), cause="start", reason=reason)
            return
        finally:
            if not self._may_restart:
                self.env.clear()  # the secrets are not needed any more
        now = time.monotonic()
        if self.time is not None:
            self.alarms["limit"] = now + self.time
            if self.margin is not None:
                self.alarms["checkpoint"] = now + self.time - self.margin
        decides = {"decides": True} if self.resume_on else {}
        self.become("running", started=time.time(), **decides, **identity.of(self.process.pid))

    def ask_to_save(self) -> None:
        """The end is near: leave the marker that recipes poll, and send the signal that was asked for."""
        self._asked = True
        self._to_script(signals.SIGUSR1)  # it writes the marker, and a line in the log
        if self.signal is not None:
            script = self.process.pid if self.process else None
            processes.send((process for process in self._members() if process.pid != script), self.signal)

    def end(self, cause: str, grace: float | None) -> None:
        """TERM, KILL to what is left after ``grace`` seconds (None: never, 0: at once).

        TERM goes to the batch script, which passes it on: a process that saves on TERM must not get it twice.
        """
        if self.state == "waiting":
            self.become("cancelled", ended=time.time(), cause=cause)
        if self.state != "running":
            return
        now = time.monotonic()
        for alarm in ("checkpoint", "limit"):
            self.alarms.pop(alarm, None)
        if "cause" not in self.said and self.process is not None and self.process.returncode is None:
            self.become("running", cause=cause)
            self._to_script(signals.SIGTERM)
        if grace is not None:
            self.alarms["kill"] = min(now + grace, self.alarms.get("kill", now + grace))

    def tick(self, now: float) -> None:
        """Do what the clock asks for."""
        for alarm in [name for name, at in self.alarms.items() if at <= now]:
            if self.alarms.pop(alarm, None) is None:
                continue  # one before it has settled this one
            if alarm == "checkpoint":
                if os.path.exists(self.paths.started(str(os.getpid()), self.restart)):
                    self.ask_to_save()
                else:  # before it listens, the signal would end it
                    self.alarms[alarm] = now + _LOOK
            elif alarm == "limit":
                self.end("timeout", self.grace)
            elif alarm == "kill":
                processes.send(self._members(), signals.SIGKILL)
                self.alarms["kill"] = now + 1  # for what was born meanwhile
                self.alarms.setdefault("give up", now + _IMMORTAL_SECONDS)
            elif alarm == "look":
                self.ended()
            elif alarm == "give up":
                left = ", ".join(str(process.pid) for process in self._members())
                self._finish(reason=f"its processes could not be ended: {left}" if left else "")

    def ended(self) -> None:
        """The batch script has ended: so has the task, once none of its processes is left."""
        left = self._members()
        if not left:
            self._finish()
            return
        now = time.monotonic()
        if not self._swept:
            self._swept = True
            processes.send(left, signals.SIGTERM)
            self.alarms["kill"] = min(now + min(self.grace, _LEFTOVER_SECONDS), self.alarms.get("kill", now + 1e9))
        self.alarms = {name: at for name, at in self.alarms.items() if name in ("kill", "give up")}
        self.alarms["look"] = now + self._look
        self._look = min(2 * self._look, _LOOK_MOST)

    def _finish(self, reason: str = "") -> None:
        self.alarms.clear()
        code = self.process.poll() if self.process else None
        how: dict[str, Any] = {"reason": reason} if reason else {}
        if "cause" in self.said and self._ended_by_itself():
            del self.said["cause"]
        if code is not None:
            how |= {"code": code} if code >= 0 else {"signal": processes.signal_name(-code)}
            if code < 0 and "cause" not in self.said and os.path.exists(self.paths.cancelled):
                how["cause"] = "cancelled"  # by a launcher that found this process too slow
        if not reason and (cause := self._cause(code)) and self._restarts(cause, code):
            return
        if self.said.get("not_again"):
            how["reason"] = self.said.pop("not_again")
        self.said.pop("decides", None)
        self.env.clear()
        self.become("ended", ended=time.time(), **how)

    @property
    def _may_restart(self) -> bool:
        return bool(self.resume_on) and self.restart < self.max_restarts

    def _cause(self, code: int | None) -> str | None:
        """Why it has ended, as ``resume_on`` calls it; None: it was done, or somebody ended it."""
        if os.path.exists(self.paths.cancelled):  # cancelled is cancelled, whatever else happened
            return None
        if "cause" in self.said:
            return "timeout" if self.said["cause"] == "timeout" else None
        if self._asked and self.signal is not None and code == 128 + self.signal:
            return "timeout"
        # What ends the batch script from outside leaves no such record: it is no error of the program.
        failed = bool(code) and self._record().get("cause") in ("ended", "setup", "port", "workdir")
        return "error" if failed and (not self.resume_codes or code in self.resume_codes) else None

    def _restarts(self, cause: str, code: int | None) -> bool:
        """Get ready for the next attempt, if the policy has one; the loop starts it."""
        if cause not in self.resume_on:
            return False
        if not self._may_restart:
            times = f"it has been {self.restart} times, which is the most (max_restarts)"
            self.said["not_again"] = f"not started again: {times}"
            return False
        try:
            path = self.paths.restart(str(os.getpid()), self.restart)
            records.write_json(path, {"schema_version": 1, "cause": cause, "code": code})
        except RecordError as error:  # a full disk keeps no marker of a cancellation, either
            print(error, file=sys.stderr, flush=True)
            return False
        self.restart += 1
        self.process, self._known, self._swept, self._asked, self._look = None, set(), False, False, _LOOK
        self.said = {name: self.said[name] for name in ("turns",) if name in self.said}
        self.become("waiting", restart=self.restart, why=cause)
        return True

    def _ended_by_itself(self) -> bool:
        """Its batch script had come to the end before TERM got there: only leftovers were ended."""
        return self._record().get("cause") == "ended"

    def _record(self) -> dict[str, Any]:
        """What the batch script wrote about its end; empty: nothing."""
        with contextlib.suppress(RecordError):
            return records.read_json(self.paths.exit_record(str(os.getpid()), self.restart)) or {}
        return {}

    def _to_script(self, number: int) -> None:
        """A signal to the batch script alone."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def _members(self) -> set[processes.Process]:
        """Its living processes; one that was seen once stays known, whatever it does to its marks."""
        root = self.process.pid if self.process else None
        now = processes.Snapshot()
        kept = {p for p in self._known if p.pid in now.table and now.table[p.pid].start == p.start}
        self._known = kept | now.members(self.dir, root, self.said.get("start"))
        return self._known
