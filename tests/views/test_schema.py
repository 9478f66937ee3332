"""What ``--json`` prints is what its schema says: real documents of every state."""

from __future__ import annotations

import json as text
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nemo_launch import views
from nemo_launch.executors.base import Failure, Observation, State
from nemo_launch.views import json
from tests.views.test_block import FAILED, experiment, status

SCHEMA: dict[str, Any] = text.loads((Path(next(iter(views.__path__))) / "status.schema.json").read_text())


def check(document: object) -> None:
    """Fails where the document is not what the schema says."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(document, SCHEMA, jsonschema.Draft202012Validator)


def strict(schema: Any) -> Any:
    """The same, with no key beyond those it names."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: strict(part) for key, part in schema.items()}
    return (
        {**changed, "additionalProperties": False}
        if "required" in schema and schema.get("type") == "object"
        else changed
    )


@pytest.mark.parametrize("state", State)
def test_every_state(state: State) -> None:
    seen = Observation(state, age=3.5, estimated_start=1e9, parts={"7_0": Observation(state), "7+1": FAILED})
    document = json.experiment(experiment(), [status(seen), status(FAILED), status(seen, job_id=None)], adopted=True)
    check(text.loads(json.dumps(document)))


def test_the_schema_names_every_key() -> None:
    everything = FAILED._replace(parts={"7_0": FAILED}, age=1.0)
    (task,) = json.experiment(experiment(), [status(everything)])["tasks"]
    jsonschema.validate(task, {"$ref": "#/$defs/task", "$defs": strict(SCHEMA["$defs"])})
    assert set(SCHEMA["$defs"]["failure"]["properties"]) == set(Failure._fields)


@pytest.mark.parametrize(
    "change", [{"state": "DONE"}, {"final": False}, {"exit_code": "7"}, {"age": -1}, {"parts": None}, {"attempt": None}]
)
def test_what_the_schema_refuses(change: dict[str, object]) -> None:
    document = json.experiment(experiment(), [status(FAILED)])
    check(document)
    document["tasks"][0].update(change)
    with pytest.raises(jsonschema.ValidationError):
        check(document)
