"""kafkawire.client.reader, against nodes that a test writes the lines of."""

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from delayline.records.record import encode_body
from kafkawire.client.address import Address
from kafkawire.client.fetching import ANSWER_BYTES, PARTITION_BYTES
from kafkawire.client.reader import SMALL_BYTES, WireReader
from kafkawire.client.reading import At, Gone, Part, Read, Spoilt
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.messages.fetch import FetchRequest, FetchResponse
from tests.unit.mq.kafka.fetched_from import CLOCK, PATIENCE_S, Cluster, bodies, read_bodies, read_until, running
from tests.unit.mq.kafka.logged import ABORT

pytestmark = pytest.mark.slow

FIRST, SECOND = At("orders", 0), At("orders", 1)
OTHER = At("mails", 0)
BODIES = [encode_body(None, b"%d" % n) for n in range(40)]
A, B, C = BODIES[:3]


@pytest.fixture
def one() -> Iterator[tuple[Cluster, WireReader]]:
    """A node that leads everything."""
    with running({FIRST: 1, SECOND: 1, OTHER: 1}) as found:
        yield found


@pytest.fixture
def two() -> Iterator[tuple[Cluster, WireReader]]:
    with running({FIRST: 1, SECOND: 2, OTHER: 2}) as found:
        yield found


def quiet(reader: WireReader) -> list[Read]:
    """What comes although nothing should, from a round trip or two."""
    return [found for _ in range(3) for found in reader.read(1000, 0.06)]


def read_one_by_one(cluster: Cluster, reader: WireReader, between: Callable[[], None]) -> list[bytes]:
    """The first five bodies, each appended when the one before has been read, and `between` happened."""
    seen = []
    for body in BODIES[:5]:
        cluster.append(FIRST, body)
        seen += read_bodies(reader, FIRST, 1)
        between()
    return seen


# --- reading


def test_records_come_with_their_offsets_from_where_was_asked(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.append(FIRST, A, B, C)
    reader.assign(FIRST, 1)
    found = read_until(reader, bool)
    assert [(part.at, [(row[0], row[2]) for row in part.records], part.next_offset) for part in found] == [  # type: ignore[union-attr]
        (FIRST, [(1, B), (2, C)], 3)
    ]


def test_several_partitions_of_several_nodes_are_read(two: tuple[Cluster, WireReader]) -> None:
    cluster, reader = two
    for at in cluster.logs:
        reader.assign(at, 0)
        cluster.append(at, A, B)
    found = read_until(reader, lambda found: all(len(bodies(found, at)) == 2 for at in cluster.logs))
    assert [bodies(found, at) for at in cluster.logs] == [[A, B]] * 3


def test_what_comes_later_is_read_later(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    reader.assign(FIRST, 0)
    assert read_one_by_one(cluster, reader, lambda: None) == BODIES[:5]


def test_a_read_gives_no_more_records_than_are_wanted_and_the_rest_later(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    for at in (FIRST, SECOND):
        cluster.append(at, *BODIES)
        reader.assign(at, 0)
    found: list[Read] = []
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while len(bodies(found, FIRST)) + len(bodies(found, SECOND)) < 80 and CLOCK.monotonic_s() < until_s:
        more = list(reader.read(7, 0.05))
        assert sum(len(part.records) for part in more if isinstance(part, Part)) <= 7
        found += more
    assert (bodies(found, FIRST), bodies(found, SECOND)) == (BODIES, BODIES)


def test_partitions_take_turns_where_a_read_has_not_room_for_all(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    for at in (FIRST, SECOND):
        cluster.append(at, *BODIES)
        reader.assign(at, 0)
    found = read_until(reader, lambda found: len(found) >= 6, records_max=2)
    assert [part.at for part in found[-4:]] in ([FIRST, SECOND] * 2, [SECOND, FIRST] * 2)


def test_a_partition_that_brought_records_stands_behind_the_others_in_the_next_request(
    one: tuple[Cluster, WireReader],
) -> None:
    cluster, reader = one

    def next_request() -> list[str]:
        before = len(cluster.fetches)
        read_until(reader, lambda _: len(cluster.fetches) > before)
        _, request = cluster.fetches[-1]
        return [topic.topic for topic in request.topics]

    for at in (FIRST, OTHER):
        reader.assign(at, 0)
    while len(next_request()) < 2:
        pass  # each topic's leader is looked for apart
    for at, other in ((FIRST, OTHER), (OTHER, FIRST)):
        cluster.append(at, A)
        read_bodies(reader, at, 1)
        assert next_request() == [other.topic, at.topic]


def test_where_everything_was_aborted_reading_reports_how_far_it_is(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    log = cluster.logs[FIRST]
    log.append([A, B], 7)
    log.end_transaction(7, ABORT)
    reader.assign(FIRST, 0)
    assert read_until(reader, bool) == [Part(FIRST, [], 3)]


def test_the_logs_end_is_known_from_reading(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.append(FIRST, A, B, C)
    reader.assign(FIRST, 0)
    before = reader.log_end(FIRST)
    read_bodies(reader, FIRST, 3)
    assert (before, reader.log_end(FIRST), reader.log_end(OTHER)) == (0, 3, 0)


def test_a_batch_larger_than_what_is_asked_for_is_asked_for_whole(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    large = encode_body(None, b"x" * (2 * ANSWER_BYTES))
    cluster.append(FIRST, A)
    cluster.append(FIRST, large, B)
    cluster.append(FIRST, C)
    reader.assign(FIRST, 0)
    assert read_bodies(reader, FIRST, 4) == [A, large, B, C]
    limits = [request.topics[0].partitions[0].partition_max_bytes for _, request in cluster.fetches]
    assert (limits[0], max(limits) > 2 * ANSWER_BYTES, limits[-1]) == (PARTITION_BYTES, True, PARTITION_BYTES)
    assert all(request.max_bytes >= limit for (_, request), limit in zip(cluster.fetches, limits, strict=True))


def test_while_records_wait_the_next_answer_waits_in_the_socket(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    for _ in range(3):
        cluster.append(FIRST, *[encode_body(None, b"x" * 150_000)] * 3)
    reader.assign(FIRST, 0)
    read_until(reader, bool, records_max=1)
    (link,) = reader.links.values()
    assert link.connection is not None
    select.select([link.connection], [], [], PATIENCE_S)
    assert (len(bodies(list(reader.read(1, 0)), FIRST)), len(link.waiting)) == (1, 1)


def test_requests_are_those_of_a_reader_of_what_is_committed(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    reader.assign(FIRST, 0)
    read_until(reader, lambda _: bool(cluster.fetches))
    _, request = cluster.fetches[0]
    (part,) = request.topics[0].partitions
    assert (request.isolation_level, request.session_id, request.session_epoch, request.rack_id) == (1, 0, -1, "")
    assert (part.current_leader_epoch, part.fetch_offset, request.replica_id) == (-1, 0, -1)


# --- assignments


def test_nothing_is_read_that_is_not_assigned(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.append(FIRST, A)
    assert (quiet(reader), cluster.fetches) == ([], [])


def test_what_was_fetched_before_a_partition_is_taken_away_never_comes_out(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.append(FIRST, *BODIES)
    reader.assign(FIRST, 0)
    read_until(reader, bool, records_max=1)
    reader.unassign(FIRST)
    assert (quiet(reader), reader.log_end(FIRST)) == ([], 0)


def test_an_answer_to_an_earlier_assignment_is_not_taken_for_the_present_one(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    asked, go_on = Event(), Event()

    def hold(_node: int, _request: FetchRequest) -> object:
        asked.set()
        go_on.wait(PATIENCE_S)
        return ...

    cluster.append(FIRST, *BODIES)
    cluster.instead = hold
    reader.assign(FIRST, 0)
    read_until(reader, lambda _: asked.is_set())
    reader.unassign(FIRST)
    reader.assign(FIRST, 30)
    go_on.set()
    assert read_bodies(reader, FIRST, 10) == BODIES[30:]


def test_a_partition_joins_while_others_are_read(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    reader.assign(FIRST, 0)
    quiet(reader)
    cluster.append(SECOND, A)
    reader.assign(SECOND, 0)
    assert read_bodies(reader, SECOND, 1) == [A]


# --- what a broker reports as wrong


def test_an_offset_that_is_not_in_the_log_is_reported_once_and_others_go_on(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    reader.assign(FIRST, 99)
    reader.assign(SECOND, 0)
    found = read_until(reader, bool)
    cluster.append(SECOND, A)
    later = read_until(reader, bool)
    assert ([type(one) for one in found], bodies(later, SECOND), len(later)) == ([Gone], [A], 1)
    reader.assign(FIRST, 0)
    cluster.append(FIRST, B)
    assert read_bodies(reader, FIRST, 1) == [B]


@pytest.mark.parametrize("lost", [1, 2])
def test_a_log_that_was_written_anew_below_what_was_read_is_reported_and_not_read_on(
    one: tuple[Cluster, WireReader], lost: int
) -> None:
    cluster, reader = one
    reader.assign(FIRST, 0)
    for body in (A, B):
        cluster.logs[FIRST].elect()
        cluster.append(FIRST, body)
    seen = read_bodies(reader, FIRST, 2)
    with cluster.changed:  # between two fetches
        cluster.logs[FIRST].lose(lost)
        cluster.logs[FIRST].append([C, C, C])
        cluster.changed.notify_all()
    found = read_until(reader, bool)
    assert (seen, [type(one) for one in found], quiet(reader)) == ([A, B], [Gone], [])
    assert isinstance(found[0], Gone)
    held = "1 (epoch 1)" if lost == 1 else "0 (epoch 2)"  # of an epoch below all that it knows
    assert f"before offset 2 (epoch 2) is not in the log any more, which has it up to {held}" in found[0].detail


def test_another_leader_of_the_same_log_is_read_on(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    reader.assign(FIRST, 0)
    seen = read_one_by_one(cluster, reader, cluster.logs[FIRST].elect)
    epochs = [request.topics[0].partitions[0].last_fetched_epoch for _, request in cluster.fetches]
    assert (seen, epochs[0], epochs[-1] >= 3, epochs) == (BODIES[:5], -1, True, sorted(epochs))


def test_a_log_that_cannot_be_read_is_reported_behind_what_can_be(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.append(FIRST, A)
    cluster.append(FIRST, B)
    log = cluster.logs[FIRST]
    first, last, data = log.batches[1]
    log.batches[1] = first, last, data[:-1] + bytes([data[-1] ^ 1])
    reader.assign(FIRST, 0)
    found = read_until(reader, lambda found: len(found) >= 2)
    assert (bodies(found, FIRST), [type(one) for one in found]) == ([A], [Part, Spoilt])
    assert isinstance(found[1], Spoilt)
    assert "at offset 1" in found[1].detail
    cluster.append(FIRST, C)
    assert quiet(reader) == []


def test_a_log_of_another_format_is_reported_and_not_asked_for_again(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.append(FIRST, encode_body(None, b"x" * 2 * SMALL_BYTES))
    cluster.append(FIRST, A)
    log = cluster.logs[FIRST]
    first, last, data = log.batches[1]
    log.batches[1] = first, last, data[:16] + b"\x03" + data[17:]
    reader.assign(FIRST, 0)
    found = read_until(reader, lambda found: len(found) >= 2)
    assert ([type(one) for one in found], quiet(reader), len(cluster.fetches)) == ([Part, Spoilt], [], 1)


def test_a_log_that_the_broker_finds_damaged_is_reported(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.errors[FIRST] = ErrorCode.CORRUPT_MESSAGE
    reader.assign(FIRST, 0)
    assert [type(one) for one in read_until(reader, bool)] == [Spoilt]


@pytest.mark.parametrize(
    "error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR]
)
def test_a_partition_that_cannot_be_read_does_not_keep_the_others(
    one: tuple[Cluster, WireReader], error: int
) -> None:
    cluster, reader = one
    cluster.errors[OTHER] = error
    for at in (OTHER, FIRST):
        cluster.append(at, A)
        reader.assign(at, 0)
    found = read_until(reader, lambda found: bool(bodies(found, FIRST)))
    asked = [any(topic.topic == OTHER.topic for topic in request.topics) for _, request in cluster.fetches]
    assert ([part.at for part in found], True in asked) == ([FIRST], True)


def test_what_passes_is_tried_again(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.errors[FIRST] = ErrorCode.LEADER_NOT_AVAILABLE
    reader.assign(FIRST, 0)
    cluster.append(FIRST, A)
    read_until(reader, lambda _: len(cluster.fetches) >= 3)
    del cluster.errors[FIRST]
    assert read_bodies(reader, FIRST, 1) == [A]


def test_a_partition_is_followed_to_its_new_leader(two: tuple[Cluster, WireReader]) -> None:
    cluster, reader = two
    cluster.append(FIRST, A)
    reader.assign(FIRST, 0)
    seen = read_bodies(reader, FIRST, 1)
    cluster.leaders[FIRST] = 2
    cluster.append(FIRST, B)
    assert (seen + read_bodies(reader, FIRST, 1), cluster.fetches[-1][0]) == ([A, B], 2)


def test_a_partition_is_followed_from_a_node_that_is_gone(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.addresses[9] = free_address()
    cluster.leaders[FIRST] = 9
    cluster.append(FIRST, A)
    reader.assign(FIRST, 0)
    quiet(reader)
    cluster.leaders[FIRST] = 1
    assert read_bodies(reader, FIRST, 1) == [A]


def free_address() -> Address:
    """Where nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return Address(*listener.getsockname())


def test_a_topic_that_does_not_exist_keeps_nobody(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    reader.assign(At("nothing", 0), 0)
    reader.assign(FIRST, 0)
    cluster.append(FIRST, A)
    assert read_bodies(reader, FIRST, 1) == [A]


# --- connections


@pytest.mark.parametrize(
    "answer", [None, b"\x00\x00\x00\x04\x00\x00\x00\x63", b"\xff\xff\xff\xff", FetchResponse(error_code=70)]
)
def test_after_a_connection_that_breaks_reading_goes_on_where_it_was(
    one: tuple[Cluster, WireReader], answer: Any
) -> None:
    cluster, reader = one
    times = iter(range(100))
    cluster.instead = lambda *_: answer if next(times) % 3 == 1 else ...
    reader.assign(FIRST, 0)
    seen = []
    for body in BODIES[:6]:
        cluster.append(FIRST, body)
        seen += read_bodies(reader, FIRST, 1)
    assert seen == BODIES[:6]


def test_an_answer_that_names_what_was_not_asked_for_harms_nobody(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    for at in (FIRST, SECOND):
        cluster.append(at, A)
    cluster.instead = lambda node, request: cluster.fetched(
        node, FetchRequest(topics=[*request.topics, *cluster_wide()])
    )
    reader.assign(FIRST, 0)
    assert [part.at for part in read_until(reader, bool)] == [FIRST]


def cluster_wide() -> Any:
    from kafkawire.protocol.messages.fetch import FetchPartition, FetchTopic

    return [FetchTopic(topic=SECOND.topic, partitions=[FetchPartition(1, partition_max_bytes=1 << 20)])]


@contextmanager
def silent_node() -> Iterator[Address]:
    """It takes connections and sends nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield Address(*listener.getsockname())


def test_a_node_that_is_dead_holds_nobody_up() -> None:
    with silent_node() as silent, running({FIRST: 1, SECOND: 1}) as (cluster, reader):
        cluster.addresses[9] = silent
        cluster.leaders[SECOND] = 9
        cluster.append(FIRST, A)
        reader.assign(SECOND, 0)
        reader.assign(FIRST, 0)
        started_s = CLOCK.monotonic_s()
        assert read_bodies(reader, FIRST, 1) == [A]
        reader.read(10, 0)
        assert CLOCK.monotonic_s() - started_s < 4


def test_closing_waits_for_no_node_and_a_connection_that_is_made_later_is_closed() -> None:
    with running({FIRST: 1}) as (_, reader):
        asked, go_on = Event(), Event()
        connect = reader.nodes.connect
        made = []

        def late(node_id: int) -> Any:
            asked.set()
            go_on.wait(PATIENCE_S)
            made.append(connect(node_id))
            return made[0]

        reader.nodes.connect = late
        reader.assign(FIRST, 0)
        read_until(reader, lambda _: asked.is_set())
        reader.close()
        go_on.set()
        helpers = [thread for thread in enumerate_threads() if thread.name == "kafka-look"]
        for helper in helpers:
            helper.join(PATIENCE_S)
        assert ([one.is_open for one in made], all(helper.daemon for helper in helpers)) == ([False], True)


def test_a_node_that_does_not_answer_in_time_is_asked_over_another_connection() -> None:
    with running({FIRST: 1}, timeout_s=0.2) as (cluster, reader):
        go_on = Event()
        calls = iter(range(100))
        cluster.instead = lambda *_: ... if next(calls) else go_on.wait(3 * PATIENCE_S) and None
        cluster.append(FIRST, A)
        reader.assign(FIRST, 0)
        assert read_bodies(reader, FIRST, 1) == [A]
        go_on.set()


def test_a_partition_is_followed_from_a_node_that_has_frozen() -> None:
    with running({FIRST: 1, SECOND: 2}, timeout_s=0.3) as (cluster, reader):
        go_on = Event()
        cluster.instead = lambda node, _: go_on.wait(3 * PATIENCE_S) and None if node == 1 else ...
        cluster.append(FIRST, A)
        reader.assign(FIRST, 0)
        read_until(reader, lambda _: bool(cluster.fetches))
        cluster.leaders[FIRST] = 2
        asked = len([node for node, _ in cluster.fetches if node == 1])
        seen = read_bodies(reader, FIRST, 1)
        go_on.set()
        assert (seen, len([node for node, _ in cluster.fetches if node == 1])) == ([A], asked)


def test_a_connection_at_the_end_of_its_session_gives_way_to_another(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    cluster.append(FIRST, A)
    reader.assign(FIRST, 0)
    seen = read_bodies(reader, FIRST, 1)
    (link,) = reader.links.values()
    assert link.connection is not None
    before, link.connection.session.use_until_s = link.connection, 0.0
    cluster.append(FIRST, B, C)
    seen += read_bodies(reader, FIRST, 2)
    assert (seen, link.connection is before, before.is_open) == ([A, B, C], False, False)


# --- waiting


def test_wake_ends_a_wait_at_once_and_one_wake_one_wait(one: tuple[Cluster, WireReader]) -> None:
    _, reader = one
    reader.wake()
    assert list(reader.read(10, PATIENCE_S)) == []
    waiting = Thread(target=reader.read, args=(10, PATIENCE_S), daemon=True)
    waiting.start()
    waiting.join(0.05)
    was_waiting = waiting.is_alive()
    reader.wake()
    waiting.join(PATIENCE_S / 2)
    assert (was_waiting, waiting.is_alive()) == (True, False)


def test_without_time_to_wait_nobody_waits(one: tuple[Cluster, WireReader]) -> None:
    _, reader = one
    reader.assign(FIRST, 0)
    assert list(reader.read(10, 0)) == []


def test_waiting_costs_no_turns(one: tuple[Cluster, WireReader], monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that does not wait for anything would turn thousands of times."""
    _, reader = one
    turns: list[float] = []
    advance = reader.advance_links
    monkeypatch.setattr(reader, "advance_links", lambda now_s: (turns.append(now_s), advance(now_s)))
    reader.assign(FIRST, 0)
    reader.assign(At("nothing", 0), 0)
    reader.read(10, 0.5)
    assert 1 < len(turns) < 60


def test_a_leader_is_looked_for_once_and_nobody_turns_meanwhile(
    one: tuple[Cluster, WireReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, reader = one
    go_on = Event()
    asked: list[object] = []
    turns: list[float] = []
    advance = reader.advance_links
    monkeypatch.setattr(reader.nodes, "leader", lambda *at: asked.append(at) or go_on.wait(PATIENCE_S))
    monkeypatch.setattr(reader, "advance_links", lambda now_s: (turns.append(now_s), advance(now_s)))
    reader.assign(FIRST, 0)
    reader.assign(SECOND, 0)
    reader.read(10, 0.3)
    go_on.set()
    assert (asked, len(turns) < 10) == ([FIRST], True)


def test_what_goes_wrong_in_a_helper_is_not_swallowed(one: tuple[Cluster, WireReader]) -> None:
    _, reader = one

    def broken(topic: str, partition: int) -> int:
        raise ZeroDivisionError

    reader.nodes.leader = broken
    reader.assign(FIRST, 0)
    with pytest.raises(ZeroDivisionError):
        reader.read(10, PATIENCE_S)


def test_records_that_wait_come_before_those_that_the_next_leader_brings(two: tuple[Cluster, WireReader]) -> None:
    """The connection ends with its session while an answer is handed out, and then the node is gone."""
    cluster, reader = two
    large = [encode_body(None, b"%d" % n + bytes(SMALL_BYTES // 10)) for n in range(40)]  # more is asked at once
    reader.assign(FIRST, 0)
    read_until(reader, lambda _: bool(cluster.fetches))
    link = reader.links[1]
    assert link.connection is not None
    link.connection.session.use_until_s = 0.0
    cluster.append(FIRST, *large[:20])
    seen = bodies(read_until(reader, bool, records_max=1), FIRST)
    cluster.append(FIRST, *large[20:])
    cluster.leaders[FIRST] = 2
    cluster.addresses[1] = reader.nodes.addresses[1] = Address("127.0.0.1", 1)  # type: ignore[attr-defined]
    for _ in range(10):
        reader.read(0, 0.05)
    assert len(seen) == 1
    while len(seen) < len(large):
        seen += bodies(read_until(reader, bool, records_max=1), FIRST)
    assert seen == large
