"""Logs are read by offset, from file systems that lie a little."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_launch import logs, tailing
from nemo_launch.errors import InputError, LaunchError, RecordError
from nemo_launch.executors.base import Handle, Job, LogSource, Observation, State
from nemo_launch.experiments.observing import TaskStatus
from nemo_launch.layout import TaskPaths
from nemo_launch.transport import LocalTransport


class Here:
    """An executor that only knows where logs are."""

    kind = "local"
    title = "Here"
    transport: Any = LocalTransport()

    def log_sources(self, job: Job) -> list[LogSource]:
        ranks = sorted(Path(job.paths.dir).glob("rank-*.log"))
        whole = Path(job.paths.log(str(job.handle)))
        return [LogSource(str(whole))] * whole.exists() + [LogSource(str(r), int(r.stem[5:])) for r in ranks]


class FakeExperiment:
    """Tasks whose states a test sets."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.executor = Here()
        self.states = dict.fromkeys(names, State.RUNNING)
        self.folder = folder
        self.started: float | None = 1.0
        for name in names:
            (folder / name).mkdir()

    def log(self, name: str) -> Path:
        return self.folder / name / "7.log"

    def statuses(self) -> list[TaskStatus]:
        return [
            TaskStatus(
                name,
                Job(name, TaskPaths(str(self.folder / name), str(self.folder / name)), Handle("7")),
                self.executor,  # type: ignore[arg-type]
                Observation(state, started=self.started),
            )
            for name, state in self.states.items()
        ]


def shown(experiment: FakeExperiment, names: Sequence[str], **how: Any) -> str:
    out: list[str] = []
    logs.show(experiment, names, write=out.append, **how)  # type: ignore[arg-type]
    return "".join(out)


# one file


def tail(path: Path) -> tailing.Tail:
    return tailing.Tail(LocalTransport(), str(path))


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    reader = tail(path)
    assert reader.read() == b""
    path.write_bytes(b"one\n")
    assert (reader.read(), reader.read()) == (b"one\n", b"")
    with path.open("ab") as file:
        file.write(b"two\n")
    assert reader.read() == b"two\n"


def test_zeros_at_the_end_are_bytes_still_on_their_way(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n\0\0\0\0")
    reader = tail(path)
    assert (reader.read(), reader.read()) == (b"one\n", b"")
    path.write_bytes(b"one\ntwo\n")
    assert reader.read() == b"two\n"


def test_zeros_within_a_log_do_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n\0\0two\n")
    assert tail(path).read() == b"one\n\0\0two\n"


def test_a_hole_larger_than_a_read_does_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n" + b"\0" * (3 << 20) + b"two\n")
    reader, data = tail(path), b""
    for _ in range(8):
        data += reader.read()
    assert data.endswith(b"two\n")


def test_a_file_that_shrank_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a long line\n")
    reader = tail(path)
    reader.read()
    path.write_bytes(b"new\n")
    assert reader.read() == b"new\n"


def test_a_file_that_was_replaced_by_an_empty_one_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    reader = tail(path)
    reader.read()
    path.write_bytes(b"")
    assert reader.read() == b""
    path.write_bytes(b"newer\n")
    assert reader.read() == b"newer\n"


def test_a_log_that_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=f"cannot read {tmp_path}: Is a directory"):
        tail(tmp_path).read()


# what is shown


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))), st.data())
def test_text_arrives_whole_however_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject
) -> None:
    text = "".join(line + "\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text.encode())), max_size=5)))
    experiment = FakeExperiment(tmp_path_factory.mktemp("e"), "t")
    experiment.states["t"] = State.SUCCEEDED
    log, out = experiment.log("t"), list[str]()
    stream = tailing.Stream(["t"], out.append)
    for cut in [*cuts, None]:
        log.write_bytes(text.encode()[:cut])
        stream.update(experiment.statuses())
        stream.pump()
    while stream.pump(last=True):
        pass
    assert "".join(out) == text


def test_a_log_without_a_last_newline_is_shown_to_its_end(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    experiment.log("t").write_text("one\ntwo")
    assert shown(experiment, ["t"]) == "one\ntwo"


def test_lines_of_several_tasks_carry_their_names(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "a", "b")
    experiment.log("a").write_text("one\ntwo")
    experiment.log("b").write_text("three\n")
    assert shown(experiment, ["a", "b"]) == "[a] one\n[b] three\n[a] two\n"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary().filter(lambda data: not data.endswith(b"\0"))), st.booleans())
def test_every_byte_passes_however_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], slow: bool
) -> None:
    experiment = FakeExperiment(tmp_path_factory.mktemp("e"), "t")
    log, out = experiment.log("t"), list[str]()
    stream = tailing.Stream(["t"], out.append)
    with pytest.MonkeyPatch.context() as patch:
        if slow:
            patch.setattr(tailing, "_PARTIAL", -1.0)  # every line without its end has been waiting for long
        for count in range(len(pieces) + 1):
            log.write_bytes(b"".join(pieces[:count]))
            stream.update(experiment.statuses())
            while stream.pump():
                pass
    while stream.pump(last=True):
        pass
    assert "".join(out).encode("utf-8", "surrogateescape") == b"".join(pieces)


def test_bytes_reach_standard_output_as_they_are(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    data = bytes(range(1, 256)) + "é\n".encode() + b"\xe2\x82"
    experiment.log("t").write_bytes(data)
    logs.show(experiment, ["t"])  # type: ignore[arg-type]
    assert capfdbinary.readouterr().out == data


def test_newest_lines(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    experiment.log("t").write_text("1\n2\n3\n4")
    assert shown(experiment, ["t"], lines=2) == "3\n4"
    assert shown(experiment, ["t"], lines=0) == ""


def test_a_rank_has_a_log_of_its_own(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    experiment.log("t").write_text("[n:0] a\n[n:1] b\n")
    (tmp_path / "t" / "rank-1.log").write_text("b\n")
    assert shown(experiment, ["t"], rank=1) == "b\n"
    for state in (State.RUNNING, State.SUCCEEDED):
        experiment.states["t"] = state
        with pytest.raises(InputError, match="no log of rank 5"):
            shown(experiment, ["t"], rank=5, follow=state is State.SUCCEEDED)


def test_lines_of_one_node(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    experiment.log("t").write_text("starting\n[n-1:0] a\n[n-2:1] b\n[n-1:2] c\n")
    assert shown(experiment, ["t"], node="n-1") == "[n-1:0] a\n[n-1:2] c\n"
    with pytest.raises(InputError, match=r"no line of the log comes from node n-3. The lines come from n-1, n-2"):
        shown(experiment, ["t"], node="n-3")


def test_no_log_yet_is_said(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    experiment.states["t"] = State.PENDING
    with pytest.raises(LaunchError, match="there is no log yet: t is PENDING"):
        shown(experiment, ["t"])


@pytest.mark.parametrize(
    ("started", "says"),
    [(None, "there is no log, and none will come: t is CANCELLED"), (1.0, "It was never written, or it was removed")],
)
def test_no_log_of_what_has_ended_is_no_promise(tmp_path: Path, started: float | None, says: str) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    experiment.states["t"], experiment.started = State.CANCELLED, started
    with pytest.raises(LaunchError) as raised:
        shown(experiment, ["t"])
    told: list[str] = []
    assert shown(experiment, ["t"], follow=True, tell=told.append) == ""
    for text in (str(raised.value), *told):
        assert says in text
        assert "yet" not in text and "-f" not in text


def test_following_waits_for_the_log_and_ends_with_the_task(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    told: list[str] = []

    def work() -> None:
        while not told:
            time.sleep(0.01)
        with experiment.log("t").open("w") as file:
            for number in range(3):
                file.write(f"{number}\n")
                file.flush()
                time.sleep(0.1)
            file.write("end")
        experiment.states["t"] = State.SUCCEEDED

    thread = threading.Thread(target=work)
    thread.start()
    text = shown(experiment, ["t"], follow=True, tell=told.append)
    thread.join()
    assert text == "0\n1\n2\nend"
    assert told == ["no log yet, waiting: t is RUNNING"]


def test_following_shows_a_line_before_the_task_ends(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    experiment.log("t").write_text("first\n")

    def write(text: str) -> None:
        assert experiment.states["t"] is State.RUNNING
        experiment.states["t"] = State.FAILED

    [status] = logs.show(experiment, "t", follow=True, write=write)  # type: ignore[arg-type]
    assert status.observation.state is State.FAILED


def test_a_progress_bar_is_shown_although_its_line_never_ends(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    out: list[str] = []

    def work() -> None:
        with experiment.log("t").open("w") as file:
            for number in range(20):
                file.write(f"\r{number} of 20")
                file.flush()
                time.sleep(0.05)
            while not out:  # it is shown while it grows
                time.sleep(0.01)
        experiment.states["t"] = State.SUCCEEDED

    thread = threading.Thread(target=work)
    thread.start()
    logs.show(experiment, "t", follow=True, write=out.append)  # type: ignore[arg-type]
    thread.join()
    assert "".join(out) == "".join(f"\r{number} of 20" for number in range(20))


def test_following_one_task_does_not_wait_for_the_others(tmp_path: Path) -> None:
    experiment = FakeExperiment(tmp_path, "a", "b")
    experiment.states["a"] = State.SUCCEEDED
    experiment.log("a").write_text("x\n")
    assert shown(experiment, ["a"], follow=True) == "x\n"


def test_a_follow_looks_at_the_file_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = FakeExperiment(tmp_path, "t")
    experiment.log("t").write_text("x\n")
    reads = 0

    class Counting(LocalTransport):
        def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes | None:
            nonlocal reads
            reads += path.endswith(".log")
            if reads > 12:
                experiment.states["t"] = State.SUCCEEDED
            return super().read(path, offset, limit)

    experiment.executor.transport = Counting()
    began = time.monotonic()
    shown(experiment, ["t"], follow=True)
    assert time.monotonic() - began > 0.5, "a dozen looks must not happen at once"


def test_without_standard_output_logs_go_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = FakeExperiment(tmp_path, "train")
    experiment.log("train").write_text("line\n")
    experiment.states["train"] = State.SUCCEEDED
    monkeypatch.setattr("sys.stdout", None)
    logs.show(experiment, "train")  # type: ignore[arg-type]


# attempts


class Restarted(FakeExperiment):
    """A task that was started four times: three times as one job, then as another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "t")
        self.logs: list[LogSource] = []
        self.executor.log_sources = lambda job: self.logs[::-1]  # type: ignore[method-assign]
        for attempt, (name, text) in enumerate(
            (("7", "first\nunfinished"), ("7", "\nsecond\n"), ("7", "third\n"), ("8", "fourth\n"))
        ):
            self.starts(name, attempt)
            self.writes(name, text)

    def writes(self, name: str, text: str) -> None:
        with (self.folder / "t" / f"{name}.log").open("a") as file:
            file.write(text)

    def starts(self, name: str, attempt: int) -> None:
        path = self.folder / "t" / f"{name}.log"
        path.touch()
        self.logs.append(LogSource(str(path), attempt=attempt, begin=path.stat().st_size))


@pytest.mark.parametrize(
    ("attempt", "text"),
    [
        (None, "fourth\n"),
        (1, "first\nunfinished"),
        (2, "\nsecond\n"),
        (3, "third\n"),
        (4, "fourth\n"),
        ("all", "first\nunfinished\nsecond\nthird\nfourth\n"),
    ],
)
def test_one_attempt_or_all_of_them(tmp_path: Path, attempt: Any, text: str) -> None:
    experiment = Restarted(tmp_path)
    experiment.states["t"] = State.SUCCEEDED
    assert shown(experiment, ["t"], attempt=attempt) == text
    assert shown(experiment, ["t"], attempt=attempt, lines=1) == text.splitlines(True)[-1]


def test_that_there_are_earlier_attempts_is_said(tmp_path: Path) -> None:
    told: list[str] = []
    shown(Restarted(tmp_path), ["t"], tell=told.append)
    assert told == ["t: this is attempt 4; --attempt 3 shows the one before, --attempt all all of them"]
    shown(Restarted(tmp_path / "t"), ["t"], attempt="all", tell=told.append)
    assert len(told) == 1


def test_an_attempt_that_there_was_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no log of attempt 5: t has had 4"):
        shown(Restarted(tmp_path), ["t"], attempt=5)


@pytest.mark.parametrize("name", ["8", "9"])
def test_following_goes_on_with_the_attempts_that_come(tmp_path: Path, name: str) -> None:
    """In the same log, or in that of another job."""
    experiment = Restarted(tmp_path)
    out: list[str] = []

    def write(text: str) -> None:
        if not out:
            experiment.starts(name, 4)
            experiment.states["t"] = State.PENDING  # a change, so that logs are looked for
            experiment.writes(name, "fifth\n")
        elif "fifth" in text:
            experiment.states["t"] = State.SUCCEEDED
        out.append(text)

    logs.show(experiment, "t", follow=True, write=write)  # type: ignore[arg-type]
    assert "".join(out) == "fourth\nfifth\n"
