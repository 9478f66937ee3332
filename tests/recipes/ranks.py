"""Real ranks of a recipe, started as fast as can be: forked from one process that has loaded torch already."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).parents[2] / "recipes"
#: Seconds that a handful of steps may take on a machine that has much else to do.
PATIENCE = 120.0
PRELOAD = [
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint.state_dict",
    "transformers.models.llama.modeling_llama",
    "transformers.models.auto.modeling_auto",
    "fiddle",
    "yaml",
]


@dataclass
class Ranks:
    """The processes of one run, and what they print."""

    processes: Sequence[ForkServerProcess]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """To all ranks, as a launcher sends it."""
        for process in self.processes:
            if process.pid and process.is_alive():
                os.kill(process.pid, number)

    def until(self, happened: Callable[[], object], what: str) -> None:
        """Wait for something while the ranks run."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            alive = all(process.is_alive() for process in self.processes)
            assert alive or happened(), f"ended without {what}:\n{self.log}"
            assert time.monotonic() < deadline, f"no {what}:\n{self.log}"
            time.sleep(0.01)

    def says(self, text: str) -> None:
        """Wait until the log has it."""
        self.until(lambda: text in self.log, repr(text))

    def wait(self) -> list[int | None]:
        """The exit codes of all ranks. Once one has failed, the others are ended, as every launcher does."""
        deadline = time.monotonic() + PATIENCE
        while any(process.is_alive() for process in self.processes):
            failed = any(process.exitcode for process in self.processes)
            if failed or time.monotonic() > deadline:
                for process in self.processes:
                    process.join(1)
                self.signal(signal.SIGKILL)
            time.sleep(0.01)
        return [process.exitcode for process in self.processes]


def free_port() -> int:
    """A port for a rendezvous: below those that the kernel gives to whoever connects meanwhile."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def start(recipe: str, words: Sequence[object], folder: Path, count: int, env: Mapping[str, str]) -> Ranks:
    """Start `count` ranks in `folder`, which is the task's folder, too."""
    context = _context()
    folder.mkdir(exist_ok=True)
    log_file = folder / f"log-{time.monotonic_ns()}"
    log_file.touch()
    port = free_port()
    processes = []
    for rank in range(count):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
        whole = {"MASTER_ADDR": "127.0.0.1", "NEMO_LAUNCH_TASK_DIR": str(folder), "HF_HUB_OFFLINE": "1", **env}
        settings = {**{name: str(value) for name, value in place.items()}, **whole}
        process = context.Process(target=_rank, args=(recipe, [str(word) for word in words], settings, log_file))
        process.start()
        processes.append(process)
    return Ranks(processes, log_file)


def call(function: Callable[[Path], None], folder: Path) -> None:
    """Call a function of a test module where torch is loaded; it may write to the folder."""
    process = _context().Process(target=function, args=(folder,))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


def _rank(recipe: str, words: Sequence[str], env: Mapping[str, str], log_file: Path) -> None:
    log = os.open(log_file, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(log, standard)
    for name in [name for name in os.environ if name.startswith("NEMO_LAUNCH_")]:
        del os.environ[name]
    os.environ.update(env)
    if limit := env.get(f"FILE_SIZE_LIMIT_OF_RANK_{env['RANK']}"):  # a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    os.chdir(env["NEMO_LAUNCH_TASK_DIR"])
    sys.path.insert(0, str(RECIPES))
    run(recipe, words)


def run(recipe: str, words: Sequence[str]) -> None:
    """Build a recipe file's recipe with `key=value` words, and call it."""
    import fiddle

    with loaded(recipe, words) as root:
        fiddle.build(root)()  # in here, where its modules are the ones that it was made from


@contextlib.contextmanager
def loaded(recipe: str, words: Sequence[str] = ()) -> Iterator[Any]:
    """What the recipe file's `recipe()` returns, with `key=value` words applied."""
    from nemo_launch.buildables.loading import recipe_of
    from nemo_launch.buildables.overrides import apply

    with recipe_of(str(RECIPES / recipe), [str(RECIPES)]) as root:
        assert apply(root, words) == []
        yield root
