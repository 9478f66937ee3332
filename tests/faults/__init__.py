"""Fault injection: slow or lying Slurm commands, a launcher killed at a chosen instant, full and read-only disks.

The product knows nothing of it. Faults come from outside: a PATH whose commands wrap the real ones, a kill by
observation of what is on disk, a small file system.
"""

from tests.faults.disk import fill, path_without, small_disk, unwritable
from tests.faults.kill import after, exists, kill_at
from tests.faults.wrappers import Call, Rules, WrappedCommands, slow_sbatch

__all__ = [
    "Call",
    "Rules",
    "WrappedCommands",
    "after",
    "exists",
    "fill",
    "kill_at",
    "path_without",
    "slow_sbatch",
    "small_disk",
    "unwritable",
]
