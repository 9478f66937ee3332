"""The config of an executor: as it was given, or made of its record when it is first needed.

What became of a task is told without it: an executor that comes from a record asks its scheduler before any config
dataclass is imported, and also where the record has fields that this version does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nemo_launch import here

if TYPE_CHECKING:
    from nemo_launch.config.executor import ExecutorConfig
    from nemo_launch.task import Task

C = TypeVar("C", bound="ExecutorConfig")


class Configured(Generic[C]):
    """Base of the executors; ``record``: the fields of a config as a record has them, instead of a config."""

    kind: str

    def __init__(self, config: C | None, record: Mapping[str, Any] | None = None) -> None:
        self._record = record
        self._config: C | None = None
        self._secret_values: dict[str, str] = {}
        if config is not None:
            from nemo_launch.environment import without_secret_values

            self._config, self._secret_values = without_secret_values(config)

    @property
    def config(self) -> C:
        """What it was built from.

        Raises:
            RecordError: it comes from a record that cannot be read.
        """
        if self._config is not None:
            return self._config
        from nemo_launch.executors import factory

        made: C = factory.recorded(self.kind, self._record)
        self._config = made
        return made

    @property
    def job_dir(self) -> str | None:
        """The folder that the nodes see, where one is named; absolute."""
        if self._config is None and self._record is not None:
            value = self._record.get("job_dir")
        else:
            value = getattr(self.config, "job_dir", None)
        return here.absolute(value) if value else None

    @property
    def max_attempts(self) -> int:
        """How often a task is started at most, by the policy: ``max_restarts`` and once more; without one, once."""
        if self._config is None and self._record is not None:  # which has what is no default
            policy, most = self._record.get("resume_on", "never") != "never", self._record.get("max_restarts")
        else:
            policy, most = bool(self.config.resume_on), self.config.max_restarts
        if not policy:
            return 1
        from nemo_launch.config.resume import MAX_RESTARTS

        return 1 + (most if isinstance(most, int) else MAX_RESTARTS)

    @property
    def given_secrets(self) -> Mapping[str, str]:
        """Values of secrets that came with the config."""
        return self._secret_values

    def secrets_of(self, task: Task) -> dict[str, str]:
        """Those values, and what came with the recipe."""
        return {**self._secret_values, **task.secret_values}
