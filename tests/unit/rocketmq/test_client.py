"""Connections, links, name servers and the client, against peers that follow a script."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.clock import ManualClock, SystemClock
from rocketmq.client.broker import PullStatus
from rocketmq.client.client import Client
from rocketmq.client.connection import GATHERED_BYTES, BrokerConnection, connect, parse_address
from rocketmq.client.links import Links
from rocketmq.client.nameservers import NameServers
from rocketmq.client.settings import ClientSettings
from rocketmq.errors import (
    AnswerLost,
    GroupMissing,
    InvalidRequest,
    Malformed,
    NotAllowed,
    Refused,
    TooManyPending,
    TopicMissing,
    Unreachable,
)
from rocketmq.wire.acl import AclCredentials, is_signed_by
from rocketmq.wire.batch import member
from rocketmq.wire.bodies import BrokerAddresses, Queue, QueueRange, Route, encode_cluster, encode_route
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, Encoding, answer_to, encode_frame
from rocketmq.wire.stored import encode_message
from tests.brokers.certificates import make_certificate
from tests.ports import free_port
from tests.unit.rocketmq.peer import PeerLink, Script, ScriptedPeer
from tests.unit.rocketmq.test_stored import PLAIN

CLOCK = SystemClock()
QUEUE = Queue("topic", "a", 1)
SETTINGS = ClientSettings((), connect_timeout_s=5, request_timeout_s=20)

Peers = Callable[[Script], ScriptedPeer]


@pytest.fixture
def peers() -> Iterator[Peers]:
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(closing(ScriptedPeer(script)))


@pytest.fixture
def dial() -> Iterator[Callable[..., BrokerConnection]]:
    with ExitStack() as stack:

        def to(peer: ScriptedPeer, **options: Any) -> BrokerConnection:
            on_push: Any = options.pop("on_push", lambda _: None)
            settings = replace(SETTINGS, **options)
            return stack.enter_context(closing(connect(peer.address, settings, CLOCK, on_push)))

        yield to


Dial = Callable[..., BrokerConnection]


def echo(link: PeerLink, command: Command) -> None:
    if not command.is_one_way:
        link.send(answer_to(command, 0, command.fields, bytes(command.body)))


def ignore(_link: PeerLink, _command: Command) -> None:
    pass


# --- connections


def test_answers_reach_whoever_asked_in_whatever_order_they_come(peers: Peers, dial: Dial) -> None:
    held: list[Command] = []

    def backwards(link: PeerLink, command: Command) -> None:
        held.append(command)
        if len(held) == 20:
            for one in reversed(held):
                echo(link, one)

    connection = dial(peers(backwards))
    futures = [connection.start(Command(10, body=b"%d" % n), 20) for n in range(20)]
    assert [bytes(one.result().body) for one in futures] == [b"%d" % n for n in range(20)]


def test_a_request_passes_one_that_waits(peers: Peers, dial: Dial) -> None:
    connection = dial(peers(lambda link, command: echo(link, command) if command.code == 10 else None))
    waiting = connection.start(Command(11), 20)
    assert connection.ask(Command(10)).code == 0
    assert not waiting.done()


def test_bodies_of_megabytes_pass_both_ways(peers: Peers, dial: Dial) -> None:
    connection = dial(peers(echo))
    body = bytes(range(256)) * 20_000
    futures = [connection.start(Command(10, body=body), 60) for _ in range(4)]
    assert all(bytes(one.result().body) == body for one in futures)


def test_a_deadline_ends_one_request_and_not_the_connection(peers: Peers, dial: Dial) -> None:
    connection = dial(peers(lambda link, command: echo(link, command) if command.code == 10 else None))
    late = connection.start(Command(11), 0.2)
    connection.ask(Command(10))
    with pytest.raises(AnswerLost, match="no answer in time"):
        late.result()
    assert connection.ask(Command(10)).code == 0


def test_what_is_gathered_goes_out_at_the_end_and_in_order(peers: Peers, dial: Dial) -> None:
    came: list[bytes] = []

    def heard(link: PeerLink, command: Command) -> None:
        came.append(bytes(command.body))
        echo(link, command)

    connection = dial(peers(heard))
    sent: list[int] = []
    with connection.gathering():
        futures = [connection.start(Command(10, body=b"%d" % n), 20) for n in range(3)]
        sent.append(connection.unsent_bytes)
    assert [future.result().code for future in futures] == [0, 0, 0]
    assert came == [b"0", b"1", b"2"]
    assert sent[0] > 0 == connection.unsent_bytes


def test_what_is_gathered_is_not_held_back_without_a_bound(peers: Peers, dial: Dial) -> None:
    connection = dial(peers(echo))
    with connection.gathering():
        assert connection.start(Command(10, body=bytes(GATHERED_BYTES)), 20).result(20).code == 0


def test_a_peer_that_is_gone_without_a_word_ends_the_connection(
    peers: Peers, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketmq.client.connection.IDLE_S", 60.0)
    connection = dial(peers(ignore))
    long = connection.start(Command(11), 60)
    short = connection.start(Command(10), 0.1)
    with pytest.raises(AnswerLost, match="no answer in time"):
        short.result(10)  # sooner than the thread would look up by itself
    with pytest.raises(AnswerLost, match="nothing has come"):
        long.result(20)
    with pytest.raises(Unreachable):
        connection.ask(Command(10))


def test_what_waits_is_lost_when_the_peer_hangs_up(peers: Peers, dial: Dial) -> None:
    peer = peers(lambda link, command: link.hang_up() if command.code == 12 else None)
    connection = dial(peer)
    futures = [connection.start(Command(code), 20) for code in (10, 11, 12)]
    for one in futures:
        with pytest.raises(AnswerLost):
            one.result(20)
    assert not connection.is_open


@pytest.mark.parametrize("junk", [b"\xff" * 64, b"\0\0\0\x08\0\0\0\x04junk", b"\0\0\0\x08\x07\0\0\x04junk"])
def test_bytes_that_cannot_be_read_end_the_connection(peers: Peers, dial: Dial, junk: bytes) -> None:
    connection = dial(peers(lambda link, _: link.send_bytes(junk)))
    with pytest.raises(AnswerLost):
        connection.ask(Command(10))
    assert not connection.is_open


def test_an_answer_counts_that_came_with_bytes_that_cannot_be_read(peers: Peers, dial: Dial) -> None:
    def both(link: PeerLink, command: Command) -> None:
        link.send_bytes(b"".join(encode_frame(answer_to(command, 0))) + b"\xff" * 64)

    connection = dial(peers(both))
    assert connection.start(Command(10), 20).result(20).code == 0
    connection._thread.join(20)
    assert not connection.is_open


def test_pushes_are_handled_and_answered_in_their_encoding(peers: Peers, dial: Dial) -> None:
    answers: list[Command] = []
    done = Event()

    def script(link: PeerLink, command: Command) -> None:
        if command.is_answer:
            answers.append(command)
            done.set()
        else:
            link.send(Command(39, {"a": "b"}, opaque=900, encoding=Encoding.ROCKETMQ))
            echo(link, command)

    connection = dial(peers(script), on_push=lambda push: answer_to(push, 0, push.fields))
    connection.ask(Command(10))
    assert done.wait(20)
    assert (answers[0].opaque, answers[0].fields, answers[0].encoding) == (900, {"a": "b"}, Encoding.ROCKETMQ)


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_push_that_is_not_handled_is_answered_all_the_same_and_ends_nothing(
    peers: Peers, dial: Dial, is_broken: bool
) -> None:
    codes: list[int] = []
    done = Event()

    def script(link: PeerLink, command: Command) -> None:
        if command.is_answer:
            codes.append(command.code)
            done.set()
        else:
            link.send(Command(39))
            echo(link, command)

    def handle(_push: Command) -> None:
        if is_broken:
            raise ValueError("broken on purpose")

    connection = dial(peers(script), on_push=handle)
    connection.ask(Command(10))
    assert done.wait(20)
    assert codes == [Answer.SYSTEM_ERROR if is_broken else Answer.REQUEST_CODE_NOT_SUPPORTED]
    assert connection.is_open


def test_no_more_requests_wait_than_may(peers: Peers, dial: Dial) -> None:
    connection = dial(peers(ignore), pending_max=3)
    for _ in range(3):
        connection.start(Command(11), 20)
    with pytest.raises(TooManyPending):
        connection.start(Command(11), 20)


def test_no_more_bytes_wait_than_may(peers: Peers, dial: Dial) -> None:
    release = Event()

    def deaf(link: PeerLink, command: Command) -> None:
        release.wait(20)

    connection = dial(peers(deaf), outgoing_bytes_max=30_000_000)
    fills = (connection.start(Command(10, body=bytes(8_000_000)), 60) for _ in range(20))
    with pytest.raises(TooManyPending, match="bytes wait"):
        list(fills)
    assert connection._outgoing_bytes <= 30_000_000
    release.set()


def test_closing_ends_what_waits(peers: Peers, dial: Dial) -> None:
    connection = dial(peers(ignore))
    future = connection.start(Command(11), 60)
    connection.close()
    with pytest.raises(AnswerLost, match="closed by us"):
        future.result()


def test_requests_are_signed(peers: Peers, dial: Dial) -> None:
    peer = peers(echo)
    dial(peer, credentials=AclCredentials("user", "secret")).ask(Command(10, {"b": "topic"}, b"body"))
    (seen,) = peer.seen
    assert seen.fields["AccessKey"] == "user"
    assert is_signed_by(seen.fields, seen.body, "secret")


def test_requests_go_out_in_the_encoding_of_the_settings(peers: Peers, dial: Dial) -> None:
    peer = peers(echo)
    assert dial(peer, encoding=Encoding.ROCKETMQ).ask(Command(10, {"b": "ä"})).fields == {"b": "ä"}
    assert peer.seen[0].encoding is Encoding.ROCKETMQ


def test_a_peer_that_speaks_no_tls_is_unreachable(peers: Peers) -> None:
    peer = peers(echo)
    with pytest.raises(Unreachable):
        connect(peer.address, replace(SETTINGS, tls=ssl.create_default_context(), connect_timeout_s=0.5), CLOCK)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder, "peer", "127.0.0.1")
    return folder / "peer.pem"


def secured(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_over_tls_bodies_pass_both_ways_and_waits_end_in_time(certificate: Path, dial: Dial) -> None:
    def script(link: PeerLink, command: Command) -> None:
        if command.code == 10:
            echo(link, command)

    with closing(ScriptedPeer(script, secured(certificate))) as peer:
        connection = dial(peer, tls=ssl.create_default_context(cafile=str(certificate)))
        late = connection.start(Command(11), 0.2)
        body = bytes(range(256)) * 10_000
        futures = [connection.start(Command(10, body=body), 60) for _ in range(4)]
        assert all(bytes(one.result().body) == body for one in futures)
        with pytest.raises(AnswerLost, match="no answer in time"):
            late.result()
        assert connection.ask(Command(10, body=b"small")).body == b"small"


def test_a_peer_with_a_certificate_that_is_not_trusted_is_unreachable(certificate: Path) -> None:
    with (
        closing(ScriptedPeer(echo, secured(certificate))) as peer,
        pytest.raises(Unreachable, match="not trusted"),
    ):
        connect(peer.address, replace(SETTINGS, tls=ssl.create_default_context()), CLOCK)


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:65536", "host:x", "host:٣"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest, match="host:port"):
        parse_address(address)


def test_an_address_of_ipv6_has_brackets() -> None:
    assert parse_address("[::1]:10911") == ("::1", 10911)


# --- links


def test_an_address_that_does_not_answer_is_left_alone_for_longer_each_time() -> None:
    clock, tried = ManualClock(), []

    def refuse(address: str, *_: object) -> BrokerConnection:
        tried.append(clock.monotonic_s())
        raise Unreachable(f"{address}: nobody there")

    settings = replace(SETTINGS, backoff_min_s=0.125, backoff_max_s=0.5)
    links = Links(settings, clock, lambda _: None, refuse)
    for _ in range(30):
        with pytest.raises(Unreachable, match="nobody there"):
            links.to("h:1")
        clock.advance(125)
    waits = [after - before for before, after in pairwise(tried)]
    assert waits[:3] == [0.125, 0.25, 0.5]
    assert set(waits[3:]) == {0.5}


def test_a_connection_is_shared_and_made_anew_when_it_has_ended(peers: Peers) -> None:
    peer = peers(echo)
    with closing(Links(SETTINGS, CLOCK, lambda _: None)) as links:
        first = links.to(peer.address)
        assert links.to(peer.address) is first
        first.close()
        assert links.to(peer.address).ask(Command(10)).code == 0
    with pytest.raises(Unreachable, match="closed"):
        links.to(peer.address)


def test_who_asks_for_an_address_that_swallows_attempts_waits_for_the_first_one_alone() -> None:
    clock, answers, attempts = ManualClock(), Event(), count()
    made: Any = SimpleNamespace(is_open=True)

    def connect_slowly(address: str, *_: object) -> BrokerConnection:
        if next(attempts) == 0:
            raise Unreachable(f"{address}: no answer")
        answers.wait()
        return made

    links = Links(SETTINGS, clock, lambda _: None, connect_slowly)
    with pytest.raises(Unreachable, match="no answer"):
        links.to("h:1")
    clock.advance(10_000)
    for _ in range(2):
        with pytest.raises(Unreachable, match="being tried again"):
            links.to("h:1")
    answers.set()
    assert links.to("h:1") is made


# --- name servers and the client


def route_to(address: str) -> Route:
    return Route((QueueRange("a", 4, 4),), (BrokerAddresses("c", "a", {0: address}),))


def serving(answers: dict[int, Script] | None = None) -> Script:
    """A name server and a broker in one: it names itself. `answers` by request code."""

    def script(link: PeerLink, command: Command) -> None:
        found = (answers or {}).get(command.code)
        if found is not None:
            found(link, command)
        elif command.code == Request.GET_ROUTEINFO_BY_TOPIC:
            address = str(link._channel.getsockname()[0]) + ":" + str(link._channel.getsockname()[1])
            if command.fields["topic"] == "topic":
                link.send(answer_to(command, 0, body=encode_route(route_to(address))))
            else:
                link.send(answer_to(command, Answer.TOPIC_NOT_EXIST, remark="no route"))
        elif command.code == Request.GET_BROKER_CLUSTER_INFO:
            address = str(link._channel.getsockname()[0]) + ":" + str(link._channel.getsockname()[1])
            link.send(answer_to(command, 0, body=encode_cluster(route_to(address).brokers)))

    return script


def refusing(code: int) -> Script:
    return lambda link, command: link.send(answer_to(command, code, remark="why"))


def answering(fields: dict[str, str], code: int = 0, body: bytes = b"") -> Script:
    return lambda link, command: link.send(answer_to(command, code, fields, body))


@pytest.fixture
def clients(peers: Peers) -> Iterator[Callable[..., tuple[Client, ScriptedPeer]]]:
    with ExitStack() as stack:

        def make(answers: dict[int, Script] | None = None, **options: Any) -> tuple[Client, ScriptedPeer]:
            peer = peers(serving(answers))
            settings = replace(SETTINGS, name_servers=(peer.address,), **options)
            return stack.enter_context(Client(settings, CLOCK)), peer

        yield make


Clients = Callable[..., tuple[Client, ScriptedPeer]]


def test_a_route_is_asked_for_once_and_again_when_it_is_old_or_forgotten(peers: Peers) -> None:
    peer, clock = peers(serving()), ManualClock()
    settings = replace(SETTINGS, name_servers=(peer.address,), route_s=30)
    with closing(Links(settings, CLOCK, lambda _: None)) as links:
        names = NameServers(settings, links, clock)
        for advance_ms, asked in ((0, 1), (29_000, 1), (1_001, 2)):
            clock.advance(advance_ms)
            names.route("topic")
            assert len(peer.seen) == asked
        names.forget("topic")
        names.route("topic")
        assert len(peer.seen) == 3


def test_an_older_route_is_used_while_no_name_server_answers(peers: Peers) -> None:
    peer, clock = peers(serving()), ManualClock()
    settings = replace(SETTINGS, name_servers=(peer.address, f"127.0.0.1:{free_port()}"))
    with closing(Links(settings, clock, lambda _: None)) as links:
        names = NameServers(settings, links, clock)
        before = names.route("topic")
        peer.close()
        clock.advance(60_000)
        assert names.route("topic") == before
        assert names.stale_answers == 1
        with pytest.raises((Unreachable, AnswerLost)):
            names.route("another")


def test_a_silence_of_the_name_servers_is_logged_once(peers: Peers, caplog: pytest.LogCaptureFixture) -> None:
    peer, clock = peers(serving()), ManualClock()
    settings = replace(SETTINGS, name_servers=(peer.address,), request_timeout_s=0.1)
    with closing(Links(settings, CLOCK, lambda _: None)) as links:
        names, answer = NameServers(settings, links, clock), peer.script
        names.route("topic")
        before = names.cluster()
        for silences in (1, 2):
            peer.script = ignore
            clock.advance(60_000)
            assert [names.cluster() for _ in range(3)] == [before] * 3
            names.route("topic")
            assert [record.levelname for record in caplog.records] == ["WARNING"] * silences
            peer.script = answer
            assert names.cluster() == before


def test_who_sends_never_waits_for_a_name_server_about_a_topic_that_is_known(peers: Peers) -> None:
    peer, clock = peers(serving()), ManualClock()
    settings = replace(SETTINGS, name_servers=(peer.address,), request_timeout_s=0.2)
    with closing(Links(settings, CLOCK, lambda _: None)) as links:
        names = NameServers(settings, links, clock)
        route, answer = names.route("topic"), peer.script
        peer.script = ignore
        clock.advance(60_000)
        assert names.master("topic", "a") == peer.address
        assert names.route("topic") == route
        assert names.route("topic") == route
        assert names.stale_answers >= 1
        peer.script = answer
        until_s = CLOCK.monotonic_s() + 20
        while names.are_silent and CLOCK.monotonic_s() < until_s:
            names.route("topic")
        assert not names.are_silent


def test_a_topic_of_which_no_broker_is_registered_is_where_it_was(peers: Peers) -> None:
    script, clock = serving(), ManualClock()
    peer = peers(script)
    settings = replace(SETTINGS, name_servers=(peer.address,))
    with closing(Links(settings, CLOCK, lambda _: None)) as links:
        names = NameServers(settings, links, clock)
        route = names.route("topic")
        missing: dict[int, Script] = {Request.GET_ROUTEINFO_BY_TOPIC: refusing(Answer.TOPIC_NOT_EXIST)}
        peer.script = serving({**missing, Request.GET_BROKER_CLUSTER_INFO: answering({}, body=encode_cluster(()))})
        names.forget("topic")
        assert names.route("topic") == route
        peer.script = serving(missing)
        names.forget("topic")
        with pytest.raises(TopicMissing):
            names.route("topic")


def test_a_broker_that_a_name_server_does_not_know_is_where_it_was(peers: Peers) -> None:
    """One that was started anew, or was frozen, knows only those that have registered since."""
    peer = peers(serving())
    settings = replace(SETTINGS, name_servers=(peer.address,))
    with closing(Links(settings, CLOCK, lambda _: None)) as links:
        names = NameServers(settings, links, CLOCK)
        assert names.master("topic", "a") == peer.address
        for addresses, found in (((), peer.address), ((BrokerAddresses("c", "a", {1: "127.0.0.1:1"}),), None)):
            other = Route((QueueRange("b", 4, 4),), (BrokerAddresses("c", "b", {0: "127.0.0.1:2"}), *addresses))
            peer.script = serving({Request.GET_ROUTEINFO_BY_TOPIC: answering({}, body=encode_route(other))})
            names.forget("topic")
            names.route("topic")
            if found is not None:
                assert names.master("topic", "a") == found
            else:
                with pytest.raises(Unreachable, match="no master"):
                    names.master("topic", "a")


def test_lists_of_the_cluster_are_the_last_ones_while_no_name_server_answers(peers: Peers) -> None:
    peer = peers(serving())
    settings = replace(SETTINGS, name_servers=(peer.address,))
    with closing(Links(settings, CLOCK, lambda _: None)) as links:
        names = NameServers(settings, links, CLOCK)
        before = names.cluster()
        peer.close()
        assert names.cluster() == before
        with pytest.raises((Unreachable, AnswerLost)):
            names.topics()


def test_the_next_name_server_is_asked_where_one_does_not_answer(peers: Peers) -> None:
    peer = peers(serving())
    settings = replace(SETTINGS, name_servers=(f"127.0.0.1:{free_port()}", peer.address))
    with Client(settings, CLOCK) as client:
        assert client.names.route("topic").master_of("a") == peer.address


def test_a_connection_to_what_is_the_master_no_more_ends(clients: Clients) -> None:
    client, peer = clients()
    moved = encode_route(route_to("127.0.0.1:1"))
    with closing(client.pinned("a")) as pinned:
        peer.script = serving({Request.GET_ROUTEINFO_BY_TOPIC: answering({}, body=moved)})
        with pytest.raises(Unreachable, match="has moved from"):
            pinned.broker.max_offset(QUEUE)
        assert not pinned.is_open


def test_a_topic_that_there_is_not_is_missing(clients: Clients) -> None:
    client, _ = clients()
    with pytest.raises(TopicMissing, match="GET_ROUTEINFO_BY_TOPIC: code 17: no route"):
        client.names.route("another")


def test_a_broker_without_a_master_is_unreachable(clients: Clients) -> None:
    client, _ = clients()
    with pytest.raises(Unreachable, match="no master"):
        client.broker.send(Queue("topic", "b", 0), b"")


def test_a_send_has_all_that_a_broker_needs(clients: Clients) -> None:
    answer = answering({"msgId": "x", "queueId": "1", "queueOffset": "7", "recallHandle": "h"})
    client, peer = clients({Request.SEND_MESSAGE_V2: answer})
    sent = client.broker.send_later(QUEUE, b"body", {"KEYS": "k"}, born_ms=5, flag=2, reconsume_times=1).result()
    assert (sent.code, sent.answer.queue_offset, sent.answer.recall_handle) == (0, 7, "h")
    fields = peer.seen[-1].fields
    assert {name: fields[name] for name in "beghijmn"} == {
        "b": "topic",
        "e": "1",
        "g": "5",
        "h": "2",
        "i": "KEYS\x01k\x02",
        "j": "1",
        "m": "false",
        "n": "a",
    }


def test_a_send_that_is_stored_less_safely_than_asked_for_is_sent(clients: Clients) -> None:
    answer = answering({"msgId": "x", "queueId": "1", "queueOffset": "7"}, Answer.FLUSH_DISK_TIMEOUT)
    client, _ = clients({Request.SEND_BATCH_MESSAGE: answer})
    assert client.broker.send_batch(QUEUE, [member(b"a", {})]).code == Answer.FLUSH_DISK_TIMEOUT


@pytest.mark.parametrize(
    ("code", "kind"), [(13, Refused), (16, NotAllowed), (17, TopicMissing), (26, GroupMissing), (4711, Refused)]
)
def test_a_refusal_carries_the_code_and_the_remark(clients: Clients, code: int, kind: type[Refused]) -> None:
    client, _ = clients({Request.SEND_MESSAGE_V2: refusing(code)})
    with pytest.raises(kind, match=f"SEND_MESSAGE_V2: code {code}: why") as found:
        client.broker.send(QUEUE, b"")
    assert type(found.value) is kind
    assert (found.value.code, found.value.remark) == (code, "why")


def test_a_send_whose_connection_ends_may_have_been_stored_and_the_route_is_asked_for_anew(clients: Clients) -> None:
    client, peer = clients({Request.SEND_MESSAGE_V2: lambda link, _: link.hang_up()})
    for _ in range(2):
        with pytest.raises(AnswerLost):
            client.broker.send(QUEUE, b"")
    assert [one.code for one in peer.seen] == [105, 310, 105, 310]


def test_an_answer_that_lacks_what_it_needs_cannot_be_read(clients: Clients) -> None:
    client, _ = clients({Request.GET_MAX_OFFSET: answering({})})
    with pytest.raises(Malformed, match="OffsetAnswer without offset"):
        client.broker.max_offset(QUEUE)


PULL_FIELDS = {"suggestWhichBrokerId": "0", "nextBeginOffset": "11", "minOffset": "1", "maxOffset": "20"}


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, PullStatus.FOUND), (19, PullStatus.NOTHING_YET), (20, PullStatus.NONE_MATCH), (21, PullStatus.OFFSET_MOVED)],
)
def test_a_pull_has_where_to_go_on_whatever_it_brings(clients: Clients, code: int, status: PullStatus) -> None:
    body = encode_message(PLAIN) if code == 0 else b""
    client, peer = clients({Request.PULL_MESSAGE: answering(PULL_FIELDS, code, body)})
    found = client.broker.pull(QUEUE, 10, wait_s=5)
    assert (found.status, found.next_offset, found.min_offset, found.max_offset) == (status, 11, 1, 20)
    assert len(found.messages) == (code == 0)
    assert (peer.seen[-1].fields["sysFlag"], peer.seen[-1].fields["suspendTimeoutMillis"]) == ("6", "5000")


def test_a_pull_that_ends_within_a_message_cannot_be_read(clients: Clients) -> None:
    client, _ = clients({Request.PULL_MESSAGE: answering(PULL_FIELDS, 0, encode_message(PLAIN)[:-1])})
    with pytest.raises(Malformed, match="no whole message"):
        client.broker.pull(QUEUE, 10)


def test_what_cannot_be_expressed_is_refused_before_anything_is_sent(clients: Clients) -> None:
    client, peer = clients(body_bytes_max=10)
    for act in (
        lambda: client.broker.send(QUEUE, bytes(11)),
        lambda: client.broker.send(QUEUE, b"", {"": "x"}),
        lambda: client.broker.send_batch(QUEUE, []),
        lambda: client.group.lock("g", "c", []),
        lambda: client.group.lock("g", "c", [QUEUE, Queue("topic", "b", 0)]),
    ):
        with pytest.raises(InvalidRequest):
            act()
    assert peer.seen == []


def test_a_group_that_has_committed_nothing_has_no_offset(clients: Clients) -> None:
    client, peer = clients({Request.QUERY_CONSUMER_OFFSET: refusing(Answer.QUERY_NOT_FOUND)})
    assert client.broker.committed("g", QUEUE) is None
    assert peer.seen[-1].fields["setZeroIfNotFound"] == "false"


@pytest.mark.parametrize(
    ("code", "remark", "is_connected"),
    [
        (
            Answer.SYSTEM_ERROR,
            "invoke consumer <g> <c> Exception: x.RemotingSendRequestException: send request",
            False,
        ),
        (Answer.SYSTEM_ERROR, "The Consumer <g> <c> not online", True),
        (Answer.CONSUME_MSG_TIMEOUT, "consumer <g> <c> Timeout: x.RemotingTimeoutException", True),
        (Answer.REQUEST_CODE_NOT_SUPPORTED, "not supported", True),
        (Answer.SUCCESS, "", True),
    ],
)
def test_a_client_to_which_its_broker_cannot_write_is_not_connected(
    clients: Clients, code: int, remark: str, is_connected: bool
) -> None:
    script: Script = lambda link, command: link.send(answer_to(command, code, remark=remark))  # noqa: E731
    client, peer = clients({Request.GET_CONSUMER_RUNNING_INFO: script})
    assert client.group.is_connected_later("g", "c", QUEUE).result() is is_connected
    assert peer.seen[-1].fields == {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false", "bname": "a"}


def test_a_client_without_a_name_server_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no name server"):
        Client(ClientSettings(()))
