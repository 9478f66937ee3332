"""Folders that editable installs (``pip install -e``) of this Python add for imports, read from site-packages."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator

_SITE = ("site-packages", "dist-packages")
#: setuptools' finder modules hold ``MAPPING = {'package': '/path/package', …}``.
_MAPPING = re.compile(r"(?m)^MAPPING(?:: [^=\n]*)? = (\{.*\})$")


def folders(path: Iterable[str] | None = None) -> list[str]:
    """Absolute folders, of paths written into ``.pth`` files and of packages that a finder maps; none of our own."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    found = (
        folder
        for site in (sys.path if path is None else path)
        if os.path.basename(site) in _SITE
        for folder in _added(site)
    )
    return [folder for folder in dict.fromkeys(found) if os.path.isdir(folder) and os.path.realpath(folder) != ours]


def _added(site: str) -> Iterator[str]:
    try:
        names = os.listdir(site)
    except OSError:
        return
    for name in names:
        try:
            if name.endswith(".pth"):
                for line in _read(os.path.join(site, name)).splitlines():
                    if os.path.isabs(line.strip()):
                        yield line.strip()
            elif name.startswith("__editable___") and name.endswith("_finder.py"):
                match = _MAPPING.search(_read(os.path.join(site, name)))
                if match:
                    import ast

                    for package in ast.literal_eval(match[1]).values():
                        yield os.path.dirname(package)
        except (OSError, ValueError, SyntaxError, TypeError, AttributeError):
            continue  # not as we know it: then nothing is said about it


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
