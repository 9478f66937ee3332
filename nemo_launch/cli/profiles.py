"""``run.py profiles``: the named executors, checked."""

from __future__ import annotations

from typing import Any

from nemo_launch.cli import output
from nemo_launch.cli.parser import verb_parser


def run(prog: str, argv: list[str]) -> int:
    """List the profiles that apply here with what is wrong with them; 2 when something is."""
    parser = verb_parser(prog, "profiles", epilog="Exit code 2 when a profile has a fault.")
    parser.add_argument("-d", "--work-dir", metavar="DIR", default=".", help="as for a launch (default: here)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.whole(argv)

    from nemo_launch.config import profiles
    from nemo_launch.views import errors, json

    found = profiles.load(asked.work_dir)
    reports = found.check_all()
    problems = [problem for report in reports for problem in report.problems]
    if asked.json:
        entries: list[dict[str, Any]] = [
            {"name": report.name, "executor": report.kind or None, "problems": [str(p) for p in report.problems]}
            for report in reports
        ]
        document = {"schema_version": json.SCHEMA_VERSION, "files": list(found.files), "profiles": entries}
        output.say(json.dumps(document))
        return 2 if problems else 0
    if not found.files:
        output.tell(f"{prog}: there are no profiles; they would be in {' or '.join(found.paths)}\n")
        return 0
    rows = [(r.name, r.kind or "?", f"{len(r.problems)} problem(s)" if r.problems else "ok") for r in reports]
    output.show_table(("PROFILE", "EXECUTOR", "CHECK"), rows)
    if problems:
        from nemo_launch.errors import InputError

        output.tell(errors.paragraphs(prog, InputError(dict.fromkeys(problems))))
    return 2 if problems else 0
