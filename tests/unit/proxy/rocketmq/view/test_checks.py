"""Questions of brokers about half messages, as their producers get them."""

from typing import Any

import pytest

from proxy.rocketmq.view.checks import may_be_check
from rocketmq.wire.codes import Request
from rocketmq.wire.command import IS_ANSWER, IS_ONE_WAY, Command, Encoding, encode_frame
from rocketmq.wire.stored import encode_message, read_messages
from tests.unit.proxy.rocketmq.scene import BUFFER, Scene, Wire, half_of
from tests.unit.rocketmq.peer import PeerLink

FIELDS = {
    "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
    "tranStateTableOffset": "3",
    "commitLogOffset": "900",
    "msgId": "K1",
    "transactionId": "K1",
    "offsetMsgId": "7F00",
    "bname": "broker-a",
}


def asked(scene: Scene, body: bytes, **more: Any) -> Command:
    """What the client is asked after its heartbeat."""

    def ask(link: PeerLink, _: Command) -> None:
        link.send(Command(Request.CHECK_TRANSACTION_STATE, FIELDS, body, 5, IS_ONE_WAY, **more))

    scene.broker.others = ask
    return scene.open().client().ask(Command(Request.HEART_BEAT, opaque=9))


@pytest.mark.parametrize("encoding", Encoding)
def test_a_producer_is_asked_for_the_message_as_it_has_sent_it(scene: Scene, encoding: Encoding) -> None:
    check = asked(scene, encode_message(half_of(BUFFER)), encoding=encoding)
    assert (check.code, check.opaque, check.flag, check.fields) == (39, 5, IS_ONE_WAY, FIELDS)
    (found,) = read_messages(check.body).messages
    assert found.properties_map() == {
        "REAL_TOPIC": "orders",
        "REAL_QID": "1",
        "UNIQ_KEY": "K1",
        "PGROUP": "p",
        "delay": "1h",
    }
    assert (found.topic, found.flag, found.sys_flag) == ("orders", 9, 0x301)
    assert found[1:5] == half_of(BUFFER)[1:5], "queue, places and body"
    assert found[8:16] == half_of(BUFFER)[8:16], "times and hosts"


def test_one_that_was_sent_in_the_usual_way_stays_so(scene: Scene) -> None:
    (found,) = read_messages(asked(scene, encode_message(half_of(BUFFER, None))).body).messages
    assert (found.topic, found.flag, found.sys_flag) == ("orders", 0, 0)


@pytest.mark.parametrize(
    "body",
    [encode_message(half_of("others")), encode_message(half_of("other%buffer%orders")), b"", b"\0\0\0\7garbage"],
)
def test_other_questions_pass_as_they_came(scene: Scene, body: bytes) -> None:
    assert bytes(asked(scene, body).body) == body


def test_the_answer_of_the_client_passes_as_it_came(scene: Scene) -> None:
    """It is a request."""
    fields = {**FIELDS, "producerGroup": "p", "commitOrRollback": "8", "fromTransactionCheck": "true"}
    asked(scene, encode_message(half_of(BUFFER)))
    client: Wire = scene.client()
    client.send(Command(Request.END_TRANSACTION, fields, opaque=6, flag=IS_ONE_WAY))
    client.ask(Command(Request.HEART_BEAT))
    (ended,) = [one for one in scene.broker.peer.seen if one.code == Request.END_TRANSACTION]
    assert (dict(ended.fields), ended.opaque) == (fields, 6)


@pytest.mark.parametrize("encoding", Encoding)
def test_no_check_is_passed_over(encoding: Encoding) -> None:
    check = Command(Request.CHECK_TRANSACTION_STATE, FIELDS, b"x" * 50, flag=IS_ONE_WAY, encoding=encoding)
    head = memoryview(b"".join(encode_frame(check))[4:])
    assert may_be_check(head)
    spaced = b"\0\0\0\x16" + b'{"flag":2, "code" : 39}'
    assert may_be_check(memoryview(spaced))


def test_an_answer_is_known_to_be_none_without_being_read() -> None:
    for code in (0, 3, 390, 139):
        answer = Command(code, {"code": "39"}, flag=IS_ANSWER)
        assert not may_be_check(memoryview(b"".join(encode_frame(answer))[4:]))
