"""How far a run is: the arithmetic, what shows it, and that nothing of it can end a run."""

import io
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from cli import run_progress
from delayline.clock import ManualClock
from reconcile.progress import (
    STAGES_MAX,
    Progress,
    ProgressReporter,
    SparkCounts,
    Stage,
    Step,
    duration,
    fields,
    in_words,
    progress,
    reporting_progress,
)

BUFFERS = Step("reading the buffers", rows=1_000)


@pytest.mark.parametrize(
    ("step", "stages", "elapsed_s", "rows", "to_go_s"),
    [
        (BUFFERS, [], 10, 0, None),
        (BUFFERS, [Stage(1, read=9, written=250)], 10, 250, 30),
        (BUFFERS, [Stage(1, shuffled=500)], 10, 250, 30),  # half of the first half
        (BUFFERS, [Stage(1, shuffled=1_000), Stage(2, read=7, written=500)], 30, 750, 10),
        (BUFFERS, [Stage(1, shuffled=1_000), Stage(2, written=1_000)], 30, 1_000, None),  # it does something else
        (BUFFERS, [Stage(1, shuffled=2_000), Stage(2, written=2_000)], 30, 1_000, None),  # rows that nobody planned
        (BUFFERS, [Stage(1, written=250)], 2, 250, None),  # too soon
        (BUFFERS, [Stage(1, written=10)], 10, 10, None),  # too little
        (Step("judging"), [Stage(1, read=30, shuffled=8), Stage(2, written=5)], 10, 35, None),
        (Step("reading the buffers", rows=0), [Stage(1, read=3)], 10, 0, None),
    ],
)
def test_what_is_left_follows_from_what_was_planned_and_what_is_done(
    step: Step, stages: Sequence[Stage], elapsed_s: float, rows: int, to_go_s: float | None
) -> None:
    assert progress(step, stages, elapsed_s) == Progress(step, elapsed_s, rows, to_go_s)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (Progress(BUFFERS, 10, 250, 30), "reading the buffers: 250 of 1,000 rows, 25 rows/s, about 30 s to go"),
        (Progress(Step("judging"), 4_000, 8), "judging: 8 rows, 0 rows/s, 1 h 6 min so far"),
        (Progress(Step("judging"), 7), "judging: 7 s so far"),  # nobody can count
    ],
)
def test_it_is_one_line(state: Progress, line: str) -> None:
    assert in_words(state) == line


def test_a_log_line_has_what_is_known() -> None:
    assert fields(Progress(BUFFERS, 10.2, 250, 30.4)) == {
        "doing": "reading the buffers",
        "rows": 250,
        "rows_planned": 1_000,
        "rows_per_s": 25,
        "elapsed_s": 10,
        "to_go_s": 30,
    }
    assert fields(Progress(Step("judging"), 3)) == {"doing": "judging", "elapsed_s": 3}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3_599.9, "1 h 0 min")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


class Heard:
    """A show that keeps what it was given."""

    every_s = 10.0

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begins(self, step: Step) -> None:
        self.lines.append(step.doing)

    def goes_on(self, state: Progress) -> None:
        self.lines.append(in_words(state))

    def ends(self) -> None:
        self.lines.append("end")


class Counted:
    """What Spark counts, one turn after the other; then nothing new."""

    def __init__(self, *turns: Sequence[Stage]) -> None:
        self._turns = iter(turns)

    def look(self) -> Sequence[Stage]:
        return next(self._turns, [])


class Unreachable:
    looks = 0

    def look(self) -> Sequence[Stage]:
        self.looks += 1
        raise RuntimeError("there is no driver here")


def test_the_progress_of_a_step_is_shown_at_intervals() -> None:
    clock, heard = ManualClock(), Heard()
    reporter = ProgressReporter(
        Counted([], [Stage(1, shuffled=200)], [Stage(1, shuffled=400)], [Stage(2, read=9)]), heard, clock
    )
    reporter.turn()
    assert heard.lines == []  # nothing has begun
    reporter.begin(BUFFERS)
    for _ in range(3):
        clock.advance(5_000)
        reporter.turn()
    reporter.begin(Step("judging"))
    clock.advance(10_000)
    reporter.turn()
    reporter.end()
    clock.advance(60_000)
    reporter.turn()
    assert heard.lines == [
        "reading the buffers",
        "reading the buffers: 200 of 1,000 rows, 20 rows/s, about 40 s to go",
        "judging",
        "judging: 0 rows, 0 rows/s, 10 s so far",
        "end",
    ]


def test_without_counts_the_step_and_its_time_are_shown_and_counts_are_not_asked_again() -> None:
    clock, heard, counts = ManualClock(), Heard(), Unreachable()
    reporter = ProgressReporter(counts, heard, clock)
    reporter.begin(BUFFERS)
    for _ in range(2):
        clock.advance(10_000)
        reporter.turn()
    assert heard.lines[1:] == ["reading the buffers: 10 s so far", "reading the buffers: 20 s so far"]
    assert counts.looks == 1


class Gone(Heard):
    """A terminal that was closed."""

    def begins(self, step: Step) -> None:
        raise BrokenPipeError

    def goes_on(self, state: Progress) -> None:
        raise BrokenPipeError

    def ends(self) -> None:
        raise BrokenPipeError


def test_a_run_goes_on_where_nobody_hears() -> None:
    clock = ManualClock()
    reporter = ProgressReporter(Counted(), Gone(), clock)
    reporter.begin(BUFFERS)
    clock.advance(10_000)
    reporter.turn()
    reporter.end()


@pytest.mark.parametrize("error", [None, ValueError])
def test_the_thread_ends_with_the_run_however_that_ends(error: type[Exception] | None) -> None:
    import threading

    heard = Heard()
    try:
        with reporting_progress(Counted(), heard, ManualClock(), poll_s=0.01) as begin:
            begin(BUFFERS)
            if error:
                raise error
    except ValueError:
        pass
    assert "progress" not in {thread.name for thread in threading.enumerate()}
    assert heard.lines == ["reading the buffers", "end"]


def test_the_thread_reports_without_being_asked() -> None:
    heard, clock = Heard(), ManualClock()
    with reporting_progress(Counted(), heard, clock, poll_s=0.01) as begin:
        begin(BUFFERS)
        clock.advance(10_000)
        deadline = time.monotonic() + 10
        while len(heard.lines) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert heard.lines[1] == "reading the buffers: 0 of 1,000 rows, 0 rows/s, 10 s so far"


# --- Spark's counts


class Store:
    """Spark's status store, as far as it is asked: rows by stage, and which go on. It notes what it is asked."""

    def __init__(self, known: dict[int, int], *active: int) -> None:
        self.known, self.active = known, active
        self.asked: list[int] = []

    def activeStages(self) -> Any:
        return SimpleNamespace(size=lambda: len(self.active), apply=lambda n: self.data(self.active[n]))

    def lastStageAttempt(self, number: int) -> Any:
        self.asked.append(number)
        if number not in self.known:
            raise Py4JError("No stage with id")
        return self.data(number)

    def data(self, number: int) -> Any:
        counts = {"stageId": number, "inputRecords": self.known[number], "numTasks": 2, "numCompleteTasks": 1}
        counts |= {"shuffleWriteRecords": 0, "outputRecords": 0}
        status = SimpleNamespace(toString=lambda: "ACTIVE" if number in self.active else "COMPLETE")
        state = {name: lambda value=value: value for name, value in counts.items()}
        return SimpleNamespace(status=lambda: status, **state)


def counts_of(store: Store) -> SparkCounts:
    sc = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store)))
    return SparkCounts(SimpleNamespace(sparkContext=sc))


def seen(counts: SparkCounts) -> dict[int, int]:
    return {stage.number: stage.read for stage in counts.look()}


def test_a_stage_that_has_ended_is_asked_for_no_more() -> None:
    store = Store({0: 5, 1: 6, 2: 7}, 2)
    counts = counts_of(store)
    assert seen(counts) == {0: 5, 1: 6, 2: 7}
    store.known, store.active = {**store.known, 2: 9, 3: 1}, ()
    assert seen(counts) == {2: 9, 3: 1}
    assert seen(counts) == {}
    assert store.asked == [0, 1, 2, 3, 2, 3, 4, 4]


def test_what_spark_has_forgotten_is_passed_over() -> None:
    counts = counts_of(Store({7: 6, 8: 1}, 7))
    assert seen(counts) == {7: 6, 8: 1}


def test_of_many_stages_so_many_are_asked_for_in_one_turn() -> None:
    store = Store(dict.fromkeys(range(1_000), 1))
    counts = counts_of(store)
    assert [len(seen(counts)) for _ in range(2)] == [STAGES_MAX] * 2
    assert store.asked == list(range(2 * STAGES_MAX))


# --- where it is shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_is_one_line_which_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    shown = run_progress.show()
    shown.begins(BUFFERS)
    shown.goes_on(Progress(BUFFERS, 10, 250, 30))
    shown.ends()
    output = terminal.getvalue()
    assert "reading the buffers ..." in output
    assert "reading the buffers: 250 of 1,000 rows," in output.replace("…", ",")
    assert "to go" not in output  # it does not fit, and takes no second line
    assert output.count("\r\x1b[2K") >= 2  # written anew, and taken away


def test_elsewhere_it_is_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_progress.show()
    shown.begins(BUFFERS)
    shown.goes_on(Progress(BUFFERS, 10, 250, 30))
    shown.ends()
    line = "reading the buffers: 250 of 1,000 rows, 25 rows/s, about 30 s to go"
    assert (capsys.readouterr().err, shown.every_s) == (f"reading the buffers ...\n{line}\n", 10)
