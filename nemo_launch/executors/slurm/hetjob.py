"""Commands of a group that differ in what they ask of Slurm: the parts of one heterogeneous job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from nemo_launch import groups
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.executors.slurm import commands
from nemo_launch.task import Member


def parts(shared: Sequence[Sequence[Member]]) -> list[SlurmConfig]:
    """What each part asks for (``groups.parts``).

    A site default such as ``SBATCH_PARTITION`` weighs more than a directive and would be every part's: where there are
    several, it is written to those that it is meant for, and no longer left to sbatch.
    """
    configs = [cast("SlurmConfig", groups.outer(members)) for members in shared]
    if len(configs) < 2:
        return configs
    return [replace(config, **commands.given_by_site(config, os.environ)) for config in configs]
