"""Sends through the proxy: what reaches the broker, and what the client is answered."""

from dataclasses import replace

import pytest

from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from mq.errors import QueueUnavailable, TopicUnknown
from mq.rocketmq.body import to_member
from rocketmq.wire.batch import BatchMember, decode_batch, encode_batch, member
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import IS_ONE_WAY, Command, Encoding, encode_frame
from rocketmq.wire.headers.send import SendMessage, SendMessageAnswer, SendMessageV2
from rocketmq.wire.ids import decode_recall_handle
from rocketmq.wire.properties import decode_properties, encode_properties
from rocketmq.wire.stored import SysFlag
from tests.unit.proxy.rocketmq.scene import BROKER, BUFFER, CLOCK, Scene, Wire, message, send_of


def buffered(scene: Scene) -> list[BatchMember]:
    """What the broker was sent for the buffer."""
    found = [one for one in scene.broker.peer.seen if one.fields.get("b") == BUFFER]
    assert all(one.code == Request.SEND_BATCH_MESSAGE and one.fields["m"] == "true" for one in found)
    return [one for command in found for one in decode_batch(command.body)]


def only(scene: Scene) -> BatchMember:
    (found,) = buffered(scene)
    return found


@pytest.mark.parametrize("encoding", Encoding)
def test_a_delayed_message_goes_to_the_buffer_as_http_would_write_it(scene: Scene, encoding: Encoding) -> None:
    sent = replace(message(KEYS="k1", TAGS="a", src="web", DELAY="3"), encoding=encoding)
    answer = scene.open().client().ask(sent)
    stored = SendMessageAnswer.from_fields(answer.fields)
    assert (answer.code, answer.opaque, stored.queue_id, stored.transaction_id) == (0, 7, 1, "K1")
    (request,) = [one for one in scene.broker.peer.seen if "b" in one.fields]
    header = SendMessageV2.from_fields(request.fields)
    assert (header.topic, header.queue_id, header.born_timestamp, header.sys_flag) == (BUFFER, 1, 5, 0)
    headers = [(b"UNIQ_KEY", b"K1"), (b"TAGS", b"a"), (b"src", b"web"), (b"DELAY", b"3"), (b"delay-ms", b"10000")]
    assert only(scene) == to_member(encode_body(b"k1", b"x", headers))
    assert scene.queue.ensured == ["orders"]
    assert scene.count("delayline_messages_accepted_total", {"topic": "orders", "via": "rocketmq"}) == 1


def test_the_answer_has_a_handle_that_names_the_place_of_the_message(scene: Scene) -> None:
    before_ms = CLOCK.now_ms()
    answer = scene.open().client().ask(message(TIMER_DELAY_MS="5000"))
    handle = decode_recall_handle(answer.fields["recallHandle"])
    assert (handle.topic, handle.broker, handle.unique_key, handle.more) == ("orders", BROKER, "K1", ("1", "0"))
    assert before_ms + 5001 <= handle.timestamp_ms <= CLOCK.now_ms() + 5001
    assert answer.fields["MSG_REGION"] == "r"


def test_a_message_in_long_names_and_without_a_key_is_delayed_too(scene: Scene) -> None:
    header = SendMessage("p", "orders", 0, 0, 5, 0, encode_properties({"DELAY": "1"}))
    answer = scene.open().client().ask(Command(Request.SEND_MESSAGE, header.to_fields(), b"x"))
    assert answer.code == 0
    assert only(scene).properties_map()["UNIQ_KEY"] == answer.fields["transactionId"]


def test_flags_and_a_compressed_body_wait_as_they_were_sent(scene: Scene) -> None:
    properties = encode_properties({"UNIQ_KEY": "K1", "DELAY": "1"})
    scene.open().client().ask(send_of("orders", b"packed", 0, properties, flag=9, sys_flag=0x301))
    found = only(scene)
    assert (found.body, found.flag, found.properties_map()["delayline-sent"]) == (b"packed", 0, "9 769")
    (request,) = [one for one in scene.broker.peer.seen if "b" in one.fields]
    assert SendMessageV2.from_fields(request.fields).sys_flag == 0, "a reader of the buffer would decompress it"


PASSED = [
    message(),
    message(DELAY="0"),
    message(TIMER_DELIVER_MS="5"),
    message(TIMER_DELAY_SEC="60", TIMER_OUT_MS="5"),
    message(TIMER_DELIVER_MS="9999999999999", TIMER_DEL_UNIQKEY="k"),
    message("others", DELAY="1"),
    message("%RETRY%orders", DELAY="3"),
    message("%DLQ%orders", DELAY="3"),
    message("orders_REPLY_TOPIC", DELAY="3"),
    message(TRAN_MSG="true"),
    send_of("orders", b"x", 0, encode_properties({"a": "b"}), sys_flag=int(SysFlag.PREPARED)),
    send_of("orders", encode_batch([member(b"x", {"a": "b"})]), batch=True),
    Command(Request.SEND_MESSAGE_V2, {"b": "orders", "i": "DELAY\x011\x02"}),
]


def test_all_that_asks_for_no_delay_of_ours_passes_as_it_came(scene: Scene) -> None:
    client = scene.open().client()
    for number, one in enumerate(PASSED):
        assert client.ask(replace(one, opaque=number)).code == 0, one
    seen = scene.broker.peer.seen
    assert [(one.code, dict(one.fields), bytes(one.body)) for one in seen] == [
        (one.code, one.fields, one.body) for one in PASSED
    ]
    assert scene.queue.ensured == []


REFUSED = [
    (message(DELAY="abc"), 1, "abc"),
    (message(TIMER_DELAY_SEC="abc"), 13, "TIMER_DELAY_SEC"),
    (message(TIMER_DELAY_SEC=str(41 * 86_400)), 13, "max delay 3456000000ms"),
    (message(delay="soon"), 13, "delay: "),
    (message(delay="1h", DELAY="1"), 13, "another time"),
    (message(also={"delay-level": "1", "delay_ms": "5"}), 13, "`delay_ms` is no directive"),
    (message(also={"delayline-origin": "x"}), 13, "Delayline's own"),
    (message(also={"delayline-sent": "0 1"}), 13, "Delayline's own"),
    (message(body=bytes((1 << 20) + 1), DELAY="1"), 13, "bytes at most"),
    (message(DELAY="1", large="x" * 25_000), 13, "headers of"),
    (message("ns%dead"), 16, "Delayline's own"),
    (message(BUFFER), 16, "Delayline's own"),
    (send_of("orders", b"\0\0\0\1", batch=True), 13, "batch"),
    (
        send_of("orders", encode_batch([member(b"", {"a": "b"}), member(b"", {"DELAY": "x"})]), batch=True),
        1,
        "message 1",
    ),
]


def test_what_is_wrong_is_refused_with_rocketmqs_codes_and_a_reason(scene: Scene) -> None:
    client = scene.open().client()
    for number, (sent, code, reason) in enumerate(REFUSED):
        answer = client.ask(replace(sent, opaque=number))
        assert (answer.code, answer.opaque) == (code, number), (sent, answer)
        assert reason in answer.remark
    assert scene.broker.peer.seen == []
    assert scene.count("delayline_rocketmq_proxy_refused_sends_total", {"code": "16"}) == 2


def all_is_stored(client: Wire) -> None:
    """A request that was read in one go with delayed messages passes before them; one after that, behind them."""
    for number in (8, 9):
        assert client.ask(Command(Request.HEART_BEAT, opaque=number)).opaque == number


def test_a_one_way_message_is_delayed_or_refused_without_an_answer(scene: Scene) -> None:
    client = scene.open().client()
    assert client.ask(message(DELAY="1")).code == 0
    client.send(*(replace(message(DELAY=level), flag=IS_ONE_WAY) for level in ("1", "abc")))
    all_is_stored(client)
    assert scene.broker.topics() == [BUFFER, BUFFER]
    assert [one.is_one_way for one in scene.broker.peer.seen if "b" in one.fields] == [False, True]


def batch(*delays: str | None) -> Command:
    members = [
        member(b"%d" % number, {"UNIQ_KEY": f"K{number}"} | ({} if delay is None else {"DELAY": delay}))
        for number, delay in enumerate(delays)
    ]
    return send_of("orders", encode_batch(members), batch=True)


def test_of_a_batch_the_delayed_members_go_to_the_buffer_and_then_the_others_to_the_topic(scene: Scene) -> None:
    answer = scene.open().client().ask(batch("1", None, "2", None))
    assert (answer.code, answer.opaque) == (0, 7)
    assert scene.broker.topics() == [BUFFER, "orders"]
    assert [bytes(one.body) for one in buffered(scene)] == [b"0", b"2"]
    rest = scene.broker.peer.seen[-1]
    assert [bytes(one.body) for one in decode_batch(rest.body)] == [b"1", b"3"]
    assert scene.count("delayline_messages_accepted_total", {"topic": "orders", "via": "rocketmq"}) == 2


def damaged_batch(*levels: str | None) -> Command:
    """Which brokers read: the first member's size is wrong, and a property of each is no UTF-8."""
    command = batch(*levels)
    body = bytearray(command.body).replace(b"K0", b"K\xff").replace(b"K1", b"K\xff")
    body[3] += 1
    return replace(command, body=bytes(body))


def test_a_damaged_batch_without_a_delay_passes_as_it_came(scene: Scene) -> None:
    sent = damaged_batch(None, None)
    assert scene.open().client().ask(sent).code == 0
    (passed,) = [one for one in scene.broker.peer.seen if "b" in one.fields]
    assert (passed.fields["b"], bytes(passed.body)) == ("orders", sent.body)


def test_of_a_damaged_batch_what_is_delayed_goes_to_the_buffer(scene: Scene) -> None:
    assert scene.open().client().ask(damaged_batch(None, "1")).code == 0
    assert scene.broker.topics() == [BUFFER, "orders"]
    assert only(scene).properties_map()["UNIQ_KEY"] == "K\ufffd"
    (rest,) = decode_batch(scene.broker.peer.seen[-1].body)
    assert rest.properties_map() == {"UNIQ_KEY": "K\ufffd"}


def test_a_batch_that_brokers_cannot_read_is_refused(scene: Scene) -> None:
    sent = batch(None, None)
    answer = scene.open().client().ask(replace(sent, body=bytes(sent.body)[:-1]))
    assert (answer.code, scene.broker.topics()) == (Answer.MESSAGE_ILLEGAL, [])


def test_a_batch_that_is_delayed_wholly_is_one_request(scene: Scene) -> None:
    assert scene.open().client().ask(batch("1", "1")).code == 0
    assert scene.broker.topics() == [BUFFER]


def test_a_batch_whose_delayed_members_are_refused_stores_nothing(scene: Scene) -> None:
    scene.broker.codes[BUFFER] = Answer.SYSTEM_BUSY
    answer = scene.open().client().ask(batch("1", None))
    assert (answer.code, answer.opaque) == (Answer.SYSTEM_BUSY, 7)
    assert scene.broker.topics() == [BUFFER]


def test_a_one_way_batch_of_both_is_two_requests_without_answers(scene: Scene) -> None:
    client = scene.open().client()
    assert client.ask(message(DELAY="1")).code == 0
    client.send(replace(batch("1", None), flag=IS_ONE_WAY))
    all_is_stored(client)
    assert scene.broker.topics() == [BUFFER, BUFFER, "orders"]


def test_a_buffer_that_a_broker_does_not_know_is_made_again(scene: Scene) -> None:
    client = scene.open().client()
    scene.broker.codes[BUFFER] = Answer.TOPIC_NOT_EXIST
    answer = client.ask(message(DELAY="1"))
    assert (answer.code, answer.remark) == (Answer.TOPIC_NOT_EXIST, "topic[orders] not exist")
    scene.broker.codes.clear()
    assert client.ask(message(DELAY="1")).code == 0
    assert scene.queue.ensured == ["orders", "orders"]


@pytest.mark.parametrize(
    ("trouble", "code"), [(TopicUnknown("no topic"), Answer.TOPIC_NOT_EXIST), (QueueUnavailable("away"), 14)]
)
def test_a_topic_without_a_buffer_takes_no_delays(scene: Scene, trouble: TopicUnknown, code: int) -> None:
    scene.queue.trouble = trouble
    answer = scene.open().client().ask(message(DELAY="1"))
    assert answer.code == code
    assert str(trouble) in answer.remark


def test_others_go_on_while_a_buffer_is_made(scene: Scene) -> None:
    scene.queue.ready.clear()
    client = scene.open().client()
    client.send(message(DELAY="1"), replace(message(), opaque=8))
    assert client.receive().opaque == 8
    scene.queue.ready.set()
    assert client.receive().opaque == 7


def test_a_client_that_sends_and_closes_has_its_message_stored(scene: Scene) -> None:
    scene.queue.ready.clear()
    client = scene.open().client()
    client.send(replace(message(DELAY="1"), flag=IS_ONE_WAY))
    client.close()
    scene.queue.ready.set()
    other = scene.client()
    while not buffered(scene):
        other.ask(Command(Request.HEART_BEAT))


def test_a_full_topic_is_under_flow_control(scene: Scene) -> None:
    scene.full = "3 messages wait"
    answer = scene.open().client().ask(message(DELAY="1"))
    assert (answer.code, answer.remark) == (1, "timer message is under flow control: 3 messages wait")


def test_a_default_delay_holds_for_messages_without_a_delay_of_their_own(scene: Scene) -> None:
    scene.settings = replace(scene.settings, rules_for=lambda _: Rules(default_delay_ms=1000))
    client = scene.open().client()
    for one in (message(), message(DELAY="0")):
        assert client.ask(one).code == 0
    assert scene.broker.topics() == [BUFFER, "orders"]
    assert decode_properties(only(scene).properties) == {"UNIQ_KEY": "K1"}


def test_with_the_alias_of_rocketmq_its_properties_are_directives_and_not_delivered(scene: Scene) -> None:
    scene.settings = replace(scene.settings, rules_for=lambda _: Rules(aliases=("rocketmq",)))
    assert scene.open().client().ask(message(DELAY="1")).code == 0
    assert only(scene).properties_map() == {"UNIQ_KEY": "K1", "delay-ms": "1000"}


def test_directives_in_a_topic_that_takes_no_delays_are_counted_or_refused(scene: Scene) -> None:
    sent = message("others", delay="1h")
    labels = {"topic": "others", "header": "delay", "why": "topic-not-enabled"}
    assert scene.open().client().ask(sent).code == 0
    assert scene.count("delayline_unheeded_headers_total", labels) == 1


def test_where_unknown_names_are_refused_directives_need_a_topic_that_takes_them(scene: Scene) -> None:
    scene.settings = replace(scene.settings, refuse_unknown=True)
    client = scene.open().client()
    in_batch = send_of("others", encode_batch([member(b"x", {"delay": "1h"})]), batch=True)
    for one, code in ((message("others", delay="1h"), 13), (in_batch, 13), (message("others", DELAY="1"), 0)):
        assert client.ask(one).code == code


def test_sends_that_come_together_are_one_request_and_each_has_its_own_answer(scene: Scene) -> None:
    client = scene.open().client()
    assert client.ask(message(DELAY="1")).code == 0
    sends = [replace(message(body=b"%d" % number, DELAY="1"), opaque=100 + number) for number in range(3)]
    other = send_of("orders", b"other", 0, encode_properties({"UNIQ_KEY": "K2", "DELAY": "1"}))
    last = replace(message(), opaque=105)
    client.send(*sends, replace(message(DELAY="abc"), opaque=103), replace(other, opaque=104), last)
    answers = {one.opaque: one for one in (client.receive() for _ in range(6))}
    assert [answers[number].code for number in range(100, 106)] == [0, 0, 0, 1, 0, 0]
    stored = [SendMessageAnswer.from_fields(answers[number].fields) for number in (100, 101, 102, 104)]
    handles = [decode_recall_handle(str(one.recall_handle)).more for one in stored]
    assert handles == [(str(one.queue_id), str(one.queue_offset)) for one in stored]
    assert [one.queue_offset - stored[0].queue_offset for one in stored[:3]] == [0, 1, 2]
    assert len({one.msg_id for one in stored}) == 4
    assert sorted(bytes(one.body) for one in buffered(scene)) == [b"0", b"1", b"2", b"other", b"x"]
    assert scene.broker.topics().count(BUFFER) == 3


def test_where_a_broker_refuses_several_together_each_has_its_own_answer(scene: Scene) -> None:
    client = scene.open().client()
    assert client.ask(message(DELAY="1")).code == 0
    scene.broker.refused_body = b"bad"
    sends = [replace(message(body=body, DELAY="1"), opaque=number) for number, body in enumerate((b"good", b"bad"))]
    client.send(*sends)
    assert {one.opaque: one.code for one in (client.receive(), client.receive())} == {0: 0, 1: 13}


def test_what_came_whole_before_garbage_is_stored(scene: Scene) -> None:
    client = scene.open().client()
    assert client.ask(message(DELAY="1")).code == 0
    frame = b"".join(encode_frame(replace(message(body=b"whole", DELAY="1"), opaque=9)))
    client.channel.sendall(frame + b"\xff" * 8)
    assert client.receive().opaque == 9
    assert client.is_closed()
