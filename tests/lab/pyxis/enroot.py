"""Stand-ins for enroot and gcloud: a folder of programs that goes first on PATH."""

from __future__ import annotations

import os
from pathlib import Path

from tests.lab.user import LabUser

#: Takes what enroot's import takes, and what it takes from its environment and its configuration. A registry wants the
#: password that lies in the folder below, under its name.
ENROOT = r"""#!/bin/bash
set -u
here=$(dirname "$0")
[[ $1 = import && $2 = --output && $4 = -- ]] || { echo "[ERROR] Invalid arguments: $*"; exit 1; }
output=$3 image=$5
registry=registry-1.docker.io
if [[ $image = *'#'* ]]; then registry=${image%%#*} registry=${registry##*[/@]}; fi
echo "[INFO] Querying registry for permission grant"
config=$ENROOT_CONFIG_PATH
{ printf '%s\n' "processors $ENROOT_MAX_PROCESSORS" "mode $(stat -c %a "$config")" "config $config"
  env; tr '\0' '\n' </proc/$$/cmdline; } >"$here/seen"
if [[ -e $here/passwords/$registry ]] &&
  ! grep -qF " password $(<"$here/passwords/$registry")" "$config/.credentials" 2>/dev/null; then
  echo "[ERROR] URL https://$registry/v2/ returned error code: 401 Unauthorized" >&2
  exit 1
fi
[[ ! -e $output ]] || { echo "[ERROR] File already exists: $output"; exit 1; }
cp "$here/image" "$output"
if [[ -e $here/slow ]]; then touch "$here/halfway"; sleep 300; fi
echo "[INFO] Creating squashfs filesystem..."
"""
GCLOUD = r"""#!/bin/bash
[[ $* = "auth print-access-token" ]] || exit 2
cat "$(dirname "$0")/token" 2>/dev/null && exit
echo "ERROR: (gcloud.auth.print-access-token) You do not have an active account" >&2
exit 1
"""


class Tools:
    """The folder; ``seen`` is what enroot was given."""

    def __init__(self, user: LabUser, folder: Path, image: Path) -> None:
        self.folder = user.make_dir(folder)
        self._user = user
        (folder / "passwords").mkdir()
        for name, text in (("enroot", ENROOT), ("gcloud", GCLOUD), ("image", image.read_text())):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def password(self, registry: str, password: str) -> None:
        """Without it, this registry gives nothing."""
        (self.folder / "passwords" / registry).write_text(password)

    def token(self, text: str) -> None:
        """What gcloud prints."""
        (self.folder / "token").write_text(text)

    def slow(self) -> None:
        """enroot stops halfway, with a part of the file written."""
        (self.folder / "slow").touch()

    @property
    def halfway(self) -> bool:
        return (self.folder / "halfway").exists()

    @property
    def seen(self) -> str:
        return (self.folder / "seen").read_text()

    def path(self, before: str) -> str:
        return os.pathsep.join((str(self.folder), before))
