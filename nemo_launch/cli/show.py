"""``run.py show ID [script|config|record]``: what is kept of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nemo_launch.cli import output, verbs
from nemo_launch.cli.parser import verb_parser

if TYPE_CHECKING:
    from nemo_launch.experiments.experiment import Experiment


def run(prog: str, argv: list[str]) -> int:
    """Print the record (default), the batch scripts as they are on disk, or the executors' settings."""
    parser = verb_parser(prog, "show")
    parser.add_argument("experiment", help="id, or title for its newest")
    parser.add_argument("what", nargs="?", default="record", choices=("script", "config", "record"))
    parser.add_argument("task", nargs="?", help="name or number of a task (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.whole(argv)

    experiment = verbs.experiment(asked.experiment)
    names = [verbs.task(experiment, asked.task)] if asked.task is not None else experiment.task_names
    if asked.what == "script":
        return _scripts(experiment, names, asked.json)
    from nemo_launch import records
    from nemo_launch.views import json

    tasks: dict[str, dict[str, Any]] = {}
    for name in names:
        paths = experiment.paths.task(name)
        tasks[name] = records.read_json(paths.task) or {}
        if asked.what == "record":
            tasks[name] |= {k: records.read_json(getattr(paths, k)) for k in ("intent", "handle")}
    if asked.what == "record":
        document = {"experiment": records.read_json(experiment.paths.record), "tasks": tasks}
    else:
        document = {"tasks": {name: _config(task) for name, task in tasks.items()}}
    if asked.json or asked.what == "record":
        output.say(json.dumps({"schema_version": json.SCHEMA_VERSION, **document}))
    else:
        import yaml

        output.say(yaml.safe_dump(document["tasks"], sort_keys=False, allow_unicode=True))
    return 0


def _config(task: dict[str, Any]) -> dict[str, Any]:
    """The executor's settings, and the values of a recipe in Python."""
    executor = dict(task.get("executor", {}))
    return {**executor, "recipe": task["config"]} if "config" in task else executor


def _scripts(experiment: Experiment, names: list[str], as_json: bool) -> int:
    from nemo_launch.errors import RecordError
    from nemo_launch.views import json

    texts = {}
    for job, executor in experiment.jobs():
        if job.name in names:
            data = executor.transport.read(job.paths.script)
            if data is None:
                raise RecordError(
                    f"{job.paths.script} is not there: {job.name} was never submitted, or it was removed."
                )
            texts[job.name] = data.decode("utf-8", "surrogateescape")
    if as_json:
        output.say(json.dumps({"schema_version": json.SCHEMA_VERSION, "scripts": texts}))
    for text in texts.values() if not as_json else ():
        output.say(text)
    return 0
