"""Owners of a shard on RocketMQ, one after the other, and what the last one left on its way."""

from typing import Any

import pytest

from delayline.errors import UnknownFormat
from mq.errors import CommitAborted, CommitError, CommitUnknown, DeliveryRefused, QueueUnavailable
from mq.rocketmq.journal import Claimed, ShardStep, encode
from rocketmq.errors import AnswerLost, NotAllowed, Refused, RocketmqError
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue
from tests.unit.mq.rocketmq.scene import AUDIT, JOURNAL, TARGET, BrokerInMemory, Worker, sink_of


def fails(worker: Worker, name: bytes) -> CommitError | None:
    """How a commit ended."""
    try:
        worker.commit(name)
    except CommitError as error:
        return error
    return None


def takes(worker: Worker) -> bool:
    """Whether the shard could be had."""
    try:
        worker.claim()
    except (CommitError, QueueUnavailable, UnknownFormat):
        return False
    return True


def test_what_the_broker_carries_out_after_a_sessions_end_is_read_back() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    first.claim()
    broker.held_up = {TARGET}
    error = fails(first, b"m")
    broker.held_up = set()
    second.claim()
    broker.land()
    assert isinstance(error, CommitUnknown)
    assert broker.bodies(TARGET) == broker.bodies(AUDIT) == [b"m"]


def test_what_is_stored_and_not_shown_yet_is_read_back() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    assert takes(first)
    broker.refusing = {AUDIT: Refused(1, "", "")}
    fails(first, b"m")
    broker.refusing = {}
    assert takes(second)
    assert broker.bodies(TARGET) == broker.bodies(AUDIT) == [b"m"]


def test_what_was_deleted_from_a_queue_is_not_taken_for_never_written() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    assert takes(first)
    broker.refusing = {AUDIT: Refused(1, "", "")}
    fails(first, b"m")
    broker.refusing = {}
    broker.store(TARGET, broker.queues[TARGET][:])
    broker.queues[TARGET][1] = broker.queues[TARGET][1]._replace(body=b"another", properties="")
    broker.deleted = {(TARGET, 0)}
    assert not takes(second)
    assert broker.bodies(TARGET) == [b"m", b"another"]


def test_a_journal_of_which_records_are_gone_is_not_read_past_them() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    assert takes(first)
    assert fails(first, b"m") is None
    first.session.end()
    broker.deleted = {(JOURNAL, len(broker.queues[JOURNAL]) - 2)}
    assert not takes(second)


def test_of_two_that_claim_at_once_the_first_in_the_journal_has_the_shard() -> None:
    broker = BrokerInMemory()
    second = Worker("second", broker)

    def another(queue: Queue) -> None:
        broker.before_store = lambda _: None
        broker.store(queue, [encode(Claimed(1, "another"))])

    broker.before_store = another
    assert not takes(second)


def test_a_step_that_lands_behind_a_later_claim_has_not_happened() -> None:
    broker = BrokerInMemory()
    first, second, third = (Worker(name, broker) for name in ("first", "second", "third"))
    first.claim()
    first.session.end()
    second.claim()
    late = ShardStep(1, 99, first.session.id, None, first.cursor.encode(), ())
    broker.store(JOURNAL, [encode(late)])
    second.session.end()
    assert takes(third)
    assert third.cursor.owner_epoch == second.cursor.owner_epoch + 1


def test_messages_of_other_programs_in_a_journal_change_nothing() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    assert takes(first)
    first.commit(b"m")
    broker.store(JOURNAL, [BatchMember(b"\x01 of another"), BatchMember(b"")] * 10)
    first.session.end()
    assert takes(second)
    second.commit(b"n")
    assert broker.bodies(TARGET) == [b"m", b"n"]


def test_a_broker_that_does_not_know_the_asker_reports_nothing_of_others() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    first.claim()
    broker.members.clear()
    assert not takes(second)


@pytest.mark.parametrize(("known_for_s", "rested_s"), [(0.0, [1.0]), (0.75, [0.25]), (1.0, []), (60.0, [])])
def test_a_takeover_waits_from_when_the_end_of_the_last_session_was_known(
    known_for_s: float, rested_s: list[float]
) -> None:
    """A worker's shards do not wait one after the other."""
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    first.claim()
    assert not second.is_free()
    first.session.end()
    assert second.is_free()
    second.clock.advance(round(1000 * known_for_s))
    second.take()
    assert second.rested_s == pytest.approx(rested_s)


def test_a_session_that_is_listed_behind_its_connections_end_does_not_count() -> None:
    """Its heartbeat was carried out behind that."""
    broker = BrokerInMemory()
    first = Worker("first", broker)
    first.claim()
    first.session.end()
    broker.members.append(first.session.id)
    assert takes(Worker("second", broker))


def test_a_shard_that_is_released_while_it_is_being_taken_goes_to_others() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    first.is_wanted = lambda _: False
    first.take()
    broker.show(JOURNAL, 1 << 20)
    assert first.session.is_open
    assert takes(second)


def test_a_shard_that_is_released_after_it_could_not_be_taken_goes_to_others() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    stores = iter([False, True])  # the claim is stored, and the record behind it is not

    def refuse(queue: Queue) -> None:
        broker.refusing = {JOURNAL: NotAllowed(16, "", "")} if next(stores, False) else {}

    broker.before_store = refuse
    assert not takes(first)
    broker.before_store, broker.refusing = lambda _: None, {}
    for holding in list(first.ownership.held().values()):
        first.ownership.release(holding)
    broker.show(JOURNAL, 1 << 20)
    assert takes(second)


def test_a_shard_that_is_released_while_its_lock_is_waited_for_is_claimed_anew() -> None:
    worker = Worker("first", BrokerInMemory())
    holding = worker.take()
    lock = holding.lock

    class ReleasedFirst:
        def __enter__(self) -> None:
            holding.lock = lock
            worker.ownership.release(holding)

        def __exit__(self, *_: object) -> None:
            pass

    released_first: Any = ReleasedFirst()
    holding.lock = released_first
    assert worker.take() is not holding
    assert worker.ownership.holding(holding.shard) is not holding


def test_a_session_that_lasts_keeps_its_shards() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    first.claim()
    assert not takes(second)
    first.session.end()
    assert takes(second)


def test_a_shard_that_was_released_is_free_although_the_session_lasts() -> None:
    broker = BrokerInMemory()
    first, second = Worker("first", broker), Worker("second", broker)
    first.claim()
    first.ownership.release(first.take())
    broker.show(JOURNAL, 1 << 20)
    assert takes(second)


def test_a_step_whose_rest_was_refused_is_finished_before_the_next_one() -> None:
    broker = BrokerInMemory()
    worker = Worker("first", broker)
    worker.claim()
    broker.refusing = {AUDIT: NotAllowed(16, "", "")}
    assert isinstance(fails(worker, b"m"), CommitUnknown)
    broker.refusing = {}
    worker.claim()
    worker.commit(b"n")
    assert broker.bodies(TARGET) == broker.bodies(AUDIT) == [b"m", b"n"]


def test_nothing_is_committed_while_an_earlier_step_is_open() -> None:
    broker = BrokerInMemory()
    worker = Worker("first", broker)
    worker.claim()
    holding = worker.take()
    holding.is_recovered = False
    worker.hold = lambda: holding
    assert isinstance(fails(worker, b"n"), CommitUnknown)
    assert broker.bodies(TARGET) == []


@pytest.mark.parametrize("error", [Refused(1, "", ""), AnswerLost("")])
def test_what_may_have_been_stored_ends_the_session(error: RocketmqError) -> None:
    broker = BrokerInMemory()
    worker = Worker("first", broker)
    worker.claim()
    broker.refusing = {TARGET: error}
    assert isinstance(fails(worker, b"m"), CommitUnknown)
    assert not worker.session.is_open


@pytest.mark.parametrize(
    ("error", "lasts"),
    [(Refused(2, "", ""), True), (Refused(1, "in-sync replicas not enough", ""), True), (Refused(1, "", ""), False)],
)
def test_a_journal_that_certainly_took_nothing_leaves_the_session(error: RocketmqError, lasts: bool) -> None:
    broker = BrokerInMemory()
    worker = Worker("first", broker)
    broker.refusing = {JOURNAL: error}
    assert not takes(worker)
    assert worker.session.is_open is lasts
    broker.refusing = {}
    assert takes(worker) is lasts


def test_a_lost_answer_ends_the_session() -> None:
    test_what_may_have_been_stored_ends_the_session(AnswerLost(""))


def test_what_the_target_refuses_has_not_happened_and_the_shard_goes_on() -> None:
    broker = BrokerInMemory()
    worker = Worker("first", broker)
    worker.claim()
    broker.refusing = {TARGET: NotAllowed(16, "", "")}
    error = fails(worker, b"m")
    broker.refusing = {}
    worker.commit(b"n")
    assert isinstance(error, DeliveryRefused)
    assert broker.bodies(TARGET) == broker.bodies(AUDIT) == [b"n"]


def test_a_broker_that_stays_busy_aborts_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mq.rocketmq.parts.BUSY_S", -1.0)
    broker = BrokerInMemory()
    worker = Worker("first", broker)
    worker.claim()
    broker.refusing = {TARGET: Refused(2, "", "")}
    error = fails(worker, b"m")
    broker.refusing = {}
    worker.commit(b"m")
    assert isinstance(error, CommitAborted)
    assert broker.bodies(TARGET) == [b"m"]


# --- several brokers


B_TARGET, B_AUDIT, B_JOURNAL = (queue._replace(broker="b") for queue in (TARGET, AUDIT, JOURNAL))


class TwoBrokers:
    """A worker with a shard on each."""

    def __init__(self) -> None:
        self.a, self.b = BrokerInMemory(), BrokerInMemory()
        self.at_a, self.at_b = Worker("first", self.a), Worker("first", self.b, at="b")
        self.at_a.patience_s = self.at_b.patience_s = 0.0
        for worker in (self.at_a, self.at_b):
            worker.claim()
        self.sink = sink_of(self.at_a, self.at_b)

    def commit(self, name: bytes) -> CommitUnknown:
        with pytest.raises(CommitUnknown) as found:
            self.sink.commit([self.at_a.part(name), self.at_b.part(name)])
        return found.value


@pytest.mark.parametrize("queue", [JOURNAL, TARGET, AUDIT])
def test_a_broker_that_does_not_answer_leaves_the_commit_of_other_brokers_alone(queue: Queue) -> None:
    scene = TwoBrokers()
    scene.a.slow = {queue}
    error = scene.commit(b"m")
    assert (error.concerns(scene.at_a.shard), error.concerns(scene.at_b.shard)) == (True, False)
    assert scene.b.bodies(B_TARGET) == scene.b.bodies(B_AUDIT) == [b"m"]
    scene.at_b.commit(b"n")


@pytest.mark.parametrize("queue", [JOURNAL, TARGET, AUDIT])
@pytest.mark.parametrize("error", [AnswerLost(""), NotAllowed(16, "", "")])
def test_a_part_that_fails_leaves_the_others_alone(queue: Queue, error: RocketmqError) -> None:
    scene = TwoBrokers()
    scene.a.refusing = {queue: error}
    if queue == JOURNAL and isinstance(error, NotAllowed):
        scene.b.refusing = {B_JOURNAL: AnswerLost("")}  # or nothing would have been written, and all could go again
    failed = scene.commit(b"m")
    assert failed.concerns(scene.at_a.shard)
    assert failed.concerns(scene.at_b.shard) == bool(scene.b.refusing)
    assert scene.b.bodies(B_TARGET) == scene.b.bodies(B_AUDIT) == ([] if scene.b.refusing else [b"m"])


def test_what_is_answered_late_is_not_done_a_second_time() -> None:
    scene = TwoBrokers()
    scene.a.slow = {TARGET}
    scene.commit(b"m")
    assert not takes(scene.at_a)
    scene.a.slow = set()
    scene.a.answer()
    assert takes(scene.at_a)
    assert scene.a.bodies(TARGET) == scene.a.bodies(AUDIT) == [b"m"]


def test_nothing_more_is_sent_to_a_broker_that_owes_an_answer() -> None:
    scene = TwoBrokers()
    scene.a.slow = {TARGET}
    scene.commit(b"m")
    assert isinstance(fails(scene.at_a, b"n"), CommitError)
    assert len(scene.a.waiting) == 1


def test_an_answer_that_never_comes_ends_the_session() -> None:
    scene = TwoBrokers()
    scene.a.slow = {TARGET}
    scene.commit(b"m")
    ((_, future),) = scene.a.waiting
    future.set_exception(AnswerLost("no answer in time"))
    assert scene.at_a.session.check_answers()
    assert not scene.at_a.session.is_open
    assert scene.at_b.session.is_open
