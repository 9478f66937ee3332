"""What the commands print with ``--json`` is what the schema says."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli
from tests.views.test_schema import check


def test_what_the_commands_print(cli: Cli) -> None:
    launched = cli("-s", cli.script("bad.sh", "exit 5\n"), "--wait", "--json")
    assert launched.code == 1
    check(json.loads(launched.out))
    cli("-s", cli.script("long.sh", "sleep 60\n"), "--detach")
    for words in (["status"], ["status", "bad", "long"], ["list"], ["cancel", "long"], ["status", "long"]):
        done = cli(*words, "--json")
        assert done.code == 0, done.err
        check(json.loads(done.out))
