"""Half messages of transactions with a delay: what reaches the broker, what the client is answered, and the record
that the broker's commit makes of it."""

from dataclasses import replace

import pytest

from delayline.records.record import decode_body
from delayline.schedule.rules import Rules
from mq.rocketmq.body import to_body, to_member
from mq.rocketmq.sent import as_sent
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.send import SendMessage, SendMessageV2
from rocketmq.wire.properties import decode_properties, encode_properties
from rocketmq.wire.stored import StoredMessage, SysFlag, TransactionState
from tests.unit.proxy.rocketmq.scene import BUFFER, Scene, half_of, message, send_of

TRAN = {"TRAN_MSG": "true", "PGROUP": "p"}
ADDED = {"REAL_TOPIC": BUFFER, "REAL_QID": "1", "__transactionId__": "K1", "CLUSTER": "c", "MSG_REGION": "r"}
"""By a broker to a half message; it takes the first two away when it commits."""


def half(**properties: str) -> Command:
    return message(also={**TRAN, **properties})


def half_for_the_buffer(scene: Scene, sent: Command) -> tuple[SendMessageV2, Command]:
    answer = scene.open().client().ask(sent)
    assert answer.code == 0, answer
    (request,) = [one for one in scene.broker.peer.seen if "b" in one.fields]
    assert (request.code, request.fields["b"]) == (Request.SEND_MESSAGE_V2, BUFFER)
    return SendMessageV2.from_fields(request.fields), request


def committed(header: SendMessageV2, body: bytes) -> StoredMessage:
    """As a broker stores it, with properties in no order (`EndTransactionProcessor.endMessageTransaction`)."""
    properties = decode_properties(str(header.properties)) | ADDED | {"TRANSACTION_CHECK_TIMES": "1"}
    kept = {name: properties[name] for name in sorted(properties) if name not in ("REAL_TOPIC", "REAL_QID")}
    sys_flag = header.sys_flag & ~int(TransactionState.PREPARED) | TransactionState.COMMITTED
    half = half_of(header.topic)._replace(queue_id=header.queue_id, body=body, flag=header.flag, sys_flag=sys_flag)
    return half._replace(properties=encode_properties(kept).encode(), prepared_offset=half.commit_log_offset)


def test_a_half_message_with_a_delay_is_a_half_message_for_the_buffer(scene: Scene) -> None:
    header, request = half_for_the_buffer(scene, half(KEYS="k1", TAGS="a", delay="600ms"))
    assert (header.queue_id, header.born_timestamp, header.producer_group) == (1, 5, "p")
    assert (header.sys_flag, header.flag, bytes(request.body)) == (SysFlag.PREPARED, 0, b"x")
    assert decode_properties(str(header.properties)) == {
        "KEYS": "k1",
        "TAGS": "a",
        "delay": "600ms",
        "UNIQ_KEY": "K1",
        **TRAN,
    }
    assert scene.queue.ensured == ["orders"]


def test_its_answer_is_the_brokers_and_it_is_not_accepted_yet(scene: Scene) -> None:
    answer = scene.open().client().ask(half(delay="1h"))
    assert (answer.code, answer.opaque) == (0, 7)
    assert answer.fields == {"msgId": f"{BUFFER}-1-0", "queueId": "1", "queueOffset": "0", "MSG_REGION": "r"}
    assert scene.count("delayline_messages_accepted_total", {"topic": "orders", "via": "rocketmq"}) == 0


@pytest.mark.parametrize(
    ("delay", "directive"),
    [
        ({"DELAY": "1"}, ("delay-ms", "1000")),
        ({"TIMER_DELAY_SEC": "5"}, ("delay-ms", "5000")),
        ({"TIMER_DELAY_MS": "5"}, ("delay-ms", "5")),
        ({"TIMER_DELIVER_MS": "1999999999999"}, ("deliver-at", "1999999999999")),
        ({"__STARTDELIVERTIME": "1999999999999"}, ("deliver-at", "1999999999999")),
    ],
)
def test_of_rocketmqs_own_delays_a_broker_sees_none(
    scene: Scene, delay: dict[str, str], directive: tuple[str, str]
) -> None:
    """It would delay the half message by them."""
    scene.settings = replace(scene.settings, horizon_max_ms=10**13)
    header, _ = half_for_the_buffer(scene, half(**delay))
    assert decode_properties(str(header.properties)) == dict([directive]) | TRAN | {"UNIQ_KEY": "K1"}


def test_what_the_broker_commits_is_a_record_that_is_delivered_as_rocketmq_delivers_its_own(scene: Scene) -> None:
    properties = encode_properties({"UNIQ_KEY": "K1", "adelayline-sent": "1 1", "delay": "1h", **TRAN})
    sent = send_of("orders", b"packed", 1, properties, flag=9, sys_flag=0x301 | SysFlag.PREPARED)
    header, request = half_for_the_buffer(scene, sent)
    assert (header.sys_flag, header.flag) == (SysFlag.PREPARED, 0), "a reader of the buffer would decompress it"
    record = to_body(committed(header, bytes(request.body)))
    assert dict(decode_body(record).headers)[b"delay"] == b"1h"
    (delivered,), sys_flag = as_sent([to_member(record)])
    assert (bytes(delivered.body), delivered.flag, sys_flag) == (b"packed", 9, 0x301)
    of_broker = {"__transactionId__": "K1", "CLUSTER": "c", "MSG_REGION": "r", "TRANSACTION_CHECK_TIMES": "1"}
    assert delivered.properties_map() == {
        "UNIQ_KEY": "K1",
        "adelayline-sent": "1 1",
        "delay": "1h",
        **TRAN,
        **of_broker,
    }


def test_its_key_stays_also_where_delayline_has_made_it(scene: Scene) -> None:
    """A consumer sends on what it got; it knows its transaction by the key that the message has."""
    header, _ = half_for_the_buffer(scene, half(UNIQ_KEY="0000000012AB", delay="1h"))
    assert decode_properties(str(header.properties))["UNIQ_KEY"] == "0000000012AB"


def test_a_half_message_in_long_names_and_without_a_key_gets_one(scene: Scene) -> None:
    sent = SendMessage("p", "orders", 1, 0, 5, 0, encode_properties({"DELAY": "1", **TRAN}))
    header, _ = half_for_the_buffer(scene, Command(Request.SEND_MESSAGE, sent.to_fields(), b"x"))
    assert decode_properties(str(header.properties)).keys() == {"delay-ms", "UNIQ_KEY", *TRAN}


def test_a_default_delay_holds_for_half_messages_too(scene: Scene) -> None:
    scene.settings = replace(scene.settings, rules_for=lambda _: Rules(default_delay_ms=1000))
    half_for_the_buffer(scene, half())


def test_sends_around_a_half_message_are_requests_of_their_own(scene: Scene) -> None:
    client = scene.open().client()
    assert client.ask(message(DELAY="1")).code == 0
    sends = [message(DELAY="1"), half(DELAY="1"), message(DELAY="1")]
    client.send(*(replace(one, opaque=number) for number, one in enumerate(sends)))
    assert {one.opaque: one.code for one in (client.receive() for _ in sends)} == {0: 0, 1: 0, 2: 0}
    seen = scene.broker.peer.seen[1:]
    assert [one.code for one in seen] == [
        Request.SEND_BATCH_MESSAGE,
        Request.SEND_MESSAGE_V2,
        Request.SEND_BATCH_MESSAGE,
    ]


def test_a_broker_that_refuses_a_half_message_is_quoted_with_the_topic_as_the_client_knows_it(scene: Scene) -> None:
    scene.broker.codes[BUFFER] = Answer.TOPIC_NOT_EXIST
    answer = scene.open().client().ask(half(DELAY="1"))
    assert (answer.code, answer.opaque, answer.remark) == (Answer.TOPIC_NOT_EXIST, 7, "topic[orders] not exist")


def test_a_flag_alone_makes_no_half_message_and_is_refused(scene: Scene) -> None:
    """A broker stores such a message where no consumer finds it."""
    properties = encode_properties({"UNIQ_KEY": "K1", "DELAY": "1"})
    answer = scene.open().client().ask(send_of("orders", b"x", 1, properties, sys_flag=SysFlag.PREPARED))
    assert (answer.code, "TRAN_MSG is not true" in answer.remark) == (Answer.MESSAGE_ILLEGAL, True)
    assert scene.broker.peer.seen == []
