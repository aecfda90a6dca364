"""Transactions over the protocol, with made-up brokers: what is asked, in which order, and what callers hear."""

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from delayline.clock import ManualClock
from delayline.errors import Bug
from kafkawire.batch.head import Codec
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from mq.errors import CommitUnknown, QueueUnavailable
from mq.kafka.admin.limits import BATCH_BYTES_MAX, Limits
from mq.kafka.data_path.exchange import Member
from mq.kafka.data_path.finishing import OFFSETS_TOPIC
from mq.kafka.data_path.producer import WireTransactions
from mq.kafka.data_path.sends import Aborted, Bulk, Send
from mq.kafka.librdkafka import trouble
from mq.kafka.settings import KafkaSettings
from tests.unit.mq.kafka.made_up_brokers import APPENDED_MS, LOST, UNSENT, Brokers

INIT, PRODUCE, OFFSETS, END = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.PRODUCE,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
ADD_PARTITIONS, ADD_OFFSETS = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN
COMMIT = [PRODUCE, OFFSETS, END]

SETTINGS = KafkaSettings(bootstrap_servers="made.up:1")
METADATA = b"CGMDv2:" + struct.pack("=i", 9) + b"workers\0me\0\x01"
AT = [TopicPartition("buffer", 3, 77, metadata="cursor.")]
BODY = bytes(20)


class Sizes:
    """The part of a cluster that knows how large batches may be."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.bytes_max = "1048588"

    def config(self, topic: str) -> dict[str, str]:
        self.asked.append(topic)
        if not self.bytes_max:
            raise QueueUnavailable("no answer")
        return {"max.message.bytes": self.bytes_max}


class Finisher:
    """How often it was asked to recover; whether that fences the producer, or fails. `left` are the places that have
    not heard of it, `hears` whether another try reaches them."""

    def __init__(self) -> None:
        self.recovered = 0
        self.fences = False
        self.fails = False
        self.left: set[tuple[str, int]] = set()
        self.hears = False

    def recover(self, transactional_id: str) -> bool:
        assert transactional_id == "me"
        if self.fails:
            raise QueueUnavailable("nobody knows")
        self.recovered += 1
        if self.hears:
            self.left.clear()
        fenced, self.fences = self.fences, False
        return fenced

    def unheard(self, transactional_id: str, group: str | None) -> frozenset[tuple[str, int]]:
        assert transactional_id == "me"
        assert group in ("workers", None)
        return frozenset(self.left)

    def sweep(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Scene:
    def __init__(self, level: int = 2, codec: Codec = Codec.NONE) -> None:
        self.brokers = Brokers(level)
        self.sizes = Sizes()
        self.clock = ManualClock()
        self.finisher = Finisher()
        limits = Limits(self.sizes)
        nodes: Any = self.brokers
        self.writer = WireTransactions(SETTINGS, "me", nodes, codec, limits, self.clock, self._pause, self.finisher)

        self.stopping = False

    def _pause(self, wait_s: float) -> bool:
        self.clock.advance(max(1, round(wait_s * 1000)))
        return self.stopping

    def run(self, *sends: Send | Bulk) -> None:
        self.writer.run(sends or [Send("orders", 0, BODY)], AT, METADATA)

    def aborted(self, *sends: Send | Bulk) -> Aborted:
        with pytest.raises(Aborted) as caught:
            self.run(*sends)
        return caught.value


@pytest.fixture
def scene() -> Scene:
    return Scene()


# --- what the last transaction has come to


def test_what_an_earlier_producer_has_left_is_recovered_before_its_id_is_taken(scene: Scene) -> None:
    scene.finisher.fails = True
    assert scene.aborted().error.code() == KafkaError._TRANSPORT
    assert scene.brokers.asked == []
    scene.finisher.fails = False
    scene.run()
    assert scene.finisher.recovered == 1


def test_and_not_again_while_everybody_answers(scene: Scene) -> None:
    for _ in range(5):
        scene.run()
    assert scene.finisher.recovered == 1


def test_a_connection_that_ended_between_two_transactions_has_it_recovered_again(scene: Scene) -> None:
    """The broker may have gone before it had its marker."""
    scene.run()
    for connection in scene.writer._connections.values():
        connection.close()
    scene.run()
    scene.run()
    assert scene.finisher.recovered == 2


def test_so_does_a_leader_that_is_none_any_more(scene: Scene) -> None:
    scene.run()
    scene.brokers.script(PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    scene.run()
    scene.run()
    assert scene.finisher.recovered == 2


@pytest.mark.parametrize("place", [("orders", 0), (OFFSETS_TOPIC, 7)])
def test_nothing_is_written_where_the_end_of_an_earlier_transaction_is_not_known(
    scene: Scene, place: tuple[str, int]
) -> None:
    """A marker of this one would end that one, too, committed or not."""
    scene.run()
    scene.finisher.left = {place}
    asked = scene.brokers.apis()
    aborted = scene.aborted()
    assert [failure[:2] for failure in aborted.failures] == [place]
    assert not aborted.silent
    assert (scene.brokers.apis(), scene.finisher.recovered) == (asked, 2)
    scene.finisher.hears = True
    scene.run()
    assert (scene.brokers.apis(), scene.finisher.recovered) == ([*asked, *COMMIT], 3)


def test_what_others_have_not_heard_of_is_no_matter(scene: Scene) -> None:
    scene.run()
    scene.finisher.left = {("elsewhere", 0), ("orders", 17)}
    scene.run()
    scene.run()
    assert scene.finisher.recovered == 1


def test_a_producer_that_was_fenced_for_it_begins_anew(scene: Scene) -> None:
    scene.run()
    scene.finisher.left, scene.finisher.hears, scene.finisher.fences = {("orders", 0)}, True, True
    scene.run()
    assert scene.brokers.apis() == [INIT, *COMMIT, INIT, *COMMIT]


# --- what is asked


def test_a_commit_with_implicit_partitions_is_three_requests(scene: Scene) -> None:
    scene.run()
    assert scene.brokers.asked == [(1, INIT, 4), (1, PRODUCE, 12), (1, OFFSETS, 5), (1, END, 5)]
    scene.run()
    assert scene.brokers.apis() == [INIT, *COMMIT, *COMMIT]
    assert [(head.producer_epoch, head.base_sequence) for *_, head in scene.brokers.heads] == [(0, 0), (1, 0)]
    assert scene.brokers.connected == 1


def test_elsewhere_partitions_and_offsets_are_added_in_older_versions() -> None:
    scene = Scene(level=1)
    scene.run()
    assert scene.brokers.asked == [
        *((1, INIT, 4), (1, ADD_PARTITIONS, 3), (1, PRODUCE, 11)),
        *((1, ADD_OFFSETS, 3), (1, OFFSETS, 4), (1, END, 4)),
    ]
    scene.run()
    assert [(head.producer_epoch, head.base_sequence) for *_, head in scene.brokers.heads] == [(0, 0), (0, 1)]


def test_each_leader_gets_one_message_with_a_batch_of_each_of_its_partitions(scene: Scene) -> None:
    scene.run(Bulk("orders", 0, [(BODY, None)] * 3), Bulk("orders", 1, [(BODY, None)]), Send("audit", 2, BODY))
    assert [asked[:2] for asked in scene.brokers.asked[1:3]] == [(1, PRODUCE), (2, PRODUCE)]
    batches = [(topic, row, head.record_count) for topic, row, head in scene.brokers.heads]
    assert batches == [("orders", 0, 3), ("audit", 2, 1), ("orders", 1, 1)]


def test_a_partition_with_more_than_a_batch_may_hold_gets_several_in_order(scene: Scene) -> None:
    scene.sizes.bytes_max = "1000"
    scene.run(Bulk("orders", 0, [(bytes(300), None)] * 5))
    found = [(head.base_sequence, head.record_count) for *_, head in scene.brokers.heads]
    assert found == [(0, 2), (2, 2), (4, 1)]
    assert scene.brokers.apis() == [INIT, PRODUCE, PRODUCE, PRODUCE, OFFSETS, END]


def test_no_message_is_too_long_for_a_broker(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mq.kafka.data_path.outgoing.MESSAGE_BYTES_MAX", 700)
    scene.sizes.bytes_max = "1000"
    scene.run(Bulk("orders", 0, [(bytes(300), None)] * 3), *(Send("audit", row, bytes(300)) for row in (0, 2, 4)))
    found = [(topic, row, head.base_sequence) for topic, row, head in scene.brokers.heads]
    assert found == [("orders", 0, 0), ("orders", 0, 2), ("audit", 0, 0), ("audit", 2, 0), ("audit", 4, 0)]
    assert scene.brokers.apis() == [INIT, PRODUCE, PRODUCE, PRODUCE, OFFSETS, END]


def test_the_order_of_a_partitions_records_is_that_of_the_sends(scene: Scene) -> None:
    heard: list[tuple[str, int]] = []
    scene.run(
        Send("orders", 0, BODY, None, lambda offset, _: heard.append(("first", offset))),
        Bulk("orders", 0, [(BODY, None)] * 3),
        Send("orders", 0, BODY, None, lambda offset, _: heard.append(("last", offset))),
    )
    assert heard == [("first", 100), ("last", 104)]


def test_who_asks_where_a_record_stands_hears_the_brokers_time_where_it_has_one(scene: Scene) -> None:
    heard: list[int] = []
    sends = [Send("orders", 0, BODY, stamp, lambda _, ms: heard.append(ms)) for stamp in (5, None)]
    scene.run(*sends)
    scene.brokers.append_time_ms = -1
    scene.run(*sends)
    assert heard == [APPENDED_MS, APPENDED_MS, 5, scene.clock.now_ms()]


def test_who_asks_about_a_record_in_a_later_batch_hears_its_offset(scene: Scene) -> None:
    scene.sizes.bytes_max = "1000"
    heard: list[tuple[int, int]] = []

    def listen(number: int, offset: int, _: int) -> None:
        heard.append((number, offset))

    scene.run(*(Send("orders", 0, bytes(300), None, partial(listen, number)) for number in range(5)))
    assert heard == [(number, 100 + number) for number in range(5)]


def test_offsets_carry_the_member_and_metadata_that_ends_as_librdkafka_ends_it(scene: Scene) -> None:
    scene.run()
    request = scene.brokers.requests[2]
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.group_id, request.generation_id, request.member_id) == ("workers", 9, "me")
    assert (topic.name, partition.partition_index, partition.committed_offset) == ("buffer", 3, 77)
    assert partition.committed_metadata == "cursor.\0"


def test_a_transaction_of_nothing_asks_for_nothing(scene: Scene) -> None:
    scene.writer.run([Bulk("orders", 0, [])])
    assert scene.brokers.apis() == [INIT]


def test_sends_that_cannot_be_made_leave_nothing_behind(scene: Scene) -> None:
    def broken() -> Iterator[Send]:
        yield Send("orders", 0, BODY)
        raise QueueUnavailable("no more")

    with pytest.raises(QueueUnavailable):
        scene.writer.run(broken(), AT, METADATA)
    scene.run()
    assert scene.brokers.apis() == [INIT, *COMMIT]


# --- what goes wrong


def test_a_refused_partition_is_named_and_what_is_open_is_ended_at_once(scene: Scene) -> None:
    scene.brokers.script(PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    aborted = scene.aborted(Send("orders", 0, BODY), Send("orders", 2, BODY))
    assert [(one.topic, one.partition, one.error.code()) for one in aborted.failures] == [
        ("orders", 0, KafkaError.TOPIC_AUTHORIZATION_FAILED),
        ("orders", 2, KafkaError.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert not aborted.silent
    assert scene.brokers.apis() == [INIT, PRODUCE, INIT]


def test_a_partition_that_may_not_be_added_is_named_and_the_unattempted_are_not() -> None:
    scene = Scene(level=1)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED
    scene.brokers.of_rows = dict(enumerate(reversed(refused)))
    scene.brokers.script(ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    aborted = scene.aborted(Send("orders", 0, BODY), Send("orders", 1, BODY))
    assert [one[:2] for one in aborted.failures] == [("orders", 1)]
    assert aborted.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_coordinator_that_is_not_done_with_one_partition_is_asked_again_for_all() -> None:
    scene = Scene(level=1)
    scene.brokers.of_rows = {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 1: ErrorCode.CONCURRENT_TRANSACTIONS}
    scene.brokers.script(ADD_PARTITIONS, ErrorCode.CONCURRENT_TRANSACTIONS)
    scene.run(Send("orders", 0, BODY), Send("orders", 2, BODY), Send("orders", 1, BODY))
    assert scene.brokers.apis()[:4] == [INIT, ADD_PARTITIONS, ADD_PARTITIONS, PRODUCE]


def test_brokers_that_cannot_be_reached_for_a_while_are_waited_for(scene: Scene) -> None:
    scene.writer.open()
    scene.brokers.unreachable = 5
    scene.brokers.script(PRODUCE, UNSENT)
    scene.run(Send("orders", 0, BODY), Send("orders", 1, BODY))
    assert scene.brokers.apis() == [INIT, PRODUCE, PRODUCE, OFFSETS, END]


def test_brokers_that_cannot_be_reached_at_all_are_silent(scene: Scene) -> None:
    scene.writer.open()
    scene.brokers.unreachable = 1000
    scene.brokers.script(PRODUCE, UNSENT)
    assert scene.aborted().silent
    assert scene.clock.monotonic_s() == pytest.approx(SETTINGS.transaction_timeout_s, abs=0.2)


def test_a_limit_that_was_lowered_is_asked_for_again(scene: Scene) -> None:
    several = Bulk("orders", 0, [(BODY, None)] * 2)
    scene.run(several)
    scene.brokers.script(PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
    assert trouble.of_record(scene.aborted(several).failures[0].error)
    scene.run(several)
    assert scene.sizes.asked == ["orders", "orders"]


def test_a_limit_that_is_not_reported_is_the_brokers_default(scene: Scene) -> None:
    scene.sizes.bytes_max = ""
    assert Limits(scene.sizes).of("orders") == BATCH_BYTES_MAX


def test_too_few_replicas_for_as_long_as_a_transaction_lasts_are_silent(scene: Scene) -> None:
    scene.brokers.script(PRODUCE, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
    aborted = scene.aborted()
    assert [one.error.code() for one in aborted.failures] == [KafkaError._MSG_TIMED_OUT]
    assert aborted.silent
    assert scene.clock.monotonic_s() == pytest.approx(SETTINGS.transaction_timeout_s, abs=0.2)


def test_a_batch_that_is_damaged_on_its_way_is_sent_again_as_it_was(scene: Scene) -> None:
    scene.brokers.script(PRODUCE, ErrorCode.CORRUPT_MESSAGE)
    scene.run()
    assert scene.brokers.apis() == [INIT, PRODUCE, *COMMIT]
    assert [(head.producer_epoch, head.base_sequence) for *_, head in scene.brokers.heads] == [(0, 0), (0, 0)]
    assert scene.brokers.forgotten == []


def test_batches_that_all_arrive_damaged_are_the_partitions_trouble_and_no_records_fault(scene: Scene) -> None:
    scene.brokers.script(PRODUCE, *[ErrorCode.CORRUPT_MESSAGE] * 1000, of=lambda _, partition: partition == 0)
    aborted = scene.aborted(Send("orders", 0, BODY), Send("orders", 2, BODY))
    assert [(one.topic, one.partition, one.error.code()) for one in aborted.failures] == [
        ("orders", 0, KafkaError.INVALID_MSG)
    ]
    assert not trouble.of_record(aborted.failures[0].error)
    assert not aborted.silent  # so that the partition is named, and not only a commit that came to nothing
    assert scene.clock.monotonic_s() == pytest.approx(SETTINGS.transaction_timeout_s, abs=0.2)


def test_a_write_without_an_answer_aborts_and_the_next_transaction_begins_anew(scene: Scene) -> None:
    scene.brokers.script(PRODUCE, LOST)
    aborted = scene.aborted()
    assert trouble.local(aborted.error)
    assert not aborted.silent
    scene.run()
    assert scene.brokers.apis() == [INIT, PRODUCE, INIT, *COMMIT]
    assert scene.brokers.heads[-1][2].producer_epoch == 1


def test_an_answer_that_comes_after_a_loss_is_not_heard(scene: Scene) -> None:
    """What was sent to the other leader is not waited for; its connection goes."""
    scene.brokers.script(PRODUCE, LOST)
    scene.aborted(Send("orders", 0, BODY), Send("orders", 1, BODY))
    scene.run(Send("orders", 1, BODY))
    assert scene.brokers.connected == 4


def test_a_lost_end_is_repeated_and_found_to_be_a_commit(scene: Scene) -> None:
    scene.brokers.script(END, LOST, ErrorCode.CONCURRENT_TRANSACTIONS)
    scene.run()
    assert scene.brokers.apis() == [INIT, *COMMIT, END, END]


def test_a_lost_end_of_a_fenced_producer_is_unknown_and_what_is_open_is_ended(scene: Scene) -> None:
    scene.brokers.script(END, LOST, ErrorCode.PRODUCER_FENCED)
    with pytest.raises(CommitUnknown):
        scene.run()
    assert scene.brokers.apis() == [INIT, *COMMIT, END, INIT]


def test_an_end_that_nobody_answers_is_insisted_on_for_some_timeouts(scene: Scene) -> None:
    scene.brokers.script(END, *[LOST] * 100_000)
    with pytest.raises(CommitUnknown):
        scene.run()
    assert scene.clock.monotonic_s() == pytest.approx(3 * SETTINGS.transaction_timeout_s, abs=0.3)


def test_a_process_that_stops_waits_for_nobody(scene: Scene) -> None:
    scene.stopping = True
    scene.brokers.script(PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert scene.aborted().silent
    scene.brokers.script(END, LOST)
    with pytest.raises(CommitUnknown):
        scene.run()
    assert scene.clock.monotonic_s() < 1


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_whoever_is_fenced_hears_so_and_leaves_the_id_to_his_heir(scene: Scene, code: ErrorCode) -> None:
    scene.brokers.script(PRODUCE, code)
    assert trouble.fenced(scene.aborted().error)
    assert scene.brokers.apis() == [INIT, PRODUCE]


def test_an_old_generation_is_reported_and_what_is_open_is_ended(scene: Scene) -> None:
    scene.brokers.script(OFFSETS, KafkaError.ILLEGAL_GENERATION)
    assert trouble.old_generation(scene.aborted().error)
    assert scene.brokers.apis() == [INIT, PRODUCE, OFFSETS, INIT]


@pytest.mark.parametrize("api", [INIT, PRODUCE])
def test_a_transaction_before_that_does_not_end_is_reported_as_that(scene: Scene, api: ApiKey) -> None:
    scene.brokers.script(api, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 1000)
    assert trouble.unfinished(scene.aborted().error)


def test_offsets_wait_for_the_groups_coordinator_only_so_long(scene: Scene) -> None:
    scene.brokers.script(OFFSETS, *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000)
    assert trouble.timed_out(scene.aborted().error)
    assert scene.clock.monotonic_s() == pytest.approx(SETTINGS.offsets_timeout_s, abs=0.2)


def test_a_coordinator_that_has_moved_is_looked_for(scene: Scene) -> None:
    scene.brokers.script(OFFSETS, ErrorCode.NOT_COORDINATOR)
    scene.run()
    assert scene.brokers.forgotten == [(0, "workers")]


def test_a_leader_that_has_moved_is_looked_for_and_gets_the_same_batch(scene: Scene) -> None:
    scene.brokers.script(PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    scene.run()
    assert scene.brokers.forgotten == ["orders"]
    assert [(head.producer_epoch, head.base_sequence) for *_, head in scene.brokers.heads] == [(0, 0), (0, 0)]


def test_a_topic_that_does_not_appear_is_named_soon(scene: Scene) -> None:
    scene.brokers.missing.add("orders")
    aborted = scene.aborted(Send("orders", 0, BODY), Send("audit", 0, BODY))
    assert [(one.topic, one.error.code()) for one in aborted.failures] == [
        ("orders", KafkaError.UNKNOWN_TOPIC_OR_PART)
    ]
    assert scene.clock.monotonic_s() == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("api", [PRODUCE, OFFSETS, END])
def test_a_connection_that_was_idle_for_too_long_is_replaced_without_a_word(scene: Scene, api: ApiKey) -> None:
    scene.brokers.script(api, UNSENT)
    scene.run()
    assert scene.brokers.apis() == [INIT, *COMMIT]
    assert scene.brokers.connected == 2
    assert scene.clock.monotonic_s() == 0


def test_a_connection_whose_session_ends_is_replaced_between_two_requests(scene: Scene) -> None:
    scene.brokers.session_s = 5.0
    scene.run()
    scene.clock.advance(5001)
    scene.run(Bulk("orders", 0, [(bytes(1_000_000), None)] * 2))
    assert scene.brokers.connected == 2
    assert scene.brokers.apis() == [INIT, *COMMIT, PRODUCE, *COMMIT]


def test_offsets_that_the_answer_lacks_are_not_committed(scene: Scene) -> None:
    scene.brokers.forgets_offsets = True
    scene.aborted()
    assert END not in scene.brokers.apis()


def test_opening_again_asks_for_nothing_while_the_producer_works(scene: Scene) -> None:
    scene.writer.open()
    scene.writer.open()
    assert scene.brokers.apis() == [INIT]
    scene.writer.close()
    scene.writer.open()
    assert scene.brokers.apis() == [INIT, INIT]


def test_a_producer_id_that_is_refused_is_reported(scene: Scene) -> None:
    scene.brokers.script(INIT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(Aborted) as caught:
        scene.writer.open()
    assert caught.value.error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# --- the member of the group


def test_the_member_is_read_as_the_library_writes_it() -> None:
    for instance in (None, "instance"):
        properties = {"bootstrap.servers": "127.0.0.1:1", "group.id": "workers"}
        consumer = Consumer(properties | ({"group.instance.id": instance} if instance else {}))
        member = Member.of(consumer.consumer_group_metadata())
        consumer.close()
        assert member == Member("workers", -1, "", instance)


@pytest.mark.parametrize("metadata", [b"", b"CGMDv3:" + METADATA[7:], METADATA[:20], METADATA[:-1] + b"\x02"])
def test_a_member_in_another_layout_is_a_bug(metadata: bytes) -> None:
    with pytest.raises((Bug, struct.error)):
        Member.of(metadata)
