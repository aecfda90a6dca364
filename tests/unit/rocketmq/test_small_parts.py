"""Ids, signatures, header classes, JSON bodies."""

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayline.clock import ManualClock
from rocketmq.errors import InvalidRequest, Malformed, WireError
from rocketmq.wire.acl import AclCredentials, is_signed_by, signed
from rocketmq.wire.bodies import (
    BrokerAddresses,
    Queue,
    QueueRange,
    Route,
    decode_cluster,
    decode_consumer_ids,
    decode_locked,
    decode_master_epoch,
    decode_route,
    encode_cluster,
    encode_route,
)
from rocketmq.wire.headers.pull import PullMessage
from rocketmq.wire.headers.send import SendMessage, SendMessageV2
from rocketmq.wire.ids import (
    RecallHandle,
    StoredAt,
    UniqueKeys,
    decode_message_id,
    decode_recall_handle,
    encode_message_id,
)
from rocketmq.wire.lenient import loads
from tests.tiers import examples
from tests.unit.rocketmq.strategies import INT32, INT64

NAMES = st.text("abcXYZ%_-09", min_size=1, max_size=20)
SEND = SendMessageV2("group", "topic", 1, 0, 5, 0)


# --- ids


@given(st.ip_addresses(), INT32, INT64)
@settings(max_examples=examples(100))
def test_message_ids_are_read_as_they_were_written(host: object, port: int, offset: int) -> None:
    place = StoredAt(str(host), port, offset)
    assert decode_message_id(encode_message_id(place)) == place


@pytest.mark.parametrize("text", ["", "AB", "x" * 32, "A" * 30, "ä" * 32])
def test_what_is_no_message_id_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        decode_message_id(text)


def test_unique_keys_have_the_time_of_the_month_and_never_repeat() -> None:
    clock = ManualClock(1_767_225_600_000 + 12_345)  # the first of a month
    keys = UniqueKeys(clock)
    found = [keys.next() for _ in range(1000)]
    assert len(set(found)) == 1000
    assert {len(key) for key in found} == {32}
    assert {int(key[20:28], 16) for key in found} == {12_345}
    clock.advance(31 * 86_400_000)
    assert int(keys.next()[20:28], 16) == 12_345


@given(NAMES, NAMES, st.integers(0, 1 << 62), NAMES)
@settings(max_examples=examples(100))
def test_recall_handles_are_read_as_they_were_written(topic: str, broker: str, due_ms: int, key: str) -> None:
    handle = RecallHandle(topic, broker, due_ms, key)
    assert decode_recall_handle(handle.encode()) == handle
    assert decode_recall_handle(handle.encode().rstrip("=")) == handle


@given(st.text(max_size=60))
@settings(max_examples=examples(100))
def test_arbitrary_handles_and_ids_raise_a_wire_error_or_are_read(text: str) -> None:
    for read in (decode_recall_handle, decode_message_id):
        with contextlib.suppress(WireError):
            read(text)


def test_a_handle_with_a_space_in_a_name_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="spaces"):
        RecallHandle("a topic", "b", 1, "k").encode()


# --- signatures


def test_a_signature_covers_every_value_and_the_body() -> None:
    credentials = AclCredentials("user", "secret", "token")
    fields = signed({"b": "topic", "Signature": "of somebody else"}, b"body", credentials)
    assert is_signed_by(fields, b"body", "secret")
    assert not is_signed_by(fields, b"body", "other")
    assert not is_signed_by(fields, b"other", "secret")
    assert not is_signed_by(fields | {"b": "another"}, b"body", "secret")
    assert not is_signed_by({"b": "topic"}, b"", "secret")


def test_a_signature_does_not_depend_on_the_order_of_the_fields() -> None:
    credentials = AclCredentials("user", "secret")
    one, other = (signed(fields, b"", credentials) for fields in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}))
    assert one == other


def test_credentials_do_not_show_their_secret() -> None:
    assert "secret" not in repr(AclCredentials("user", "secret"))


# --- ext fields


def test_the_two_layouts_of_a_send_mean_the_same() -> None:
    letters = SEND.to_fields()
    assert letters == {"a": "group", "b": "topic", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "5", "h": "0"}
    names = SendMessage("group", "topic", 1, 0, 5, 0, batch=True, broker="a").to_fields()
    assert (names["producerGroup"], names["bornTimestamp"], names["batch"], names["bname"]) == (
        "group",
        "5",
        "true",
        "a",
    )


def test_what_old_clients_leave_out_has_a_default() -> None:
    found = SendMessageV2.from_fields({"a": "g", "b": "t", "e": "0", "f": "0", "g": "1", "h": "0", "unknown": "x"})
    assert (found.default_topic, found.default_topic_queue_nums, found.batch) == ("TBW102", 4, None)


def test_a_batch_is_one_only_where_java_reads_true() -> None:
    read = [SendMessageV2.from_fields(SEND.to_fields() | {"m": text}).batch for text in ("true", "TRUE", "1", "yes")]
    assert read == [True, True, False, False]


def test_a_field_that_is_missing_is_named() -> None:
    with pytest.raises(Malformed, match="PullMessage without consumerGroup"):
        PullMessage.from_fields({})


@pytest.mark.parametrize("text", ["", "a", "1_000", " 1", "٣", "1.0", "9223372036854775808", "1" * 5000])
def test_a_number_that_java_would_not_read_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="e is no number"):
        SendMessageV2.from_fields(SEND.to_fields() | {"e": text})


# --- JSON


ROUTE = Route(
    (QueueRange("a", 2, 1), QueueRange("b", 1, 1), QueueRange("c", 1, 1, permission=4)),
    (
        BrokerAddresses("x", "a", {0: "h:1"}),
        BrokerAddresses("x", "b", {1: "h:2"}),
        BrokerAddresses("x", "c", {0: "h:3"}),
    ),
)
ACTED_FOR = Route(
    (QueueRange("a", 2, 2, permission=4), QueueRange("b", 2, 2)),
    (BrokerAddresses("x", "a", {0: "replica:1"}, True), BrokerAddresses("x", "b", {0: "h:2", 1: "h:3"}, True)),
)
"""As name servers show a replica that acts for the master of `a`."""


def test_a_route_is_read_as_it_was_written() -> None:
    assert decode_route(encode_route(ROUTE)) == ROUTE
    assert decode_cluster(encode_cluster(ROUTE.brokers)) == ROUTE.brokers


def test_queues_are_written_to_where_there_is_a_master_and_permission() -> None:
    assert ROUTE.writable_queues("t") == [Queue("t", "a", 0)]
    assert [one.broker for one in ROUTE.readable_queues("t")] == ["a", "a", "b", "c"]
    assert (ROUTE.master_of("a"), ROUTE.master_of("b"), ROUTE.master_of("z")) == ("h:1", None, None)


def test_a_replica_that_acts_for_its_master_is_none() -> None:
    assert decode_route(encode_route(ACTED_FOR)) == ACTED_FOR
    assert (ACTED_FOR.master_of("a"), ACTED_FOR.master_of("b")) == (None, "h:2")
    assert ROUTE.master_of("c") == "h:3"  # read-only, where no replica may act


def test_the_last_election_counts() -> None:
    epochs = (
        b'{"epochList":[{"epoch":2,"startOffset":0,"endOffset":94},{"epoch":7,"startOffset":94}],"maxOffset":188}'
    )
    assert decode_master_epoch(epochs) == 7
    with pytest.raises(Malformed, match="without an epoch"):
        decode_master_epoch(b"{}")


def test_a_route_of_an_old_name_server_is_read() -> None:
    old = b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"{2:3}"},"brokerName":"a"}],"queueDatas":[]}'
    assert decode_route(old).brokers[0].addresses == {0: "10.0.0.1:10911", 1: "{2:3}"}


def test_locks_and_members_are_read() -> None:
    body = b'{"lockOKMQSet":[{"brokerName":"a","queueId":3,"topic":"t"}]}'
    assert decode_locked(body) == {Queue("t", "a", 3)}
    assert decode_consumer_ids(b'{"consumerIdList":["c1","c2"]}') == ["c1", "c2"]
    assert decode_locked(b"{}") == set()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"brokerDatas":3}',
        b'{"brokerDatas":[3]}',
        b'{"brokerDatas":[{"brokerAddrs":{"x":"y"}}]}',
        b'{"brokerDatas":[{"brokerAddrs":[]}]}',
        b'{"queueDatas":[{"readQueueNums":1000000}]}',
        b'{"queueDatas":[{"readQueueNums":-1}]}',
        b'{"queueDatas":[{"brokerName":5}]}',
    ],
)
def test_what_is_no_route_is_refused(body: bytes) -> None:
    if body == b'{"brokerDatas":[{"brokerAddrs":[]}]}':
        assert decode_route(body).brokers[0].addresses == {}
        return
    with pytest.raises(Malformed):
        decode_route(body)


@given(st.text('{}[],:"\\ 0123-ab', max_size=60))
@settings(max_examples=examples(400))
def test_arbitrary_json_raises_a_wire_error_or_is_read(text: str) -> None:
    for read in (loads, decode_route, decode_cluster, decode_locked, decode_consumer_ids):
        with contextlib.suppress(WireError):
            read(text.encode())


def test_the_time_to_refuse_hostile_json_grows_with_its_length_alone() -> None:
    costs = []
    for size in (20_000, 200_000):
        text = b'{"a":"' + b'\\"' * size
        before = time.process_time()
        with pytest.raises(Malformed):
            loads(text)
        costs.append(time.process_time() - before)
    assert costs[1] < 60 * costs[0] + 0.05
