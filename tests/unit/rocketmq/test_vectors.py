"""Our bytes against RocketMQ's own classes: each side reads what the other has written, in one run of Java."""

import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from rocketmq.wire.acl import AclCredentials, signed
from rocketmq.wire.batch import decode_batch, encode_batch, member
from rocketmq.wire.bodies import (
    BrokerAddresses,
    Consumer,
    Queue,
    QueueRange,
    Route,
    decode_route,
    encode_heartbeat,
    encode_locks,
    encode_route,
)
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, Encoding, decode_frame, encode_frame
from rocketmq.wire.compression import Compression, compress, flags_of
from rocketmq.wire.headers import admin, pull, send
from rocketmq.wire.ids import RecallHandle, StoredAt, decode_message_id, decode_recall_handle, encode_message_id
from rocketmq.wire.properties import encode_properties
from rocketmq.wire.schema import Fields, _table
from rocketmq.wire.stored import StoredMessage, SysFlag, encode_message, read_messages
from tests.brokers.java import compiled
from tests.conftest import required

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).with_name("Vectors.java")

ROUTE = Route(
    (QueueRange("broker-a", 4, 3),),
    (BrokerAddresses("DefaultCluster", "broker-a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, True),),
)
PLAIN = StoredMessage(
    topic="topic",
    queue_id=3,
    queue_offset=1 << 40,
    commit_log_offset=1 << 50,
    body=b"a body",
    properties=encode_properties({"KEYS": "k", "ä": "漢"}).encode(),
    flag=-5,
    sys_flag=0,
    born_ms=1_767_225_600_123,
    born_ip=bytes([10, 0, 0, 1]),
    born_port=1234,
    stored_ms=1_767_225_600_456,
    store_ip=bytes([10, 0, 0, 2]),
    store_port=10911,
    reconsume_times=3,
    prepared_offset=77,
    body_crc=0,
)
V6 = bytes.fromhex("20010db8000000000000000000000001")
BODY = b"what is compressed repeats, repeats, repeats" * 30
MESSAGES = [
    PLAIN,
    PLAIN._replace(born_ip=V6, sys_flag=int(SysFlag.BORN_HOST_V6)),
    PLAIN._replace(born_ip=V6, store_ip=V6, sys_flag=int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)),
    PLAIN._replace(topic="t" * 200),
    *(PLAIN._replace(body=compress(one, BODY), sys_flag=flags_of(one)) for one in Compression),
]
COMMANDS = [
    Command(310, {"a": "gruppe", "i": "KEYS\x01ä 漢\x02"}, b"\x00body", 7, 0, "a remark", encoding=encoding)
    for encoding in Encoding
]
PLACES = [StoredAt("10.0.0.1", 10911, 1 << 40), StoredAt("2001:db8::1", 10911, 1 << 40)]
HANDLE = RecallHandle("topic", "broker-a", 1_767_225_600_001, "KEY?>")
MEMBERS = [member(b"one", {"KEYS": "a"}, 1), member(b"", {}), member(b"three", {"ä": "漢", "b": "c"}, -3)]
QUEUES = [Queue("topic", "broker-a", 1)]

Spoken = Mapping[str, list[str]]


def asked() -> Iterable[tuple[str, bytes]]:
    """What Java is to read, in the order of its answers."""
    for command in COMMANDS:
        yield "frame", b"".join(encode_frame(command))
    for message in MESSAGES:
        yield "message", encode_message(message)
    yield "batch", encode_batch(MEMBERS)
    yield "properties", encode_properties({"KEYS": "a b", "ä": "漢"}).encode()
    for place in PLACES:
        yield "id", encode_message_id(place).encode()
    yield "recall", HANDLE.encode().encode()
    for command in COMMANDS:
        yield "sign", b"".join(encode_frame(command))
    yield "route", encode_route(ROUTE)
    yield "lock", encode_locks("group", "client", QUEUES)
    yield "heartbeat", encode_heartbeat("client", ["producers"], [Consumer("group", {"topic": "*"})], 5)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    """Java's output, by name."""
    folder = tmp_path_factory.mktemp("vectors")
    with required("RocketMQ"):
        command = compiled(SOURCE, folder)
    (folder / "asked").write_text("".join(f"{kind} {data.hex()}\n" for kind, data in asked()))
    done = subprocess.run(
        [*command, str(folder / "asked")], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    found = defaultdict(list)
    for line in done.stdout.splitlines():
        name, tab, text = line.partition("\t")
        if tab:
            found[name].append(text)
    return found


@pytest.fixture(scope="module")
def read(spoken: Spoken) -> Mapping[str, list[str]]:
    """What Java has read of ours, by kind."""
    found = defaultdict(list)
    for (kind, _), text in zip(asked(), spoken["read"], strict=True):
        found[kind].append(text)
    return found


def as_map(properties: Mapping[str, str]) -> str:
    pairs = sorted(properties.items())
    return "".join(f"{name.encode().hex()}={value.encode().hex()}," for name, value in pairs)


def as_frame(one: Command) -> str:
    head = f"{one.code}|{one.language.name}|{one.version}|{one.opaque}|{one.flag}|{one.remark.encode().hex()}"
    return f"{head}|{one.encoding.name}|{as_map(one.fields)}|{bytes(one.body).hex()}"


def as_message(one: StoredMessage) -> str:
    born, stored = f"{one.born_ip.hex()}:{one.born_port}", f"{one.store_ip.hex()}:{one.store_port}"
    head = f"{one.topic}|{one.queue_id}|{one.queue_offset}|{one.commit_log_offset}|{one.flag}|{one.born_ms}|{born}"
    tail = f"{one.reconsume_times}|{one.prepared_offset}|{as_map(one.properties_map())}|{one.plain_body().hex()}"
    return f"{head}|{one.stored_ms}|{stored}|{tail}|{one.offset_message_id}"


def as_batch(data: bytes) -> str:
    members = decode_batch(data)
    return "".join(f"{one.flag}|{bytes(one.body).hex()}|{as_map(one.properties_map())};" for one in members)


def test_java_reads_frames_of_ours_in_both_encodings(read: Spoken) -> None:
    assert read["frame"] == [as_frame(one) for one in COMMANDS]


def test_java_reads_messages_as_we_store_them(read: Spoken) -> None:
    assert read["message"] == [as_message(one) for one in MESSAGES]


def test_java_reads_our_batches_properties_ids_and_handles(read: Spoken) -> None:
    assert read["batch"] == [as_batch(encode_batch(MEMBERS))]
    assert read["properties"] == [as_map({"KEYS": "a b", "ä": "漢"})]
    assert read["id"] == ["/10.0.0.1:10911 1099511627776", "/[2001:db8:0:0:0:0:0:1]:10911 1099511627776"]
    assert read["recall"] == ["topic broker-a 1767225600001 KEY?>"]


def test_java_signs_as_we_do(read: Spoken) -> None:
    credentials = AclCredentials("user", "secret of the user")
    assert read["sign"] == [signed(one.fields, one.body, credentials)["Signature"] for one in COMMANDS]


def test_java_reads_our_bodies(read: Spoken) -> None:
    assert "readQueueNums=4, writeQueueNums=3, perm=6" in read["route"][0]
    assert "brokerAddrs={0=10.0.0.1:10911, 1=10.0.0.2:10911}, enableActingMaster=true" in read["route"][0]
    assert read["lock"] == ["group client true [MessageQueue [topic=topic, brokerName=broker-a, queueId=1]]"]
    assert "groupName=producers" in read["heartbeat"][0]
    assert "subString=*" in read["heartbeat"][0]


def test_we_read_frames_of_java_in_both_encodings(spoken: Spoken) -> None:
    assert len(spoken["frame"]) == 4
    for text in spoken["frame"]:
        _, data, expected = text.split(" ", 2)
        command = decode_frame(memoryview(bytes.fromhex(data)[4:]))
        assert as_frame(command) == expected


def test_we_read_the_headers_of_java(spoken: Spoken) -> None:
    for text in spoken["frame"]:
        name, data, _ = text.split(" ", 2)
        fields = decode_frame(memoryview(bytes.fromhex(data)[4:])).fields
        if name == "send":
            found = send.SendMessageV2.from_fields(fields)
            assert (found.topic, found.queue_id, found.born_timestamp) == ("topic", 3, 1_767_225_600_123)
            assert (found.flag, found.reconsume_times, found.batch, found.broker) == (-7, 2, True, "broker-a")
        else:
            assert pull.PullMessage.from_fields(fields).queue_offset == (1 << 63) - 1


def test_we_read_messages_that_java_has_written(spoken: Spoken) -> None:
    assert len(spoken["message"]) == 20
    for text in spoken["message"]:
        data, expected = text.split(" ", 1)
        (found,) = read_messages(bytes.fromhex(data)).messages
        assert as_message(found) == expected


def test_we_read_batches_ids_handles_and_routes_of_java(spoken: Spoken) -> None:
    data, expected = spoken["batch"][0].split(" ", 1)
    assert as_batch(bytes.fromhex(data)) == expected
    assert [decode_message_id(text) for text in spoken["id"]] == PLACES
    assert decode_recall_handle(spoken["recall"][0]) == HANDLE
    assert decode_route(bytes.fromhex(spoken["route"][0])) == ROUTE


def test_the_numbers_are_those_of_java(spoken: Spoken) -> None:
    for enum, name in ((Request, "request"), (Answer, "answer")):
        java = dict(text.split(" ") for text in spoken[name])
        assert {one.name: str(one.value) for one in enum} == {one.name: java.get(one.name) for one in enum}


HEADERS: dict[str, type[Fields]] = {
    "SendMessageRequestHeader": send.SendMessage,
    "SendMessageRequestHeaderV2": send.SendMessageV2,
    "SendMessageResponseHeader": send.SendMessageAnswer,
    "ConsumerSendMsgBackRequestHeader": send.ConsumerSendMsgBack,
    "RecallMessageRequestHeader": send.RecallMessage,
    "RecallMessageResponseHeader": send.RecallMessageAnswer,
    "EndTransactionRequestHeader": send.EndTransaction,
    "CheckTransactionStateRequestHeader": send.CheckTransactionState,
    "PullMessageRequestHeader": pull.PullMessage,
    "PullMessageResponseHeader": pull.PullMessageAnswer,
    "GetMaxOffsetRequestHeader": pull.QueueOf,
    "GetMinOffsetRequestHeader": pull.QueueOf,
    "GetMaxOffsetResponseHeader": pull.OffsetAnswer,
    "GetEarliestMsgStoretimeRequestHeader": pull.QueueOf,
    "GetEarliestMsgStoretimeResponseHeader": pull.TimestampAnswer,
    "SearchOffsetRequestHeader": pull.SearchOffset,
    "QueryConsumerOffsetRequestHeader": pull.QueryConsumerOffset,
    "UpdateConsumerOffsetRequestHeader": pull.UpdateConsumerOffset,
    "ViewMessageRequestHeader": pull.ViewMessage,
    "QueryMessageRequestHeader": pull.QueryMessage,
    "GetRouteInfoRequestHeader": admin.GetRouteInfo,
    "CreateTopicRequestHeader": admin.CreateTopic,
    "DeleteTopicRequestHeader": admin.TopicOf,
    "GetTopicConfigRequestHeader": admin.TopicOf,
    "GetSubscriptionGroupConfigRequestHeader": admin.GroupOf,
    "DeleteSubscriptionGroupRequestHeader": admin.DeleteSubscriptionGroup,
    "GetConsumerListByGroupRequestHeader": admin.ConsumersOf,
    "NotifyConsumerIdsChangedRequestHeader": admin.ConsumersOf,
    "UnregisterClientRequestHeader": admin.UnregisterClient,
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_has_fields_of_java_and_all_that_java_requires(spoken: Spoken, name: str) -> None:
    (line,) = (text for text in spoken["header"] if text.split(" ")[0] == name)
    java = line.split(" ")[1:]
    ours = {one.wire for one in _table.__wrapped__(HEADERS[name])}
    assert ours <= {one.rstrip("!") for one in java}
    assert {one.rstrip("!") for one in java if one.endswith("!")} <= ours
