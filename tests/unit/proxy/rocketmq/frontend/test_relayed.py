"""What passes between a client and a server: as it came, in any order, and in both directions."""

from threading import Thread

from rocketmq.wire.bodies import decode_route
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, Encoding, answer_to
from rocketmq.wire.headers.admin import GetRouteInfo
from tests.unit.proxy.rocketmq.scene import BROKER, Scene, message
from tests.unit.rocketmq.peer import PeerLink


def test_a_route_names_the_proxys_port_in_the_place_of_the_broker(scene: Scene) -> None:
    client = scene.open().client(scene.port)
    for encoding in Encoding:
        asked = Command(
            Request.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo("orders").to_fields(), opaque=3, encoding=encoding
        )
        answer = client.ask(asked)
        (found,) = decode_route(answer.body).brokers
        assert (answer.code, answer.opaque) == (0, 3)
        assert (found.broker, found.addresses) == (BROKER, {0: f"127.0.0.1:{scene.port + 4}"})


def test_an_address_that_appears_with_an_answer_is_reached_as_soon_as_that_is_there(scene: Scene) -> None:
    client = scene.open().client(scene.port)
    scene.names.addresses[1] = scene.broker.peer.address
    answer = client.ask(Command(Request.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo("orders").to_fields()))
    (found,) = decode_route(answer.body).brokers
    assert found.addresses == {0: f"127.0.0.1:{scene.port + 4}", 1: f"127.0.0.1:{scene.port + 5}"}
    assert scene.client(scene.port + 5).ask(Command(Request.HEART_BEAT)).code == 0


def test_a_name_server_answers_what_the_proxy_does_not_know(scene: Scene) -> None:
    assert scene.open().client(scene.port).ask(Command(9999)).code == Answer.REQUEST_CODE_NOT_SUPPORTED


def test_a_send_overtakes_a_pull_that_waits(scene: Scene) -> None:
    waiting = scene.broker.keep_others()
    client = scene.open().client()
    client.send(Command(Request.PULL_MESSAGE, {"topic": "orders"}, opaque=6), message())
    assert client.receive().opaque == 7
    link, pull = waiting[0]
    link.send(answer_to(pull, 0, body=bytes(300_000)))
    answer = client.receive()
    assert (answer.opaque, len(answer.body)) == (6, 300_000)


def test_what_a_broker_asks_reaches_the_client_and_its_answer_goes_back(scene: Scene) -> None:
    """With the number of a request of the client's, and a code and fields that as a request would be a send."""
    client = scene.open().client()
    assert client.ask(message(DELAY="1")).code == 0
    push = Command(Request.CHECK_TRANSACTION_STATE, {"tranStateTableOffset": "1"}, b"half", opaque=7)
    scene.broker.peer.links[-1].send(push)
    found = client.receive()
    assert (found.code, found.opaque, found.body, found.is_answer) == (push.code, 7, b"half", False)
    client.send(answer_to(found, Request.SEND_MESSAGE_V2, message(DELAY="1").fields))
    assert client.ask(Command(Request.HEART_BEAT, opaque=8)).opaque == 8
    assert [(one.code, one.is_answer) for one in scene.broker.peer.seen][-2:] == [
        (Request.SEND_MESSAGE_V2, True),
        (Request.HEART_BEAT, False),
    ]


def test_the_port_two_below_is_the_brokers_vip_channel(scene: Scene) -> None:
    """Which nothing listens on here."""
    assert scene.open().client(scene.port + 2).is_closed()


def test_a_client_is_cut_off_where_its_broker_ends(scene: Scene) -> None:
    client = scene.open().client()
    assert client.ask(Command(Request.HEART_BEAT)).code == 0
    scene.broker.peer.links[-1].hang_up()
    assert client.is_closed()


def test_a_client_is_cut_off_where_its_broker_has_moved(scene: Scene) -> None:
    client, names = scene.open().client(), scene.client(scene.port)
    assert client.ask(Command(Request.HEART_BEAT)).code == 0
    scene.names.addresses[0] = "127.0.0.1:1"
    names.ask(Command(Request.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo("orders").to_fields()))
    assert client.is_closed()


def test_a_proxy_that_stops_lets_requests_under_way_have_their_answers(scene: Scene) -> None:
    """A pull that waits is none of them."""
    under_way: list[tuple[PeerLink, Command]] = []
    scene.broker.others = lambda link, command: under_way.append((link, command))
    client, pulling = scene.open().client(), scene.client()
    pulling.send(Command(Request.PULL_MESSAGE))
    client.send(Command(Request.HEART_BEAT, opaque=5))
    while len(under_way) < 2:
        assert client.ask(message()).code == 0
    stopping = Thread(target=scene.stop)
    stopping.start()
    link, asked = next(one for one in under_way if one[1].code == Request.HEART_BEAT)
    link.send(answer_to(asked, 0))
    assert client.receive().opaque == 5
    assert client.is_closed()
    assert pulling.is_closed()
    stopping.join()
