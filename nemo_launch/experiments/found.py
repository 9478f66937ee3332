"""Finding experiments again, by what their folders hold."""

from __future__ import annotations

from typing import TypeVar

from nemo_launch import layout
from nemo_launch.executors import factory
from nemo_launch.experiments import arguments, catalog
from nemo_launch.experiments.asked import Asked

F = TypeVar("F", bound="Found")


class Found(Asked):
    """The part of an ``Experiment`` that looks for one which was launched before."""

    @classmethod
    def from_id(cls: type[F], id: str) -> F:
        """The experiment with this id.

        Raises:
            NotFound: there is none; the message names near ones.
        """
        paths, record = catalog.record_of(arguments.text(id, "id", "an experiment's id"))
        experiment = cls(paths.title)
        experiment.paths = paths
        experiment._ran = True
        experiment._created = catalog.created(paths, record)
        experiment._tasks = factory.tasks(record, paths.record)
        return experiment

    @classmethod
    def from_title(cls: type[F], title: str) -> F:
        """The newest experiment of a title."""
        return cls.from_id(catalog.newest_of(arguments.text(title, "title", "an experiment's title")))

    @classmethod
    def find(cls: type[F], text: str) -> F:
        """By id, else by title."""
        if catalog.is_id(arguments.text(text, "experiment", "an experiment's id or title")):
            return cls.from_id(text)
        return cls.from_title(text)

    @staticmethod
    def catalog(title: str = "") -> list[str]:
        """Ids of all experiments (of a title), oldest first. Folders without a record are ignored."""
        return catalog.ids(layout.home(), arguments.text(title, "title", "a title") if title != "" else "")

    @classmethod
    def newest(cls: type[F]) -> F | None:
        """The newest of all; None: there is none."""
        id = next(catalog.newest(layout.home()), None)
        return None if id is None else cls.from_id(id)
