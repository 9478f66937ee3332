"""A recipe that is an AutoModel YAML file -> Task."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_launch import packaging, scripts
from nemo_launch.automodel.files import ENTRY, File
from nemo_launch.errors import InputError
from nemo_launch.recipes import Site
from nemo_launch.task import Task


@dataclass(frozen=True)
class AutoModelRecipe:
    """Runs what an AutoModel YAML says, in a copy of the work dir.

    Args:
        file: the file, without its section.
        secret_values: variables of the job that travel as secrets.
        pythonpath: folders that come first for imports, as the processes see them.
    """

    file: File
    secret_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    pythonpath: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return os.path.splitext(os.path.basename(self.file.document.source))[0] or "automodel"

    def lower(self, name: str, site: Site, after: tuple[str, ...] = ()) -> Task:
        """See ``Recipe.lower``."""
        from nemo_launch.buildables import placing

        script = ""
        if self.file.path:
            try:
                found = scripts.find(self.file.path, site.work_dir)
                place = scripts.place(found, site.config, site.work_dir, (*site.leave_out, site.snapshots))
                script, imports = place.script(site.snapshots), placing.of_file(found, site)
            except InputError as error:
                where = f"{self.file.document.where('recipe')}: recipe"
                raise InputError(
                    [p._replace(where=where) if p.where == "script" else p for p in error.problems]
                ) from None
        else:
            imports = placing.of_work_dir(site)
        own = packaging.texts(self.file.files(script))
        return Task(
            name=name,
            recipe=self.file.document.source,
            language="python",
            argv=(os.path.join(site.snapshots, own.digest, ENTRY), *self.file.words),
            secrets=tuple(self.secret_values),
            secret_values=self.secret_values,
            code=(own, *(code for code in imports.codes if code.files or code.notes)),
            pythonpath=(*self.pythonpath, *imports.there),
            work_dir=site.work_dir,
            after=after,
            config=dict(_places(self.file.config)),
        )


def _places(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its place: ``model.layers`` -> 3."""
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    if not isinstance(value, Mapping | list) or not value:
        yield place, value if value is None or isinstance(value, str | int | float | bool) else str(value)
    for key, entry in entries:
        yield from _places(entry, f"{place}.{key}" if place else str(key))
