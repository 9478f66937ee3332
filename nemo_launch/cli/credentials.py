"""What this user may show to a registry of images, in the words of enroot: lines of a netrc file.

Found where people already keep it: ``~/.config/enroot/.credentials``, and what ``docker login`` wrote. (For
``*.pkg.dev`` the job itself asks gcloud, whose tokens are short-lived.)
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping

#: docker's own registry, by the names that docker and enroot know it by.
_HUB = ("https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io")
#: Registry -> machines that ask for the same credentials.
_MACHINES = {"": ("auth.docker.io", "registry-1.docker.io"), "nvcr.io": ("nvcr.io", "authn.nvidia.com")}


def netrc(registry: str, environ: Mapping[str, str]) -> str:
    """Lines for a registry (empty: docker's own); empty where nothing is known."""
    machines = _MACHINES.get(registry, (registry,))
    kept = _enroot(environ)
    if any(f"machine {machine} " in f"{' '.join(kept.split())} " for machine in machines):
        return kept
    login = _docker(registry, environ)
    lines = [f"machine {machine} login {login[0]} password {login[1]}" for machine in machines] if login else []
    return "\n".join([*([kept.strip()] if kept.strip() else []), *lines])


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _enroot(environ: Mapping[str, str]) -> str:
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(_home(environ), ".config")
    return _read(os.path.join(environ.get("ENROOT_CONFIG_PATH") or os.path.join(config, "enroot"), ".credentials"))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):  # none, or none for us
        return ""


def _docker(registry: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """(user, password) as ``docker login`` left them: in its file, or with a helper program."""
    folder = environ.get("DOCKER_CONFIG") or os.path.join(_home(environ), ".docker")
    try:
        known = json.loads(_read(os.path.join(folder, "config.json")) or "{}")
    except ValueError:
        return None
    if not isinstance(known, dict):
        return None
    for name in _names(registry):
        entry = (known.get("auths") or {}).get(name) or {}
        if login := _decoded(entry.get("auth") or ""):
            return login
        helper = (known.get("credHelpers") or {}).get(name) or known.get("credsStore")
        if helper and (login := _helped(str(helper), name)):
            return login
    return None


def _names(registry: str) -> Iterator[str]:
    if not registry:
        yield from _HUB
        return
    yield registry
    yield f"https://{registry}"


def _decoded(text: str) -> tuple[str, str] | None:
    import base64

    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except ValueError:
        return None
    return _usable(user, password) if colon else None


def _helped(helper: str, name: str) -> tuple[str, str] | None:
    try:
        done = subprocess.run(
            [f"docker-credential-{helper}", "get"], input=name, capture_output=True, text=True, timeout=15
        )
        said = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return _usable(str(said.get("Username", "")), str(said.get("Secret", "")))


def _usable(user: str, password: str) -> tuple[str, str] | None:
    """A netrc file is read word by word, so white space cannot be said in it."""
    words = (user, password)
    return (user, password) if all(word and not any(map(str.isspace, word)) for word in words) else None
