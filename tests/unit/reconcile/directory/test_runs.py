"""The protocol of a run, killed wherever it can be killed. Stages and queue are fakes (queue.py); the files, the
planning, the closing and the order of steps are the job's own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconcile.directory.files import Files, MemoryFiles
from reconcile.directory.lock import Holder, Lock, this_process
from reconcile.directory.runs import carry_out, last_manifest, spared
from reconcile.errors import OtherCluster, RunInProgress
from reconcile.logic.ledger import HOUR_MS, WINDOW_MS
from reconcile.logic.manifest import Manifest
from reconcile.logic.plan import Cluster
from reconcile.progress import Step
from reconcile.report.repair_plan import LostMessage, RepairPlan, encode_repair_plan
from tests.tiers import examples
from tests.unit.reconcile.queue import FakeQueue, FakeStages

START = 1_000 * HOUR_MS


@contextmanager
def merging_soon() -> Iterator[None]:
    """A run merges what two have written, so that plays of a few runs do it too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reconcile.logic.whereabouts.MERGE_AT", 2)
        yield


@pytest.fixture(autouse=True, scope="module")
def _merging_soon() -> Iterator[None]:
    with merging_soon():
        yield


class Killed(BaseException):
    """The process is gone: nothing of it runs on, no clean-up either."""


class Fuse:
    """Lets `steps` steps happen, and kills at the one behind them."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self, name: str = "") -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed(name)


class MortalFiles:
    """Files of a process that may be killed before every change of them."""

    root = "memory:"

    def __init__(self, files: MemoryFiles, fuse: Fuse) -> None:
        self._files, self._fuse = files, fuse

    def read(self, name: str) -> bytes | None:
        return self._files.read(name)

    def tail(self, name: str, size: int) -> bytes:
        return self._files.tail(name, size)

    def exists(self, name: str) -> bool:
        return self._files.exists(name)

    def names(self, folder: str) -> Sequence[str]:
        return self._files.names(folder)

    def write(self, name: str, data: bytes) -> None:
        self._fuse.step(name)
        self._files.write(name, data)

    def create(self, name: str, data: bytes) -> bool:
        self._fuse.step(name)
        return self._files.create(name, data)

    def remove(self, name: str) -> None:
        if self._files.exists(name):
            self._fuse.step(name)
            self._files.remove(name)

    def flush(self) -> None:
        self._files.flush()


def silent(step: Step) -> None:
    pass


def run(files: MemoryFiles, queue: FakeQueue, fuse: Fuse | None = None) -> Manifest:
    """One process. The lock of one that was killed names a process that is gone."""
    used = fuse or Fuse(1_000_000)
    mortal: Files = MortalFiles(files, used)
    holder = this_process(queue.at_ms)
    try:
        return carry_out(mortal, Lock(mortal, holder), queue, FakeStages(queue, mortal, used.step), HOUR_MS, silent)
    except Killed:
        if files.exists("lock"):
            files.remove("lock")
            Lock(files, replace(holder, born=holder.born + 1)).take()
        raise


class Traffic:
    """A topic with two shards, five minutes at a time."""

    def __init__(self, shards: int = 2) -> None:
        self.queue = FakeQueue()
        self.queue.buffers["orders"] = {shard: [] for shard in range(shards)}
        self.queue.at_ms = START
        self._done: set[tuple[int, int]] = set()
        self.missing: set[tuple[int, int]] = set()

    def send(self, shard: int, delay_ms: int, lost: bool = False) -> None:
        buffer = self.queue.buffers["orders"][shard]
        buffer.append(self.queue.at_ms + delay_ms)
        if lost:
            self.missing.add((shard, len(buffer) - 1))

    def deliver(self) -> None:
        """What is due ends, without a mark."""
        for place, due_ms in self._pending():
            if due_ms <= self.queue.at_ms:
                self._done.add(place)
                if place not in self.missing:
                    self.queue.audit.append(("row", "orders", *place))

    def _pending(self) -> list[tuple[tuple[int, int], int]]:
        buffers = self.queue.buffers["orders"]
        every = [((shard, offset), due) for shard, buffer in buffers.items() for offset, due in enumerate(buffer)]
        return [(place, due_ms) for place, due_ms in every if place not in self._done]

    def mark(self, shard: int) -> None:
        """Everything that is due has been delivered, and the mark reports it."""
        pending = [due_ms for place, due_ms in self._pending() if place[0] == shard]
        low_ms = min([*pending, self.queue.at_ms])
        end = len(self.queue.buffers["orders"][shard])
        self.queue.audit.append(("mark", "orders", shard, end, low_ms, len(pending)))

    def pass_on(self, ms: int) -> None:
        self.queue.at_ms += ms
        self.deliver()
        for shard in self.queue.buffers["orders"]:
            self.mark(shard)


def day() -> list[Callable[[Traffic], None]]:
    """What happens between runs."""

    def morning(traffic: Traffic) -> None:
        for number in range(6):
            traffic.send(number % 2, number * WINDOW_MS, lost=number == 3)
        traffic.send(0, 3 * HOUR_MS)
        traffic.pass_on(HOUR_MS)

    def noon(traffic: Traffic) -> None:
        traffic.send(1, 0)
        traffic.deliver()  # its row stands before the mark that covers it
        traffic.send(1, -2 * HOUR_MS)  # due in a window that is closed
        traffic.pass_on(HOUR_MS)
        traffic.send(0, WINDOW_MS)
        traffic.queue.at_ms += WINDOW_MS
        traffic.deliver()  # and no mark: ahead

    def evening(traffic: Traffic) -> None:
        traffic.pass_on(4 * HOUR_MS)

    return [morning, noon, evening]


def untroubled() -> tuple[MemoryFiles, Traffic, list[Manifest]]:
    files, traffic, manifests = MemoryFiles(), Traffic(), []
    for happen in day():
        happen(traffic)
        manifests.append(run(files, traffic.queue))
    return files, traffic, manifests


def test_in_the_end_every_record_is_judged_and_the_missing_one_is_named() -> None:
    _, traffic, manifests = untroubled()
    orders = manifests[-1].topics["orders"]
    sent = sum(map(len, traffic.queue.buffers["orders"].values()))
    assert (orders.judged.accepted, orders.judged.done) == (sent, sent - 1)
    assert (orders.judged.findings, orders.totals.accepted) == ({"missing": 1}, sent)
    assert orders.totals.outcomes == {"delivered": sent - 1}
    assert orders.rejudge == []


def test_a_late_row_opens_its_window_again() -> None:
    files, _, manifests = untroubled()
    window = START - HOUR_MS
    assert manifests[0].topics["orders"].closed_until_ms > window
    assert files.exists(f"windows/run=2/orders/{window}")


def test_rows_without_a_mark_wait_for_the_next_run() -> None:
    _, _, manifests = untroubled()
    assert [manifest.topics["orders"].totals.accepted for manifest in manifests] == [7, 9, 10]


def test_a_run_with_nothing_new_changes_nothing() -> None:
    files, traffic, manifests = untroubled()
    again = run(files, traffic.queue)
    assert again == replace(manifests[-1], run=4, leftovers=[])
    assert [name for name in files.files if "run=4" in name] == ["stage/run=4/ahead"]


def test_the_queue_hears_how_far_it_has_been_read() -> None:
    _, traffic, _ = untroubled()
    ends = {shard: len(buffer) for shard, buffer in traffic.queue.buffers["orders"].items()}
    assert traffic.queue.kept_from[-1] == {"orders": ends}


def test_the_queue_hears_where_the_first_run_begins_before_anything_is_read() -> None:
    files, traffic = MemoryFiles(), Traffic()
    day()[0](traffic)
    traffic.queue.trimmed["orders", 0] = 2
    with pytest.raises(Killed):
        run(files, traffic.queue, Fuse(8))
    assert files.exists("plan-1.json")
    starts = {shard: 2 if shard == 0 else 0 for shard in traffic.queue.buffers["orders"]}
    assert traffic.queue.kept_from == [{"orders": starts}]


def plan_of(run: int, at_ms: int, *offsets: int) -> RepairPlan:
    lost = [LostMessage(f"orders.0.{offset}.7", "orders", 0, offset, 7, None) for offset in offsets]
    cluster = Cluster("fake", "c1", "delayline")
    return RepairPlan(cluster=cluster, run=run, at_ms=at_ms, audit={}, messages=lost, more=0)


def test_what_is_missing_is_kept_for_its_repair() -> None:
    read = {"orders": {0: 9, 1: 4}, "bills": {0: 5}}
    assert spared(read, [plan_of(2, 0, 8, 6), plan_of(1, 0, 7)]) == {"orders": {0: 6, 1: 4}, "bills": {0: 5}}
    assert spared({"bills": {0: 5}}, [plan_of(1, 0, 3)]) == {"bills": {0: 5}}


@pytest.mark.parametrize(("hours", "kept_from"), [(0, 1), (23, 1), (25, None)])
def test_the_queue_keeps_for_a_day_what_runs_have_missed(hours: int, kept_from: int | None) -> None:
    files, traffic, manifests = untroubled()
    end = manifests[-1].topics["orders"].shards[0].position
    missed_ms = traffic.queue.at_ms - hours * HOUR_MS
    files.write("runs/2/repair-plan.json", encode_repair_plan(plan_of(2, missed_ms, 1)))
    run(files, traffic.queue)
    assert traffic.queue.kept_from[-1]["orders"][0] == (end if kept_from is None else kept_from)


def steps_of_a_day() -> int:
    traffic, files, fuse = Traffic(), MemoryFiles(), Fuse(1_000_000)
    for happen in day():
        happen(traffic)
        run(files, traffic.queue, fuse)
    return 1_000_000 - fuse.left


@pytest.mark.parametrize("step", range(steps_of_a_day()))
def test_a_run_that_is_killed_anywhere_is_repeated_as_it_was_planned(step: int) -> None:
    files, traffic, fuse = MemoryFiles(), Traffic(), Fuse(step)
    manifests = []
    for happen in day():
        happen(traffic)
        before = last_manifest(files)
        try:
            run(files, traffic.queue, fuse)
        except Killed:
            fuse = Fuse(1_000_000)
            if last_manifest(files) == before:
                _repeat(files, traffic)
        manifests.append(last_manifest(files))
    expected, _, untouched = untroubled()
    assert manifests == untouched
    for ended in (files, expected):
        run(ended, traffic.queue)  # whatever was left to be copied, or removed, is that now
    assert {name: data for name, data in files.files.items() if _is_report_of(3, name)} == {
        name: data for name, data in expected.files.items() if _is_report_of(3, name)
    }
    assert not files.exists("lock")


def _repeat(files: MemoryFiles, traffic: Traffic) -> None:
    """It takes a while until somebody starts the run again. Where it had a plan, that is what it does."""
    queue = traffic.queue
    at_ms, ended = queue.at_ms, len(queue.audit)
    last = last_manifest(files)
    if files.exists(f"plan-{last.run + 1 if last else 1}.json"):
        queue.at_ms += 2 * HOUR_MS
        queue.audit.append(("mark", "orders", 0, len(queue.buffers["orders"][0]), queue.at_ms, 0))
    run(files, queue)
    del queue.audit[ended:]
    queue.at_ms = at_ms


def _is_report_of(run: int, name: str) -> bool:
    own = (f"runs/{run}/", f"windows/run={run}/", f"cells/run={run}/", f"merged/run={run}/", f"manifest-{run}")
    return name.startswith(own)


@pytest.mark.parametrize("missing", ["summary.json", "report.html"])
def test_the_report_that_people_look_at_is_made_again_by_the_next_run(missing: str) -> None:
    files, traffic, _ = untroubled()
    files.remove(missing)
    files.write("summary.json", b"of a run before")
    fuse = Fuse(8)  # enough for the lock and the copies
    with pytest.raises(Killed):
        run(files, traffic.queue, fuse)
    assert files.read(missing) == files.read(f"runs/3/{missing}")


def test_a_plan_that_cannot_be_read_any_more_is_given_up_and_the_loss_is_named() -> None:
    files, traffic = MemoryFiles(), Traffic()
    day()[0](traffic)
    with pytest.raises(Killed):
        run(files, traffic.queue, Fuse(8))
    assert files.exists("plan-1.json")
    files.write("cells/run=1/hour=7", b"of the plan that is given up")
    traffic.queue.trimmed["orders", 0] = 2
    assert run(files, traffic.queue).topics["orders"].shards[0].start == 2
    assert not files.exists("cells/run=1/hour=7")


def test_offsets_that_are_gone_before_they_were_read_are_a_gap_in_the_next_manifest() -> None:
    files, traffic = MemoryFiles(), Traffic()
    day()[0](traffic)
    run(files, traffic.queue)
    position = len(traffic.queue.buffers["orders"][0])
    for _ in range(3):
        traffic.send(0, WINDOW_MS)
    traffic.pass_on(HOUR_MS)
    traffic.queue.trimmed["orders", 0] = position + 2
    assert run(files, traffic.queue).topics["orders"].shards[0].lost == [(position, position + 2)]


def test_a_lost_part_of_the_audit_is_a_gap_until_the_first_record_behind_it() -> None:
    files, traffic = MemoryFiles(), Traffic()
    day()[0](traffic)
    read = run(files, traffic.queue).audit[0]
    traffic.pass_on(HOUR_MS)
    traffic.queue.audit_trimmed = read + 1
    gap = run(files, traffic.queue).audit_gaps[0]
    assert (gap.partition, gap.lost, gap.until_ms, gap.run) == (0, (read, read + 1), traffic.queue.at_ms, 2)


def test_a_topic_that_was_made_again_is_not_read_any_more() -> None:
    files, traffic, manifests = untroubled()
    traffic.queue.topic_ids["orders"] = "orders-2"
    traffic.queue.buffers["orders"] = {0: []}
    after = run(files, traffic.queue)
    assert after.topics["orders"] == replace(manifests[-1].topics["orders"], aside="recreated")
    assert traffic.queue.kept_from[-1] == {"orders": {0: 0}}  # its end: nothing of it is kept for the job


def test_the_ledger_of_another_cluster_is_refused_and_nothing_is_written() -> None:
    files, traffic, _ = untroubled()
    before = dict(files.files)
    traffic.queue.name = Cluster("fake", "c2", "delayline")
    with pytest.raises(OtherCluster, match="the ledger of fake 'c1', namespace 'delayline'"):
        run(files, traffic.queue)
    assert files.files == before


def test_two_at_once_are_refused() -> None:
    files, traffic, _ = untroubled()
    Lock(files, Holder("elsewhere", 7, 0, 0)).take()
    with pytest.raises(RunInProgress, match="process 7 on elsewhere"):
        run(files, traffic.queue)


def test_whoever_loses_the_lock_on_the_way_commits_nothing() -> None:
    files, traffic, _ = untroubled()
    lock = Lock(files, this_process(0))

    class Robbed(FakeStages):
        def report(self, *given: object) -> Mapping[str, bytes]:
            files.write("lock", b"another's")
            return {}

    with pytest.raises(RunInProgress):
        carry_out(files, lock, traffic.queue, Robbed(traffic.queue, files), HOUR_MS, silent)
    assert not files.exists("manifest-4.json")


def test_without_the_hint_the_last_manifest_is_found() -> None:
    files, _, manifests = untroubled()
    files.remove("latest.json")
    assert last_manifest(files) == manifests[-1]
    files.write("latest.json", b"1")
    assert last_manifest(files) == manifests[-1]


EVENT = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.integers(-20, 60), st.booleans()),
    st.tuples(st.just("deliver")),
    st.tuples(st.just("mark"), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.integers(1, 30)),
    st.tuples(st.just("run"), st.integers(0, 60)),
)


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(EVENT, max_size=40))
def test_whatever_happens_in_between_the_ledger_comes_out_even(events: list[tuple[int, ...]]) -> None:
    files, traffic = MemoryFiles(), Traffic()
    for kind, *arguments in events:
        _happen(files, traffic, str(kind), arguments)
    traffic.pass_on(3 * HOUR_MS)
    traffic.pass_on(3 * HOUR_MS)
    run(files, traffic.queue)
    orders = run(files, traffic.queue).topics["orders"]
    sent = sum(map(len, traffic.queue.buffers["orders"].values()))
    assert (orders.judged.accepted, orders.judged.done) == (sent, sent - len(traffic.missing))
    assert orders.judged.findings.get("missing", 0) == len(traffic.missing)


def _happen(files: MemoryFiles, traffic: Traffic, kind: str, arguments: list[int]) -> None:
    if kind == "send":
        traffic.send(arguments[0], arguments[1] * WINDOW_MS // 2, lost=bool(arguments[2]))
    elif kind == "deliver":
        traffic.deliver()
    elif kind == "mark":
        traffic.deliver()
        traffic.mark(arguments[0])
    elif kind == "wait":
        traffic.queue.at_ms += arguments[0] * WINDOW_MS // 2
    else:
        try:
            found = run(files, traffic.queue, Fuse(arguments[0]))
        except Killed:
            return
        _never_missing_too_early(found, traffic)


def _never_missing_too_early(manifest: Manifest, traffic: Traffic) -> None:
    """A message that waits, or whose row has not been read, is not missing."""
    orders = manifest.topics["orders"]
    assert orders.judged.findings.get("missing", 0) <= len(traffic.missing)
