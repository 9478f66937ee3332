"""The reading of pages itself: what it takes for a step, and how loosely it compares."""

from __future__ import annotations

import pytest

from tests.docs.page import missing, steps

PAGE = """\
# Title

```bash
export A=1
```

## On Slurm

Save it as `a.yaml`:

```yaml
b: 1
```

### Deeper

```bash
# not a heading
run.py -e slurm
```

```text
Job 75 is RUNNING
```

## Elsewhere

```python
print(1)
```

```json
{}
```
"""


def test_blocks_become_steps_in_order() -> None:
    first, saved, slurm, python = steps(PAGE)
    assert (first.language, first.setting, first.slurm) == ("bash", True, False)
    assert (saved.file, saved.text, saved.setting) == ("a.yaml", "b: 1\n", True)
    assert (slurm.slurm, slurm.setting, slurm.shown) == (True, False, ("Job 75 is RUNNING",))
    assert (python.text, python.slurm, python.setting) == ("print(1)\n", False, False)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("- Job id: 75", "- Job id: 1204"),
        ("- Status: PENDING", "- Status: RUNNING"),
        ("- Log: /home/ada/x/75.log", "- Log: /var/tmp/y/9.log"),
        ("--output=/home/ada/x/%j.log", "--output=/var/tmp/%j.log"),
        ("loss 4.01 -> 2.5", "loss 4.5 -> 2.125"),
        ("[workstation:0] port 13742", "[lab-7:0] port 50001"),
        ("a … z", "a b c z"),
    ],
)
def test_what_differs_between_runs_is_no_difference(shown: str, printed: str) -> None:
    assert list(missing((shown,), f"before\n{printed}\nafter")) == []


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("- Status: SUCCEEDED", "- Status: FAILED"),
        ("- Status: SUCCEEDED", "- Status: RUNNING"),
        ("- Log: /home/ada/x/75.log", "- Log: /home/ada/x/75.txt"),
        ("- Exit code: 7", "- Exit code: 1"),
        ("rank 3 of 4", "rank 3 of 2"),
        ("- Job id: 75", "- Job id: none"),
        ("- Job id: 75", "- Job id: 75 or so"),
    ],
)
def test_what_says_another_thing_is_one(shown: str, printed: str) -> None:
    assert list(missing((shown,), printed)) == [shown]


def test_lines_must_come_in_the_order_shown() -> None:
    assert list(missing(("b", "a"), "a\nb\n")) == ["a"]
