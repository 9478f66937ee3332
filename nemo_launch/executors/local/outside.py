"""A predecessor that another supervisor runs: two executors with different settings in one experiment."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_launch.layout import TaskPaths


@dataclass
class Outside:
    """Asked for like any task of this machine; only then the modules that can tell are loaded."""

    name: str
    dir: str
    job_id: str
    final: bool = False
    succeeded: bool = False

    def look(self) -> None:
        """Find out whether it has ended, and how. Whatever happens to its supervisor, the answer comes."""
        from nemo_launch.executors.base import Handle, Job, State
        from nemo_launch.executors.local.polling import poll
        from nemo_launch.transport import LocalTransport

        job = Job(self.name, TaskPaths(self.dir, self.dir), Handle(self.job_id))
        state = poll(LocalTransport(), [job])[job.key].state
        self.final, self.succeeded = state.final, state is State.SUCCEEDED
