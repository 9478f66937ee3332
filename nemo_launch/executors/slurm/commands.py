"""Which environment each of Slurm's commands gets, so that what is set around the launcher changes no answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_launch.config.executor import SlurmConfig
    from nemo_launch.task import Task

#: Seconds for a question before a submission: Slurm's commands themselves go on trying for a minute and more.
PATIENCE = 15.0
#: Where the cluster is; clients fail without it on sites that set it.
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER")
#: Site defaults that count outside a job; inside one they are the surrounding job's.
_SITE_DEFAULTS = {"SBATCH_ACCOUNT": "account", "SBATCH_PARTITION": "partition", "SBATCH_QOS": "qos"}
#: What changes the answers of squeue, sacct, sinfo, scancel and scontrol.
_ASKING = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_", "SCONTROL_", "SLURM_", "SBATCH_")


def inside_job(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the launcher itself runs in a Slurm job."""
    return "SLURM_JOB_ID" in (os.environ if environ is None else environ)


def site_defaults(config: SlurmConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """``SBATCH_ACCOUNT`` and the like, where they are the site's or the user's defaults.

    For sbatch they weigh more than a directive, so they must not be there when the field is set.
    """
    if inside_job(environ):
        return {}
    unset = {name for name, field in _SITE_DEFAULTS.items() if getattr(config, field) is None}
    return {name: environ[name] for name in _SITE_DEFAULTS if name in unset and environ.get(name)}


def given_by_site(config: SlurmConfig, environ: Mapping[str, str]) -> dict[str, Any]:
    """The same by the names of the fields."""
    return {_SITE_DEFAULTS[name]: value for name, value in site_defaults(config, environ).items()}


def submission(config: SlurmConfig, task: Task, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment of sbatch, which the job gets too (``--export=ALL``); without secrets."""
    from nemo_launch import environment

    env = environment.job_environment(config, task.env, environ)
    asked = {*config.env_vars, *task.env}
    # An SBATCH_ or SLURM_ variable that came by inheritance would be an option of this submission.
    env = {name: v for name, v in env.items() if name in asked or not name.startswith(("SBATCH_", "SLURM_"))}
    env.update({name: environ[name] for name in _KEPT if name in environ and name not in asked})
    for name, value in {**site_defaults(config, environ), **environment.own_caches(config, task.work_dir)}.items():
        env.setdefault(name, value)
    env.setdefault("PATH", os.defpath)
    return env


def query(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of the commands that ask: times come as unix seconds, texts in English, indices of arrays whole."""
    around = os.environ if environ is None else environ
    env = {name: value for name, value in around.items() if name in _KEPT or not name.startswith(_ASKING)}
    return {**env, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
