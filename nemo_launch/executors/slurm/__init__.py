"""Slurm: tasks as sbatch jobs.

::

    executor.py    the executor: who does what
    render.py      task -> directives and values (pure)      containers.py  options of pyxis
    submit.py      sbatch and how its answer is read          recovery.py    jobs whose id was never recorded
    query.py       squeue and sacct as rows                   words.py       Slurm's words in plain ones
    merge.py       rows + the job's own records -> the truth (pure)
    poll.py        many jobs, few questions                   seen.py        what was last known
    cancel.py check.py logs.py commands.py (which environment each command gets)
"""

from nemo_launch.executors.slurm.executor import SlurmExecutor

__all__ = ["SlurmExecutor"]
