"""What is shown to a registry: found where people keep it, and written as enroot reads it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from nemo_launch.cli.credentials import netrc


def docker(home: Path, **config: object) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker" / "config.json").write_text(json.dumps(config))


def auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def enroot(home: Path, text: str) -> None:
    (home / ".config" / "enroot").mkdir(parents=True)
    (home / ".config" / "enroot" / ".credentials").write_text(text)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def test_where_nothing_is_known_nothing_is_said(tmp_path: Path, environ: dict[str, str]) -> None:
    assert netrc("nvcr.io", environ) == ""
    docker(tmp_path, auths={"ghcr.io": auth("me:pw"), "nvcr.io": {}})
    assert netrc("nvcr.io", environ) == ""
    (tmp_path / ".docker" / "config.json").write_text("half {")
    assert netrc("ghcr.io", environ) == ""


def test_dockers_login_becomes_lines_for_every_machine_that_asks(tmp_path: Path, environ: dict[str, str]) -> None:
    hub = "https://index.docker.io/v1/"
    docker(tmp_path, auths={"nvcr.io": auth("$oauthtoken:p:w"), hub: auth("me:pw"), "https://reg.example": auth("a:b")})
    assert netrc("nvcr.io", environ).splitlines() == [
        "machine nvcr.io login $oauthtoken password p:w",
        "machine authn.nvidia.com login $oauthtoken password p:w",
    ]
    assert "machine auth.docker.io login me password pw" in netrc("", environ)
    assert netrc("reg.example", environ) == "machine reg.example login a password b"


@pytest.mark.parametrize("bad", ["no colon", ":pw", "me:", "me:p w", "me:p\nmachine x"])
def test_a_login_that_a_netrc_file_cannot_say_is_left_out(tmp_path: Path, environ: dict[str, str], bad: str) -> None:
    docker(tmp_path, auths={"r.example": auth(bad)})
    assert netrc("r.example", environ) == ""


def test_enroots_own_file_comes_first_and_stays_whole(tmp_path: Path, environ: dict[str, str]) -> None:
    own = "machine nvcr.io login $oauthtoken\n  password $(cat key)\n"
    enroot(tmp_path, own)
    docker(tmp_path, auths={"nvcr.io": auth("me:pw"), "ghcr.io": auth("me:pw")})
    assert netrc("nvcr.io", environ) == own
    assert netrc("ghcr.io", environ) == own.strip() + "\nmachine ghcr.io login me password pw"


def test_a_helper_program_is_asked(tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-safe"
    helper.write_text(
        '#!/bin/sh\nread -r name\n[ "$1 $name" = "get ghcr.io" ] || exit 1\n'
        'echo \'{"Username": "me", "Secret": "pw"}\'\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    docker(tmp_path, credsStore="safe")
    assert netrc("ghcr.io", environ) == "machine ghcr.io login me password pw"
    assert netrc("nvcr.io", environ) == ""
    docker(tmp_path, credHelpers={"ghcr.io": "none-such"})
    assert netrc("ghcr.io", environ) == ""
