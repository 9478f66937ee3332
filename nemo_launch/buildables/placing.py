"""Which code travels with a recipe, and from which folders it may import on the nodes."""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from nemo_launch import packaging, scripts
from nemo_launch.buildables.checks import nodes
from nemo_launch.config.executor import ExecutorConfig
from nemo_launch.errors import InputError
from nemo_launch.recipes import Site
from nemo_launch.scripts.placing import Place
from nemo_launch.task import Code


class Imports(NamedTuple):
    """Folders for imports: as they are here, and as the job's PYTHONPATH names them; and their copies."""

    here: tuple[str, ...]
    there: tuple[str, ...]
    codes: tuple[Code, ...]


def of_file(path: str, site: Site) -> Imports:
    """For a recipe file: as for a script, its own folder first; and the `recipes` folder above it, in a work dir too.

    Raises:
        InputError: the code cannot be copied.
    """
    place = scripts.place(path, site.config, site.work_dir, (*site.leave_out, site.snapshots))
    own = os.path.dirname(place.relative)
    parts = own.split(os.sep)
    if "recipes" in parts:
        top = os.path.join(*parts[: len(parts) - parts[::-1].index("recipes")])
        if place.roots:
            place = place._replace(roots=(*place.roots, os.path.join(place.roots[0], top)))
        else:
            place = place._replace(inner=(*place.inner, (0, top)))
    return _imports(place, own, site)


def of_objects(root: Any, site: Site) -> Imports:
    """For a config made in Python: the work dir, and folders that the functions and classes in it come from.

    Raises:
        InputError: the code cannot be copied.
    """
    main, tops = _origins(root)
    leave_out = (*site.leave_out, site.snapshots)
    if main:
        place = scripts.place(main, site.config, site.work_dir, leave_out)
        own = os.path.dirname(place.relative)
    else:
        place, own = _work_dir(site, leave_out), ""
    for top in tops:
        place = _with(place, top, site.config, leave_out)
    return _imports(place, own, site)


def of_work_dir(site: Site) -> Imports:
    """For what is named and not looked at: the work dir.

    Raises:
        InputError: the code cannot be copied.
    """
    return _imports(_work_dir(site, (*site.leave_out, site.snapshots)), "", site)


def _imports(place: Place, own: str, site: Site) -> Imports:
    snapshots = site.snapshots
    alone = [_is_alone(code) for code in place.codes]
    place = scripts.with_editable(place, site.config)
    pairs: list[tuple[str, str]] = []
    for number, code in enumerate(place.codes):
        if not os.path.isabs(code.root) or alone[number]:
            continue
        copy = os.path.join(snapshots, code.digest)
        if number == 0 and own:
            pairs.append((os.path.join(code.root, own), os.path.join(copy, own)))
        pairs.append((code.root, copy))
    for number, inner in place.inner:
        code = place.codes[number]
        pairs.append((os.path.join(code.root, inner), os.path.join(snapshots, code.digest, inner)))
    if place.roots and own:
        pairs.append((os.path.join(place.roots[0], own),) * 2)
    pairs += [(root, root) for root in place.roots]
    pairs = list(dict.fromkeys(pairs))
    return Imports(tuple(here for here, _ in pairs), tuple(there for _, there in pairs), place.codes)


def _is_alone(code: Code) -> bool:
    """One file without its neighbours, for which its folder must not stand."""
    return len(code.files) == 1 and code.commit is None and "/" not in code.files[0][0] and bool(code.notes)


def _work_dir(site: Site, leave_out: Sequence[str]) -> Place:
    if not site.config.snapshot:
        return Place("", (site.work_dir,), ())
    try:
        return Place("", (), (packaging.collect(site.work_dir, leave_out, site.config.include),))
    except packaging.TooMuch as error:
        if site.config.include:
            raise
        note = f"no copy of the work dir is taken, and nothing can be imported from it: {error.problems[0].what}"
        return Place("", (), (replace(packaging.texts({}), notes=(note,)),))


def _with(place: Place, top: str, config: ExecutorConfig, leave_out: Sequence[str]) -> Place:
    """The same with a further folder for imports: from a copy that has it, else from one of its own."""
    if not config.snapshot:
        return place if top in place.roots else place._replace(roots=(*place.roots, top))
    real = os.path.realpath(top)
    for number, code in enumerate(place.codes):
        root = os.path.realpath(code.root) if os.path.isabs(code.root) else ""
        if real == root and not _is_alone(code):
            return place
        inner = real[len(root) + 1 :]
        if root and real.startswith(root + "/") and any(file.startswith(inner + "/") for file, _ in code.files):
            return place._replace(inner=(*place.inner, (number, inner)))
    try:
        return place._replace(codes=(*place.codes, packaging.collect(top, leave_out)))
    except InputError:
        return place  # then what comes from there is refused by its place in the config


def _origins(root: Any) -> tuple[str, list[str]]:
    """The program's own file if something in the config is defined in it, and folders that modules were found in."""
    main = ""
    tops: dict[str, None] = {}
    for module in dict.fromkeys(_modules(root)):
        file = getattr(module, "__file__", None)
        if module.__name__ == "__main__":
            main = os.path.abspath(file) if file and os.path.isfile(file) else ""
        elif isinstance(file, str) and not _installed(file):
            folder = os.path.dirname(os.path.abspath(file))
            if os.path.basename(file).startswith("__init__."):
                folder = os.path.dirname(folder)
            for _ in range(module.__name__.count(".")):
                folder = os.path.dirname(folder)
            tops[folder] = None
    return main, list(tops)


def _modules(root: Any) -> Iterator[types.ModuleType]:
    for _, node in nodes(root):
        for one in (node.__fn_or_cls__, *node.__arguments__.values()):
            if isinstance(one, type) or callable(one):
                module = sys.modules.get(str(getattr(one, "__module__", None)))
                if module is not None:
                    yield module


def _installed(file: str) -> bool:
    parts = file.split("/")
    library = tuple(sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib"))
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/"
    return "site-packages" in parts or "dist-packages" in parts or file.startswith((*library, ours))
