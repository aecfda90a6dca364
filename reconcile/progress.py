"""How far a run is: what it is doing, how many rows of how many, how fast, and about how long that takes yet.

Known beforehand is what was planned: parts of logs, as offsets, and outcome rows, as they were counted. Known in
between is what Spark's driver counts of its stages. A row that is to be staged is written; in a cluster it is sorted
into its folder before: each is half of its way. Nothing that goes wrong here ends a run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, Protocol

from delayline.clock import Clock
from delayline.process import logs

STAGES_MAX = 50
"""New ones that are looked at in one turn: each costs a call of half a millisecond."""

_GO_ON = ("ACTIVE", "PENDING")

TOO_SOON_S, TOO_LITTLE = 3.0, 0.02
"""Before that, what is left is anybody's guess."""

POLL_S = 1.0
JOINED_WITHIN_S = 5.0

log = logs.get(__name__)


class Step(NamedTuple):
    """What is staged is planned: so many `rows`. Of other steps that is not known: None."""

    doing: str
    rows: int | None = None


class Stage(NamedTuple):
    """What Spark counts of one of its stages."""

    number: int
    read: int = 0
    shuffled: int = 0
    written: int = 0


class Progress(NamedTuple):
    """`rows` None: not known. `to_go_s` None: not yet, or not any more, or nothing was planned that
    could be counted."""

    step: Step
    elapsed_s: float
    rows: int | None = None
    to_go_s: float | None = None

    @property
    def per_s(self) -> float | None:
        return None if self.rows is None or self.elapsed_s <= 0 else self.rows / self.elapsed_s


def progress(step: Step, stages: Sequence[Stage], elapsed_s: float) -> Progress:
    """Of a step that has gone on for so long, and of its stages."""
    if step.rows is None:
        return Progress(step, elapsed_s, sum(max(stage.read, stage.shuffled, stage.written) for stage in stages))
    shuffled, written = sum(stage.shuffled for stage in stages), sum(stage.written for stage in stages)
    rows = min((shuffled + written) // (2 if shuffled else 1), step.rows)
    share = rows / step.rows if step.rows else 0.0
    is_estimated = elapsed_s >= TOO_SOON_S and TOO_LITTLE <= share < 1
    return Progress(step, elapsed_s, rows, elapsed_s * (1 - share) / share if is_estimated else None)


def in_words(state: Progress) -> str:
    """`reading the buffers: 1,204,000 of 3,000,000 rows, 41,000 rows/s, about 44 s to go`."""
    step, elapsed_s, rows, to_go_s = state
    parts = []
    if rows is not None:
        parts.append(f"{rows:,} of {step.rows:,} rows" if step.rows else f"{rows:,} rows")
        parts.append(f"{state.per_s or 0:,.0f} rows/s")
    parts.append(f"{duration(elapsed_s)} so far" if to_go_s is None else f"about {duration(to_go_s)} to go")
    return f"{step.doing}: {', '.join(parts)}"


def duration(seconds: float) -> str:
    """`44 s`, `3 min 20 s`, `1 h 5 min`."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    if hours:
        return f"{hours} h {m} min"
    return f"{m} min {s} s" if m else f"{s} s"


class Counts(Protocol):
    """What counts: Spark's driver. Called about once a second, never at the same time."""

    def look(self) -> Sequence[Stage]:
        """Stages that have gone on, or ended, since the last call; of one listed before, the latest counts."""


class SparkCounts:
    """The status store of the driver in this process, which numbers stages as they are made. Over Spark Connect there
    is none: nothing is counted."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._open: set[int] = set()
        self._next = 0  # the first stage that was not seen yet

    def look(self) -> list[Stage]:
        """Raises what Spark raises: there is no driver here."""
        store = self._spark.sparkContext._jsc.sc().statusStore()
        active = store.activeStages()
        numbers = [active.apply(n).stageId() for n in range(active.size())]
        found = [data for number in sorted(self._open) if (data := _last_attempt(store, number))]
        for _ in range(STAGES_MAX):
            data = _last_attempt(store, self._next)
            if data is None and (later := [number for number in numbers if number > self._next]):
                self._next = min(later)  # those before are forgotten
                data = _last_attempt(store, self._next)
            if data is None:
                break
            found.append(data)
            self._next += 1
        self._open = {data.stageId() for data in found if data.status().toString() in _GO_ON}
        return [_stage(data) for data in found]


def _last_attempt(store: Any, number: int) -> Any:
    """None where Spark knows no such stage: not yet, or not any more."""
    from py4j.protocol import Py4JError

    try:
        return store.lastStageAttempt(number)
    except Py4JError:
        return None


def _stage(data: Any) -> Stage:
    counts = data.inputRecords(), data.shuffleWriteRecords(), data.outputRecords()
    return Stage(data.stageId(), *counts)


class Show(Protocol):
    """Where it is shown."""

    every_s: float

    def begins(self, step: Step) -> None: ...

    def goes_on(self, state: Progress) -> None: ...

    def ends(self) -> None:
        """Nothing is shown any more, however the run has ended."""


OnStep = Callable[[Step], None]


class ProgressReporter:
    """Knows the step, and what its stages have done. `turn` is called by one thread, `begin` by another."""

    def __init__(self, counts: Counts, show: Show, clock: Clock) -> None:
        self._counts, self._show, self._clock = counts, show, clock
        self._lock = Lock()
        self._step: Step | None = None
        self._began_s = self._shown_s = clock.monotonic_s()
        self._stages: dict[int, Stage] = {}
        self._is_counted = True

    def begin(self, step: Step) -> None:
        """A step begins."""
        self._look()  # what has ended belongs to the step before
        with self._lock, _unheard():
            self._step, self._stages = step, {}
            self._began_s = self._shown_s = self._clock.monotonic_s()
            self._show.begins(step)

    def turn(self) -> None:
        """Look, and show the progress if it is time."""
        self._look()
        with self._lock, _unheard():
            now_s = self._clock.monotonic_s()
            if self._step is None or now_s - self._shown_s < self._show.every_s:
                return
            self._shown_s = now_s
            elapsed_s = now_s - self._began_s
            stages = list(self._stages.values())
            is_known = self._is_counted
            self._show.goes_on(
                progress(self._step, stages, elapsed_s) if is_known else Progress(self._step, elapsed_s)
            )

    def end(self) -> None:
        with self._lock, _unheard():
            self._step = None
            self._show.ends()

    def _look(self) -> None:
        with self._lock:
            if not self._is_counted:
                return
            try:
                self._stages |= {stage.number: stage for stage in self._counts.look()}
            except Exception as error:  # noqa: BLE001 - the driver is not in this process, or knows no such stage
                log.debug("progress_not_counted", error=repr(error))
                self._is_counted = False


@contextmanager
def _unheard() -> Iterator[None]:
    """The terminal or the log is gone. The run goes on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no reason to end a run
        log.debug("progress_not_shown", error=repr(error))


@contextmanager
def reporting_progress(counts: Counts, show: Show, clock: Clock, poll_s: float = POLL_S) -> Iterator[OnStep]:
    """A thread looks once in `poll_s` until the run ends."""
    reporter, over = ProgressReporter(counts, show, clock), Event()

    def turns() -> None:
        while not over.wait(poll_s):
            reporter.turn()

    thread = Thread(target=turns, name="progress", daemon=True)
    thread.start()
    try:
        yield reporter.begin
    finally:
        over.set()
        thread.join(JOINED_WITHIN_S)
        reporter.end()


def fields(state: Progress) -> Mapping[str, str | int]:
    """For a log line; what is not known is left out."""
    step, elapsed_s, rows, to_go_s = state
    known = {
        "rows": rows,
        "rows_planned": step.rows,
        "rows_per_s": None if state.per_s is None else round(state.per_s),
        "elapsed_s": round(elapsed_s),
        "to_go_s": None if to_go_s is None else round(to_go_s),
    }
    return {"doing": step.doing, **{name: value for name, value in known.items() if value is not None}}
