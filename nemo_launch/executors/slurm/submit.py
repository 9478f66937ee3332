"""sbatch: what is run, how its answer is read, and what is known when there was none."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest

from nemo_launch.errors import SchedulerError, SchedulerRefused, Unreachable
from nemo_launch.executors.base import Handle, Job, Ledger, Plan, Recovery
from nemo_launch.executors.slurm import commands, query
from nemo_launch.transport import CommandMissing, Completed, Transport

#: sbatch itself goes on trying for some minutes when the controller is busy.
TIMEOUT = 600.0
#: Between an error that leaves it open whether the job was accepted and the first look for it.
_SETTLE = 1.0
#: The request did not get through, so there can be no job.
_NEVER_ARRIVED = re.compile(
    r"connect failure|connection refused|temporarily una(?:ble|vailable)|configuration source", re.IGNORECASE
)
_ID = re.compile(r"([0-9]+)(?:;(\S+))?")


def command(script: str, after: Sequence[Handle] = (), dependency: str | None = None) -> tuple[str, ...]:
    """The words that submit a script, after those jobs have succeeded and ``dependency`` (sbatch's words) is fulfilled.

    A dependant that can never start is removed by Slurm itself and does not pend for ever.
    """
    conditions = [dependency] if dependency else []
    if after:
        conditions.append("afterok:" + ":".join(handle.job_id for handle in after))
    if not conditions:
        return ("sbatch", "--parsable", script)
    return ("sbatch", "--parsable", f"--dependency={','.join(conditions)}", "--kill-on-invalid-dep=yes", script)


def ids(stdout: str) -> list[Handle]:
    """``42`` or ``42;alpha``, from lines that are nothing else."""
    matches = (_ID.fullmatch(line.strip()) for line in stdout.splitlines())
    return [Handle(match[1], cluster=match[2]) for match in matches if match]


def write_files(transport: Transport, plan: Plan, secrets_file: bytes | None) -> None:
    """The job's folder: script, runner, and (only where it must be) the secrets.

    Nothing of it is the record of a job, and sbatch reads the script at once: not worth a flush to disk for each file.
    """
    for name, data in plan.files.items():
        transport.write(os.path.join(plan.paths.job_dir, name), data, sync=False)
    if secrets_file is not None:
        transport.make_dirs(os.path.dirname(plan.paths.secrets), 0o700)
        transport.write(plan.paths.secrets, secrets_file, 0o600)
    transport.write(plan.paths.script, plan.script.encode("utf-8", "surrogateescape"), sync=False)


def submit_all(
    plans: Sequence[Plan],
    prepare: Callable[[Plan], Mapping[str, str]],
    send: Callable[[Plan, Mapping[str, str], Callable[[], None]], None],
    ledger: Ledger,
) -> None:
    """One plan after the other. While the scheduler answers for one, the next is prepared.

    Args:
        plans: in the order of their ids.
        prepare: writes what the job needs and its intent; returns the environment of its sbatch.
        send: runs sbatch; its last argument is to be called meanwhile.
        ledger: when a plan fails, the intent of the one that was prepared ahead is withdrawn.
    """
    ahead: list[Mapping[str, str] | Exception] = []

    def prepared(plan: Plan) -> None:
        try:
            ahead.append(prepare(plan))
        except Exception as error:  # its turn comes once the one before it is recorded
            ahead.append(error)

    for plan, following in zip_longest(plans, plans[1:]):
        env = ahead.pop() if ahead else prepare(plan)
        if isinstance(env, Exception):
            raise env
        try:
            send(plan, env, partial(prepared, following) if following else lambda: None)
        except BaseException:
            if ahead and not isinstance(ahead[0], Exception):
                ledger.withdrawn(following)
            raise


def submit(
    transport: Transport,
    plan: Plan,
    env: Mapping[str, str],
    argv: Sequence[str],
    ledger: Ledger,
    meanwhile: Callable[[], None] | None = None,
) -> Handle:
    """Run sbatch (``argv``) for one plan, whose intent is recorded; the id is recorded before this returns.

    ``meanwhile`` is called while it runs.

    Raises:
        SchedulerRefused: it said no; the intent is void.
        Unreachable: it did not answer. Where it is unknown whether there is a job, the intent stays and ``recover``
            finds out.
    """
    began = time.time()
    try:
        done = transport.run((_program(transport, env), *argv[1:]), env=env, timeout=TIMEOUT, meanwhile=meanwhile)
    except CommandMissing as error:
        _void(transport, plan, ledger, str(error))
        raise
    except Unreachable as error:
        return _unclear(transport, plan, began, ledger, str(error))
    found = ids(done.stdout) if done.returncode == 0 else []
    if found:
        handle = _the_jobs(transport, plan, began, found)
        ledger.submitted(plan, handle)
        return handle
    if done.returncode == 0:
        text = f"sbatch ended well but gave no job id. It said: {_streams(done)}"
        return _unclear(transport, plan, began, ledger, text, SchedulerRefused)
    if done.returncode > 0 and _never_arrived(done.stderr):
        _void(transport, plan, ledger, done.stderr.strip())
        raise Unreachable(f"{plan.task.name} was not submitted: {_words(done)} Try again later.")
    if done.returncode < 0 or query.unreachable(done.stderr):
        return _unclear(transport, plan, began, ledger, f"sbatch had no answer: {_streams(done)}")
    _void(transport, plan, ledger, done.stderr.strip())
    raise SchedulerRefused(f"sbatch refused {plan.task.name}: {_words(done)}{_remedy(transport, plan, done)}")


def _the_jobs(transport: Transport, plan: Plan, began: float, found: Sequence[Handle]) -> Handle:
    """Which of several numbers is the id, by the script; where nobody can say, the last: banners come before it."""
    if len({handle.job_id for handle in found}) > 1:
        from nemo_launch.executors.slurm import recovery

        job = Job(plan.task.name, plan.paths, intended=began)
        answer = recovery.recover(transport, [job])[job.key]
        if isinstance(answer, Handle):
            return next((handle for handle in found if handle.job_id == answer.job_id), answer)
    return found[-1]


def _never_arrived(said: str) -> bool:
    """sbatch tries again by itself: the last line counts, unless an earlier try may have arrived."""
    lines = said.strip().splitlines()
    return bool(lines and _NEVER_ARRIVED.search(lines[-1]) and "timed out" not in said.lower())


def _program(transport: Transport, env: Mapping[str, str]) -> str:
    """sbatch is found on the launcher's PATH, although the job may get another."""
    own = commands.query()
    if env.get("PATH") == own.get("PATH"):
        return "sbatch"
    done = transport.run(["sh", "-c", "command -v sbatch"], env=own)
    return done.stdout.strip() or "sbatch"


def _void(transport: Transport, plan: Plan, ledger: Ledger, reason: str) -> None:
    """There is no job for certain."""
    transport.remove(plan.paths.secrets)
    ledger.refused(plan, reason)


def _unclear(
    transport: Transport,
    plan: Plan,
    began: float,
    ledger: Ledger,
    text: str,
    error: type[SchedulerError] = Unreachable,
) -> Handle:
    """The job may exist: look for it by its script before saying anything."""
    from nemo_launch.executors.slurm import recovery

    time.sleep(_SETTLE)
    job = Job(plan.task.name, plan.paths, intended=began)
    answer = recovery.recover(transport, [job])[job.key]
    if isinstance(answer, Handle):
        ledger.submitted(plan, answer)
        return answer
    if answer is Recovery.GONE:
        _void(transport, plan, ledger, text)
        raise error(f"{plan.task.name} was not submitted: {text}")
    raise error(
        f"whether {plan.task.name} was submitted cannot be said yet: {text} Nothing is lost: status finds the job by "
        "its script once the scheduler answers, and the same launch again does not double it."
    )


def _remedy(transport: Transport, plan: Plan, done: Completed) -> str:
    """What to do about a refusal, where more is known than Slurm says."""
    said = done.stderr.lower()
    if "invalid partition" in said:
        from nemo_launch.executors.slurm import check

        try:
            found = check.partitions(transport)
        except SchedulerError:
            found = []
        return f" The partitions are: {check.listed(found)}." if found else ""
    if "node count specification invalid" in said:
        # Not known before: sinfo shows no cloud nodes that are powered down.
        return " The partition has fewer nodes than that, or its limits allow fewer: ask for less with nodes."
    if "invalid account" in said:
        return " sacctmgr show associations user=$USER shows the accounts that you may use; set account."
    if "time limit" in said:
        return " Set time to less than the partition's limit, which sinfo shows."
    return ""


def _words(done: Completed) -> str:
    """Slurm's own words as one sentence."""
    lines = [line.removeprefix("sbatch: ").removeprefix("error: ").strip() for line in done.stderr.splitlines()]
    text = "; ".join(line for line in lines if line) or f"status {done.returncode} and no message"
    return text if text.endswith(".") else f"{text}."


def _streams(done: Completed) -> str:
    return f"stdout {done.stdout!r}, stderr {done.stderr!r} (status {done.returncode})."
