"""``run.py import-image`` on a real cluster, with stand-ins for enroot and gcloud on the nodes."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.lab import Lab, Launcher
from tests.lab.pyxis import Images
from tests.lab.pyxis.enroot import Tools

SECRET = "s3cr3t-$&'"
IMAGE = "docker://nvcr.io#nvidia/nemo:25.02"


@dataclass
class Importer:
    """A user who imports images on a cluster whose nodes have enroot."""

    launcher: Launcher
    tools: Tools

    def __call__(self, *words: str | Path, **env: str) -> CompletedProcess[str]:
        path = self.tools.path(self.launcher.env()["PATH"])
        return self.launcher("import-image", "-p", "a3m", *words, env={"PATH": path, **env})

    @property
    def target(self) -> Path:
        return self.launcher.work / "nemo.sqsh"

    def left(self) -> list[str]:
        """What lies beside the target that no one asked for."""
        return [path.name for path in self.launcher.work.iterdir() if path.name.endswith(".part")]

    def leaks(self, secret: str) -> list[Path]:
        """Files of the runs, and what enroot was given other than its credentials, that hold a secret."""
        files = [path for path in self.launcher.runs.rglob("*") if path.is_file()] + [self.tools.folder / "seen"]
        return [path for path in files if path.exists() and secret.encode() in path.read_bytes()]


@pytest.fixture
def importer(
    make_launcher: Callable[[Lab | None], Launcher],
    make_workspace: Callable[[], Path],
    slurm_pyxis: Lab,
    images: Images,
) -> Iterator[Importer]:
    launcher = make_launcher(slurm_pyxis)
    yield Importer(launcher, Tools(launcher.user, make_workspace() / "tools", images.without_bash))


@pytest.mark.slow
def test_the_file_is_made_by_a_job_and_can_be_started(importer: Importer) -> None:
    done = importer(IMAGE, "nemo.sqsh", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    (task,) = json.loads(done.stdout)["tasks"]
    assert (task["name"], task["state"]) == ("import-nemo", "SUCCEEDED")
    log = Path(task["directory"], f"{task['job_id']}.log").read_text()
    assert f"importing {IMAGE} on a3m-" in log and f"{importer.target} is complete" in log
    assert "processors 8\n" in importer.tools.seen and "mode 700\n" in importer.tools.seen
    found = re.search("^config (.*)", importer.tools.seen, re.MULTILINE)
    assert found and not Path(found[1]).exists()
    assert importer.left() == []
    assert importer.launcher("logs", "import-nemo").stdout == log
    importer.launcher.write("a.sh", "cat /etc/stand-in-image\n")
    run = importer.launcher("-e", "slurm", "-p", "a3m", "-i", "nemo.sqsh", "-s", "a.sh", "--follow")
    assert run.stdout.startswith("without-bash\n"), run


@pytest.mark.slow
def test_a_file_that_is_there_stays_until_the_new_one_is_complete(importer: Importer) -> None:
    importer.launcher.write("nemo.sqsh", "old\n")
    importer.tools.password("nvcr.io", SECRET)
    done = importer(IMAGE, "nemo.sqsh", "--wait")
    assert done.returncode == 1
    assert (
        "- Reason: enroot could not import docker://nvcr.io#nvidia/nemo:25.02: [ERROR] URL https://nvcr.io"
        in done.stdout
    )
    assert (importer.target.read_text(), importer.left()) == ("old\n", [])
    (importer.tools.folder / "passwords" / "nvcr.io").unlink()
    assert importer(IMAGE, "nemo.sqsh", "--wait").returncode == 0
    assert importer.target.read_text() != "old\n"


@pytest.mark.slow
def test_cancelled_halfway_nothing_is_left(importer: Importer) -> None:
    importer.launcher.write("nemo.sqsh", "old\n")
    importer.tools.slow()
    assert importer(IMAGE, "nemo.sqsh").returncode == 0
    deadline = time.monotonic() + 90
    while not importer.tools.halfway and time.monotonic() < deadline:
        time.sleep(0.1)
    assert importer.left()
    done = importer.launcher("cancel", "import-nemo")
    assert done.returncode == 0, done
    waited = importer.launcher("status", "import-nemo", "--wait")
    assert "- Status: CANCELLED\n" in waited.stdout
    while importer.left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (importer.left(), importer.target.read_text()) == ([], "old\n")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["enroot", "docker", "gcloud"])
def test_credentials_reach_enroot_and_no_other_place(importer: Importer, place: str) -> None:
    registry = "europe-docker.pkg.dev" if place == "gcloud" else "nvcr.io"
    importer.tools.password(registry, SECRET)
    home = importer.launcher.home
    if place == "enroot":
        (home / ".config" / "enroot").mkdir(parents=True)
        (home / ".config" / "enroot" / ".credentials").write_text(f"machine nvcr.io login me password {SECRET}\n")
    elif place == "docker":
        (home / ".docker").mkdir()
        auth = base64.b64encode(f"me:{SECRET}".encode()).decode()
        (home / ".docker" / "config.json").write_text(json.dumps({"auths": {"nvcr.io": {"auth": auth}}}))
    else:
        importer.tools.token(SECRET)
    dry = importer(f"docker://{registry}#nvidia/nemo:25.02", "nemo.sqsh", "--dry-run")
    assert dry.returncode == 0 and SECRET not in dry.stdout + dry.stderr
    done = importer(f"docker://{registry}#nvidia/nemo:25.02", "nemo.sqsh", "--wait")
    assert done.returncode == 0, done.stdout
    assert importer.target.exists() and importer.leaks(SECRET) == []
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.slow
def test_an_account_that_gcloud_does_not_know_is_said(importer: Importer) -> None:
    importer.tools.password("us-docker.pkg.dev", SECRET)
    done = importer("docker://us-docker.pkg.dev/p/r/nemo:1", "nemo.sqsh", "--wait")
    assert done.returncode == 1
    log = importer.launcher("logs", "import-nemo").stdout
    assert re.search(r"gave no token on a3m-\d: .*You do not have an active account", log)
    assert "taken for docker://us-docker.pkg.dev#p/r/nemo:1" in done.stderr


@pytest.mark.slow
def test_nodes_without_enroot(importer: Importer) -> None:
    done = importer.launcher("import-image", "-p", "a3m", IMAGE, "nemo.sqsh", "--wait")
    assert done.returncode == 1
    assert re.search(r"- Reason: there is no enroot on a3m-\d, which makes image files\. Choose nodes", done.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nvcr.io/nvidia/nemo:1", "n.sqsh"], "IMAGE: 'nvcr.io/nvidia/nemo:1' is no image of a registry. Did you mean"),
        (["docker://me:s3cr3t@nvcr.io#a", "n.sqsh"], "IMAGE: it holds a password. Everybody can read command lines"),
        (["docker://a b", "n.sqsh"], "IMAGE: 'docker://a b' is no image of a registry. Write docker://"),
        ([IMAGE, "gs://b/n.sqsh"], "TARGET: 'gs://b/n.sqsh' is no path"),
        ([IMAGE, "/tmp"], "TARGET: /tmp is a directory. Name a file in it: /tmp/image.sqsh"),
        ([IMAGE, "n.sqsh", "-e", "local"], "-e/--executor: images are imported by Slurm jobs"),
        ([IMAGE, "n.sqsh", "--time", "soon"], "--time"),
        ([IMAGE], "the following arguments are required: TARGET"),
    ],
)
def test_what_cannot_be_imported_is_refused(launcher: Launcher, words: list[str], said: str) -> None:
    done = launcher("import-image", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "s3cr3t" not in done.stderr
    assert not list(launcher.runs.iterdir())
