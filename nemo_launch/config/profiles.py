"""profiles.yaml: named executors, so that nobody types account, partition, image and mounts each time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from nemo_launch.config.executor import CONFIGS, LATER, no_kind
from nemo_launch.config.hints import did_you_mean
from nemo_launch.config.layers import Layer, merge
from nemo_launch.config.loading import Document, read
from nemo_launch.config.structure import check
from nemo_launch.errors import InputError, NotFound, Problem

FILE = "profiles.yaml"
#: Kinds of executors; no profile may take their names.
RESERVED = (*CONFIGS, *LATER)


class Profile(NamedTuple):
    """A profile with all that it extends: the kind of executor, its fields, and where each was written."""

    name: str
    kind: str
    values: dict[str, object]
    origin: dict[str, str]

    @property
    def layer(self) -> Layer:
        """For ``layers.merge``."""
        return Layer(self.origin.__getitem__, self.values)


class Report(NamedTuple):
    """A profile and what is wrong with it; ``kind`` is empty when it cannot be known."""

    name: str
    kind: str
    problems: tuple[Problem, ...]


def load(work_dir: str | os.PathLike[str]) -> Profiles:
    """The profiles that apply in a work dir; a file is read when a name is looked up, not before."""
    from nemo_launch import here, layout

    folders = (here.absolute(work_dir), layout.home(), os.path.expanduser("~/.config/nemo_launch"))
    return Profiles(tuple(dict.fromkeys(os.path.join(folder, FILE) for folder in folders)))


@dataclass(frozen=True)
class Profiles:
    """The profiles of several files; the first file that has a name wins."""

    paths: tuple[str, ...]
    """Where to look, first things first; not all of them exist."""
    _read: dict[str, Document] = field(default_factory=dict, repr=False)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files that exist."""
        return tuple(path for path in self.paths if os.path.lexists(path))

    def names(self) -> tuple[str, ...]:
        """All names, those of the first file first."""
        return tuple(dict.fromkeys(str(name) for path in self.files for name in self._document(path).values))

    def resolve(self, name: str) -> Profile:
        """The profile of this name, with what it extends.

        Raises:
            NotFound: no file has it; the message lists the files and names.
            InputError: the file, or the profile, is not right.
        """
        if name in LATER:
            raise NotFound(no_kind(name, ""))
        chain = self._chain(name)
        kinds = [
            (body["executor"], document.where(link, "executor")) for link, body, document in chain if "executor" in body
        ]
        if not kinds:
            where = chain[0][2].where(name)
            raise InputError(Problem(f"profile {name} names no executor", where, "Add `executor: slurm` or local."))
        kind, where = kinds[0]
        if not isinstance(kind, str) or kind not in CONFIGS:
            raise InputError(no_kind(kind, where))
        merged = merge([self._layer(*link) for link in reversed(chain)])
        return Profile(name, kind, merged.values, merged.origin)

    def check_all(self) -> list[Report]:
        """Every profile with everything that is wrong with it, for ``run.py profiles``."""
        return [self._report(name) for name in self.names()]

    def _report(self, name: str) -> Report:
        try:
            profile = self.resolve(name)
        except InputError as error:
            return Report(name, "", error.problems)
        found = check(CONFIGS[profile.kind], profile.values, profile.origin.__getitem__)
        return Report(name, profile.kind, tuple(found.problems))

    def _layer(self, name: str, body: Mapping[object, object], document: Document) -> Layer:
        values = {str(key): value for key, value in body.items() if key not in ("executor", "extends")}
        return Layer(lambda key: f"{document.where(name, key)} (profile {name}): {key}", values)

    def _chain(self, name: str) -> list[tuple[str, Mapping[object, object], Document]]:
        """The profile, what it extends, what that extends …"""
        chain = []
        names: list[str] = []
        where = ""
        while name:
            document = self._find(name, where)
            if name in names:
                loop = " -> ".join((*names[names.index(name) :], name))
                raise InputError(Problem(f"profiles extend each other in a circle: {loop}", where, "Break it."))
            names.append(name)
            where = document.where(name)
            body = document.values[name]
            if name in RESERVED:
                what = f"no profile may be called {name}: it is a kind of executor"
                raise InputError(Problem(what, where, "Choose another name."))
            if not isinstance(body, Mapping):
                what = f"profile {name} is not a mapping of fields"
                raise InputError(Problem(what, where, "Write `executor: slurm` and its fields below it."))
            chain.append((name, body, document))
            where = document.where(name, "extends")
            base = body.get("extends", "")
            if "extends" in body and not (isinstance(base, str) and base):
                raise InputError(Problem(f"extends of profile {name} is not one profile's name", where))
            if base in RESERVED:
                what = f"profile {name} extends {base}, which is a kind of executor"
                raise InputError(Problem(what, where, f"Write `executor: {base}` instead."))
            name = base
        return chain

    def _find(self, name: str, where: str) -> Document:
        for path in self.files:
            document = self._document(path)
            if name in document.values:
                return document
        known = self.names()
        looked = f"It is not in {', '.join(self.files)}" if self.files else f"No file {' or '.join(self.paths)} exists"
        names = f"The profiles are {', '.join(known)}." if known else ""
        kinds = did_you_mean(name, (*known, *CONFIGS))
        fix = " ".join(part for part in (f"{looked}.", kinds or names) if part)
        raise NotFound(Problem(f"there is no profile {name}", where, fix))

    def _document(self, path: str) -> Document:
        if path not in self._read:
            document = read(path)
            for name in document.values:
                if not isinstance(name, str):
                    raise InputError(Problem(f"the profile name {name!r} is not text", path, "Quote it."))
            self._read[path] = document
        return self._read[path]
