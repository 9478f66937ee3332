"""A stand-in for one Slurm command, which it calls: installed under that command's name by wrappers.py.

It runs apart from the tests, started by the launcher and without site packages, so that it costs little.
"""

import json
import os
import subprocess
import sys
import time

HERE, NAME = os.path.split(os.path.abspath(sys.argv[0]))


def number_of_this_call() -> int:
    """1 for the first call, 2 for the second; calls at the same time get different numbers."""
    number = 1
    while True:
        try:
            os.close(os.open(f"{HERE}/{NAME}.{number}", os.O_CREAT | os.O_EXCL))
            return number
        except FileExistsError:
            number += 1


def mark(number: int, phase: str, **facts: object) -> None:
    """Leaves ``sbatch.1.entered`` or the like, complete from the instant it can be seen."""
    name = f"{HERE}/{NAME}.{number}.{phase}"
    with open(f"{name}.new", "w") as out:
        json.dump({"time": time.time(), **facts}, out)
    os.rename(f"{name}.new", name)


def pause(seconds: float, held: bool) -> None:
    """A delay; a held one begins when the test says so, or after a minute and a half that nobody should need."""
    deadline = time.monotonic() + 90
    while seconds and held and not os.path.exists(f"{HERE}/release") and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(seconds)


def main() -> int:
    """Does to the real command what the rules say."""
    with open(f"{HERE}/rules.json") as text:
        rules = json.load(text)[NAME]
    number = number_of_this_call()
    mark(number, "entered", argv=sys.argv[1:], pid=os.getpid())
    pause(rules["before"], rules["held"] == number)
    if number <= rules["refuse_first"]:
        sys.stderr.write(rules["error"] + "\n")
        mark(number, "returned", status=1, stdout="")
        return 1
    done = subprocess.run([rules["real"], *sys.argv[1:]], stdout=subprocess.PIPE)  # input and errors: the caller's
    mark(number, "returned", status=done.returncode, stdout=done.stdout.decode("utf-8", "replace"))
    pause(rules["after"], rules["held"] == number)
    if number <= rules["fail_first"]:
        sys.stderr.write(rules["error"] + "\n")
        return 1
    said = b"" if rules["silent"] else done.stdout
    if rules["suffix"] and said:
        said = said.rstrip(b"\n") + rules["suffix"].encode() + b"\n"
    sys.stdout.buffer.write(rules["banner"].encode() + said + rules["trailer"].encode())
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
