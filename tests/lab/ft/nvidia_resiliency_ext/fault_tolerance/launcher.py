"""A stand-in for ft_launcher on one node: starts all ranks again, with another port, when one of them fails."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time


def main(args: list[str]) -> None:
    """Ends with 0 when all ranks of a round did, with 1 when there is no restart left."""
    print("ft_launcher stand-in:", *args[: args.index("--no-python")], flush=True)
    parser = argparse.ArgumentParser()
    parser.add_argument("--nproc-per-node", type=int)
    parser.add_argument("--max-restarts", type=int)
    parser.add_argument("--no-python", action="store_true")
    known, command = parser.parse_known_args(args)
    command = args[args.index("--no-python") + 1 :]
    for number in range(known.max_restarts + 1):
        ranks = [
            subprocess.Popen(
                command,
                start_new_session=True,
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(known.nproc_per_node),
                    "MASTER_PORT": str(20000 + number),
                },
            )
            for rank in range(known.nproc_per_node)
        ]
        while all(rank.poll() in (None, 0) for rank in ranks):
            if all(rank.poll() == 0 for rank in ranks):
                sys.exit(0)
            time.sleep(0.05)
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(rank.pid, signal.SIGTERM)
        for rank in ranks:
            rank.wait()
    sys.exit(1)
