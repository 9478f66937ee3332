"""Slurm's words in plain ones: job states and the reasons why a job waits or ended. Tables, nothing else."""

from __future__ import annotations

from functools import cache

from nemo_launch.executors.base import State

#: Where the job itself did not write how much it may use.
OUT_OF_MEMORY = "ran out of memory: ask for more (mem)"

#: State -> ours, and what there is to say about it. A word that is not here is UNKNOWN, never an exception.
STATES: dict[str, tuple[State, str]] = {
    "PENDING": (State.PENDING, ""),
    "CONFIGURING": (State.PENDING, "its nodes are being made ready"),
    "POWER_UP_NODE": (State.PENDING, "its nodes are being started"),
    "REQUEUED": (State.PENDING, "put back into the queue"),
    "REQUEUE_FED": (State.PENDING, "put back into the queue"),
    "REQUEUE_HOLD": (State.PENDING, "put back into the queue and held; scontrol release lets it go on"),
    "SPECIAL_EXIT": (State.PENDING, "put back into the queue and held; scontrol release lets it go on"),
    "RESV_DEL_HOLD": (State.PENDING, "held because its reservation was deleted"),
    "RUNNING": (State.RUNNING, ""),
    "COMPLETING": (State.RUNNING, "ending"),
    "SIGNALING": (State.RUNNING, "being signalled"),
    "STAGE_OUT": (State.RUNNING, "its data is being copied out"),
    "RESIZING": (State.RUNNING, "changing its size"),
    "SUSPENDED": (State.RUNNING, "suspended by the scheduler; it goes on later"),
    "STOPPED": (State.RUNNING, "stopped by a signal, its nodes are kept"),
    "COMPLETED": (State.SUCCEEDED, ""),
    "CANCELLED": (State.CANCELLED, "cancelled"),
    "FAILED": (State.FAILED, ""),
    "TIMEOUT": (State.FAILED, "reached its time limit"),
    "DEADLINE": (State.FAILED, "could not end before its deadline"),
    "NODE_FAIL": (State.FAILED, "a node failed"),
    "BOOT_FAIL": (State.FAILED, "a node did not start"),
    "OUT_OF_MEMORY": (State.FAILED, OUT_OF_MEMORY),
    "PREEMPTED": (State.FAILED, "preempted by another job; launch it again to go on from its last checkpoint"),
    "LAUNCH_FAILED": (State.FAILED, "the scheduler could not start it on its nodes"),
    "RECONFIG_FAIL": (State.FAILED, "the scheduler could not set up its nodes"),
    "REVOKED": (State.UNKNOWN, "another cluster of the federation took it"),
}

#: Ends after which Slurm puts a job back into the queue by itself, if it may.
MAY_START_AGAIN = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REQUEUED")

#: Why a job waits, or why it ended. The longest key that the reason begins with counts, so that ``QOSMax`` speaks for
#: all of Slurm's QOSMax… limits; the reason itself is shown with it then. One that is not here is shown as it is.
REASONS: dict[str, str] = {
    # its turn
    "None": "",
    "Priority": "waits for its turn in the queue",
    "Resources": "waits for free resources",
    "Dependency": "waits for the tasks that it depends on",
    "DependencyNeverSatisfied": "a task that it depends on did not succeed",
    "BeginTime": "waits for its start time",
    "JobArrayTaskLimit": "waits for others of its array: only so many may run at once",
    "Licenses": "waits for licences",
    "Reservation": "waits for its reservation",
    "SchedDefer": "waits for the scheduler's next round",
    "Prolog": "its nodes are being made ready",
    "Cleaning": "its last run is still being cleaned up",
    "BurstBuffer": "waits for its burst buffer",
    "burst_buffer": "waits for its burst buffer",
    "FedJobLock": "waits for the other clusters of its federation",
    "PowerNotAvail": "waits for electric power",
    "PowerReserved": "waits for electric power",
    # held
    "JobHeldUser": "held by its user; scontrol release lets it go on",
    "JobHeldAdmin": "held by an administrator; ask the site",
    "JobHoldMaxRequeue": "held after too many restarts; scontrol release lets it go on",
    "launch_failed_requeued_held": "could not be started, and is held; scontrol release lets it go on",
    "job_requeued_in_held_state": "put back into the queue and held; scontrol release lets it go on",
    "ReservationDeleted": "its reservation was deleted; ask for another one",
    # nodes and partitions
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved",
    "NodeDown": "a node that it needs is down",
    "Nodes_required_for_job": "nodes that it needs are down, drained or reserved for others",
    "BadConstraints": "no node can give what it asks for",
    "PartitionDown": "its partition is down; it starts when the site opens it again",
    "PartitionInactive": "its partition is closed; it starts when the site opens it again",
    "PartitionNodeLimit": "asks for more nodes than its partition allows, or than are up",
    "PartitionTimeLimit": "asks for more time than its partition allows",
    "PartitionConfig": "asks for more than its partition has",
    "FrontEndDown": "the machine that starts jobs is down",
    # limits of the QOS
    "QOS": "a limit of its QOS is reached",
    "QOSGrp": "a limit of its QOS is reached by all who share it; it starts when some of their jobs have ended",
    "QOSMax": "a limit of its QOS is reached; it starts when others of your jobs end, or asks for too much",
    "QOSMin": "asks for less than its QOS demands",
    "QOSMaxWallDuration": "asks for more time than its QOS allows",
    "QOSMaxJobsPer": "you run as many jobs as your QOS allows; it starts when one of them has ended",
    "QOSNotAllowed": "its QOS may not be used in this partition",
    "QOSUsageThreshold": "your share of the cluster is used up in this QOS",
    "QOSTimeLimit": "asks for more time than its QOS allows",
    "InvalidQOS": "its QOS does not exist or may not be used",
    # limits of the account
    "Assoc": "a limit of its account is reached",
    "AssocGrp": "a limit of its account is reached by all who share it; it starts when some of their jobs have ended",
    "AssocMax": "a limit of its account is reached; it starts when others of your jobs end, or asks for too much",
    "AssocMaxWallDuration": "asks for more time than its account allows",
    "AssocMaxJobs": "you run as many jobs as your account allows; it starts when one of them has ended",
    "AssociationJobLimit": "its account has reached its number of jobs",
    "AssociationResourceLimit": "its account has reached a limit of resources",
    "AssociationTimeLimit": "its account has used up its time",
    "AccountingPolicy": "a limit of its account is reached",
    "AccountNotAllowed": "its account may not use this partition",
    "InvalidAccount": "its account does not exist or may not be used",
    "Max": "a limit of its account is reached",
    # ends
    "NonZeroExitCode": "",
    "JobLaunchFailure": (
        "the scheduler could not start its script. Mostly this is because the nodes do not see the experiment "
        "directory: set job_dir to a folder that they share with this machine"
    ),
    "OutOfMemory": OUT_OF_MEMORY,
    "TimeLimit": "reached its time limit",
    "DeadLine": "could not end before its deadline",
    "SystemFailure": "the scheduler itself failed",
    "InactiveLimit": "was inactive for too long",
}

#: A script that started, but not in its folder.
UNSEEN = "the nodes do not see the experiment directory: set job_dir to a folder that they share with this machine"

#: The words of a pending job that will never start.
NEVER = "DependencyNeverSatisfied"

#: Longest first.
_KEYS = sorted(REASONS, key=len, reverse=True)


@cache
def state(word: str) -> tuple[State, str]:
    """Slurm's state (``CANCELLED by 1001``, ``COMPLETED+`` …) as ours, with what there is to say about it."""
    first = word.split()[0].rstrip("+") if word.split() else ""
    unknown = f"Slurm says {word or 'nothing'}, which this version does not know"
    found, text = STATES.get(first, (State.UNKNOWN, unknown))
    if first == "CANCELLED" and " by " in word:
        text = f"cancelled by user {word.rpartition(' by ')[2]}"
    return found, text


@cache
def reason(word: str) -> str:
    """A reason code in plain words, with the code itself where it says more."""
    for key in _KEYS:
        if word.startswith(key):
            text = REASONS[key]
            return f"{text} ({word})" if text and word != key else text
    return word
