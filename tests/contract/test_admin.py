"""mq.contract.Admin, over every queue."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from delayline.buffer.record import encode_rules
from delayline.errors import ConfigError, UnknownFormat
from delayline.records.message import Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import Append, Audited, Owner
from mq.errors import OffsetOutOfRange, PartitionUnknown, QueueUnavailable, TopicUnknown
from mq.local.queue import LocalQueue
from mq.memory import MemoryQueue
from tests.contract.conftest import NAMESPACE, MakeQueue, local_only, not_on_rocketmq
from tests.contract.drive import append, bodies, buffer, commit_audited, start_worker

SHARD = Shard("orders", "0")
NO_JOB = "the reconcile job does not read it: nobody has read a buffer"
OTHER_RULES = Rules(number=7, levels_ms=(1000, 2000))


# --- topics


@local_only("brokers' topics are never made on first use")
def test_a_topic_is_made_on_first_use_with_four_partitions(queue: LocalQueue) -> None:
    info = queue.ensure_topic("orders")
    assert (info.name, info.partitions, len(info.topic_id)) == ("orders", ("0", "1", "2", "3"), 16)
    assert queue.topic("orders") == info


def test_a_topic_is_made_once(queue: LocalQueue) -> None:
    assert queue.ensure_topic("orders") == queue.ensure_topic("orders")


def test_every_topic_has_its_own_identity(queue: LocalQueue) -> None:
    assert queue.ensure_topic("orders").topic_id != queue.ensure_topic("mail").topic_id


def test_an_unknown_topic_is_reported_as_unknown(queue: LocalQueue) -> None:
    with pytest.raises(TopicUnknown):
        queue.topic("orders")


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "naïve", "a/b", "a\n", "%RETRY%x", "x" * 250])
def test_a_name_that_no_topic_can_have_is_refused(queue: LocalQueue, name: str) -> None:
    with pytest.raises(TopicUnknown):
        queue.ensure_topic(name)


@pytest.mark.parametrize("name", ["delayline.audit", "delayline.dead", "delayline.buffer.orders", "delayline.x"])
def test_names_of_the_installation_are_no_topics_for_users(queue: LocalQueue, name: str) -> None:
    with pytest.raises(TopicUnknown):
        queue.ensure_topic(name)
    with pytest.raises(TopicUnknown):
        queue.ensure_buffer(name, DEFAULT_RULES)


def test_a_queue_that_is_there_can_be_reached(queue: LocalQueue) -> None:
    queue.reach()
    queue.close()
    with pytest.raises(QueueUnavailable):
        queue.reach()


def test_only_topics_of_users_are_listed(queue: LocalQueue) -> None:
    buffer(queue, "orders")
    queue.ensure_topic("mail")
    assert queue.topics() == ["mail", "orders"]


def test_the_installations_own_topics_can_be_read_from_the_first_buffer_on(queue: LocalQueue) -> None:
    queue.ensure_buffer("orders", DEFAULT_RULES)
    assert queue.offsets(f"{NAMESPACE}.audit", "0") == queue.offsets(f"{NAMESPACE}.dead", "3") == (0, 0)


def test_the_installations_own_topics_are_made_when_they_are_asked_for(queue: LocalQueue) -> None:
    queue.ensure_own()
    line = Append(
        f"{NAMESPACE}.operators", queue.topic(f"{NAMESPACE}.operators").partitions[0], encode_body(b"k", b"v")
    )
    queue.append([line]).result(timeout=30)
    (record,) = queue.read(line.topic, line.partition, 0, 10)
    assert decode_body(record.body)[:2] == (b"k", b"v")


@local_only("a cluster bounds its own topics")
def test_the_number_of_topics_is_bounded(make_queue: MakeQueue) -> None:
    queue = make_queue(topics_max=4)
    queue.ensure_topic("orders")
    with pytest.raises(TopicUnknown):
        queue.ensure_topic("mail")
    assert queue.ensure_topic("orders").name == "orders"


def test_a_namespace_that_no_topic_can_begin_with_is_a_configuration_error(make_queue: MakeQueue) -> None:
    with pytest.raises(ConfigError):
        make_queue(namespace="a b")


# --- buffer topics


def test_a_buffer_topic_has_as_many_partitions_as_its_target(make_queue: MakeQueue) -> None:
    queue = make_queue(partitions=7)
    assert queue.ensure_buffer("orders", DEFAULT_RULES).partitions == queue.topic("orders").partitions
    assert len(queue.topic("orders").partitions) == 7


def test_a_buffer_topic_is_made_once(queue: LocalQueue) -> None:
    assert queue.ensure_buffer("orders", OTHER_RULES) == queue.ensure_buffer("orders", DEFAULT_RULES)


def test_under_the_default_rules_a_buffer_topic_begins_empty(queue: LocalQueue) -> None:
    queue.ensure_buffer("orders", msgspec.structs.replace(DEFAULT_RULES, number=3))
    assert queue.log_range(SHARD) == (0, 0)


def test_under_other_rules_every_partition_begins_with_them(queue: LocalQueue) -> None:
    name = queue.ensure_buffer("orders", OTHER_RULES).name
    assert [bodies(queue, name, partition) for partition in "0123"] == [[encode_rules(OTHER_RULES)]] * 4


def test_threads_that_need_the_same_buffer_at_once_make_one(queue: LocalQueue) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: queue.ensure_buffer("orders", OTHER_RULES), range(16)))
    assert len(set(made)) == 1
    assert len(bodies(queue, made[0].name)) == 1


# --- takeover


def test_nobodys_shard_is_handed_over_without_a_cursor(queue: LocalQueue) -> None:
    topic_id = queue.ensure_buffer("orders", DEFAULT_RULES).topic_id
    found = queue.takeover(SHARD)
    assert (found.cursor, found.topic_id) == (None, topic_id)


def test_a_shard_is_handed_over_with_its_last_cursor(queue: LocalQueue) -> None:
    worker = start_worker(queue, "first")
    assert queue.takeover(SHARD).cursor == worker.cursors[SHARD]


def test_takeover_of_the_unknown_is_refused(queue: LocalQueue) -> None:
    with pytest.raises(TopicUnknown):
        queue.takeover(SHARD)
    buffer(queue)
    with pytest.raises(PartitionUnknown):
        queue.takeover(Shard("orders", "4"))


# --- trim


@pytest.fixture
def ten(queue: LocalQueue) -> str:
    """A buffer with ten records in partition 0, in three appends."""
    name = buffer(queue)
    for numbers in (range(4), range(4, 8), range(8, 10)):
        append(queue, name, "0", *(b"%d" % number for number in numbers))
    return name


@pytest.mark.parametrize("low_offset", [1, 4, 6, 9, 10])
def test_trimmed_records_are_gone_and_the_others_are_not(queue: LocalQueue, ten: str, low_offset: int) -> None:
    queue.trim(SHARD, low_offset)
    assert queue.log_range(SHARD) == queue.offsets(ten, "0") == (low_offset, 10)
    assert bodies(queue, ten, offset=low_offset) == [b"%d" % number for number in range(low_offset, 10)]
    with pytest.raises(OffsetOutOfRange):
        queue.read(ten, "0", low_offset - 1, 1)


def test_a_log_that_was_trimmed_to_its_end_goes_on_from_there(queue: LocalQueue, ten: str) -> None:
    queue.trim(SHARD, 10)
    assert append(queue, ten, "0", b"next")[0].offset == 10
    assert bodies(queue, ten, offset=10) == [b"next"]


def test_trimming_again_lower_changes_nothing(queue: LocalQueue, ten: str) -> None:
    queue.trim(SHARD, 6)
    queue.trim(SHARD, 2)
    assert queue.log_range(SHARD) == (6, 10)


def test_trimming_step_by_step_is_trimming(queue: LocalQueue, ten: str) -> None:
    for low_offset in range(1, 10):
        queue.trim(SHARD, low_offset)
        assert bodies(queue, ten, offset=low_offset)[0] == b"%d" % low_offset


@pytest.mark.parametrize("low_offset", [79, 80, 81, 99, 100])
def test_trimming_megabytes_takes_nothing_that_is_not_below(queue: LocalQueue, low_offset: int) -> None:
    name = buffer(queue)
    sent = [b"%d" % number * 5000 for number in range(100)]
    for first in range(0, 100, 4):
        append(queue, name, "0", *sent[first : first + 4])
    for low in (50, low_offset):
        queue.trim(SHARD, low)
    append(queue, name, "0", b"next")
    assert bodies(queue, name, offset=low_offset) == [*sent[low_offset:], b"next"]


def test_trimming_behind_the_end_is_refused(queue: LocalQueue, ten: str) -> None:
    with pytest.raises(OffsetOutOfRange):
        queue.trim(SHARD, 11)
    assert queue.log_range(SHARD) == (0, 10)


def test_trimming_one_shard_leaves_the_others(queue: LocalQueue, ten: str) -> None:
    append(queue, ten, "1", b"kept")
    queue.trim(SHARD, 10)
    assert bodies(queue, ten, "1") == [b"kept"]


def test_a_queue_is_known_by_one_name(queue: LocalQueue) -> None:
    assert queue.identity() == queue.identity() != ""


def test_whoever_looks_at_a_cursor_sees_the_last_one_and_takes_nothing_over(queue: LocalQueue) -> None:
    buffer(queue)
    before = queue.read_cursor_unfenced(SHARD)
    worker = start_worker(queue)
    assert (before, queue.read_cursor_unfenced(SHARD)) == (None, worker.cursors[SHARD])
    worker.commit(SHARD)


def test_where_no_job_ever_ran_nobody_has_read_a_buffer(queue: LocalQueue, ten: str) -> None:
    assert queue.audited(SHARD) is None


@not_on_rocketmq(NO_JOB)
def test_how_far_the_job_has_read_a_buffer_is_what_it_has_committed_last(queue: LocalQueue, ten: str) -> None:
    commit_audited(queue, SHARD, 3, '{"v":1,"at":1767225600000}')
    assert queue.audited(SHARD) == Audited(3, 1767225600000)
    commit_audited(queue, SHARD, 5, '{"v":1,"at":1767225600001}')
    assert queue.audited(SHARD) == Audited(5, 1767225600001)


@not_on_rocketmq(NO_JOB)
def test_of_a_buffer_that_is_new_since_its_last_run_the_job_has_read_nothing(queue: LocalQueue, ten: str) -> None:
    commit_audited(queue, SHARD, 3, '{"v":1,"at":1767225600000}')
    assert queue.audited(Shard("orders", "1")) == Audited(0, 1767225600000)


@not_on_rocketmq(NO_JOB)
def test_the_job_s_positions_must_be_readable(queue: LocalQueue, ten: str) -> None:
    if isinstance(queue, MemoryQueue):
        pytest.skip("it is handed over as it is")
    commit_audited(queue, SHARD, 3, '{"v":2,"at":1}')
    with pytest.raises(UnknownFormat):
        queue.audited(SHARD)


def test_how_far_an_unknown_buffer_has_been_read_is_no_question(queue: LocalQueue) -> None:
    with pytest.raises(TopicUnknown):
        queue.audited(SHARD)


def test_a_buffer_has_the_identity_that_its_handover_names(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    shard = next(iter(worker.cursors))
    assert queue.buffer(shard) == queue.topic(f"{NAMESPACE}.buffer.{shard.topic}")
    assert queue.buffer(shard).topic_id == queue.takeover(shard).topic_id


def test_nothing_is_wrong_with_a_target_that_is_there(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    assert [queue.target_trouble(shard) for shard in worker.cursors] == [None] * 4


def test_it_is_known_when_the_record_at_an_offset_was_appended(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    shard = next(iter(worker.cursors))
    positions = append(queue, buffer(queue), shard.partition, b"a", b"b")
    found = [queue.appended_at_ms(shard, at.offset) for at in positions]
    assert found == [at.appended_at_ms for at in positions]
    assert queue.appended_at_ms(shard, queue.log_range(shard)[1]) is None


def test_without_a_worker_nobody_owns_a_shard(queue: LocalQueue) -> None:
    buffer(queue)
    assert queue.owners() == {}


def test_the_owner_of_a_shard_is_the_worker_that_it_is_assigned_to_until_that_leaves(queue: LocalQueue) -> None:
    worker = start_worker(queue, "first")
    assert queue.owners() == dict.fromkeys(worker.cursors, Owner("first"))
    worker.source.close()
    assert queue.owners() == {}
