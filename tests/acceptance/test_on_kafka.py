"""The commands on a Kafka, as a user starts them: an API, workers, and a broker that is not always there."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.acceptance.asking import HTTP, run, send, wait_for
from tests.acceptance.conftest import MakeServer
from tests.acceptance.on_kafka import PARTITIONS, asked, make_topic, settings_of
from tests.acceptance.racing import RACES, race
from tests.conftest import started
from tests.fault.server import Server, read_topic
from tests.tiers import sample


def arrived(url: str, topic: str, count: int) -> list[str]:
    """The values in the topic, once there are so many."""

    def values() -> list[str]:
        return sorted(record["value"] for record in read_topic(url, topic, PARTITIONS))

    return wait_for(values, lambda found: len(found) >= count, within_s=30)


def sent_one(url: str, topic: str, **schedule: Any) -> httpx.Response:
    return HTTP.post(f"{url}/v1/topics/{topic}/messages", json={"value": "x", "schedule": schedule}, timeout=20)


def test_what_one_process_accepts_another_delivers(running: Callable[..., list[Server]], topic: str) -> None:
    api, worker = running("api", "worker")
    send(api.url, topic, ["a", "b", "c"], delay="1s")
    assert arrived(api.url, topic, 3) == ["a", "b", "c"]
    finished = f'delayline_messages_finished_total{{outcome="delivered",topic="{topic}"}} 3.0'
    assert finished in wait_for(lambda: HTTP.get(f"{worker.url}/metrics").text, lambda text: finished in text)
    assert (api.stop()[0], worker.stop()[0]) == (0, 0)


def test_an_api_without_a_worker_answers_that_it_does_not_know_the_message(
    running: Callable[..., list[Server]], topic: str
) -> None:
    (api,) = running("api")
    (message,) = send(api.url, topic, ["a"], delay="1h")
    answer = asked(api.url, message["message_id"])
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/owner-unavailable")


def test_a_server_with_a_worker_knows_its_messages(running: Callable[..., list[Server]], topic: str) -> None:
    (server,) = running("serve")
    (message,) = send(server.url, topic, ["a"], delay="1h")
    answer = wait_for(lambda: asked(server.url, message["message_id"]), lambda answer: answer.status_code == 200)
    found = wait_for(lambda: asked(server.url, message["message_id"]).json()["state"], lambda it: it == "pending")
    assert (answer.status_code, found) == (200, "pending")
    assert asked(server.url, f"orders-none.0.0.{message['message_id'].rpartition('.')[2]}").status_code == 404


@pytest.mark.parametrize("commands", sample([(("api", "worker", "worker"),), (("serve",),)], every=2))
def test_no_message_is_delivered_after_a_confirmed_cancel(
    running: Callable[..., list[Server]], topic: str, commands: tuple[str, ...]
) -> None:
    server, *_ = running(*commands)
    (sentinel,) = send(server.url, topic, ["0"], delay="1ms")
    wait_for(lambda: asked(server.url, sentinel["message_id"]).status_code, lambda status: status == 200)
    race(server.url, topic, lambda: arrived(server.url, topic, 1)[1:], RACES // 3)


def test_topics_of_others_are_never_made(running: Callable[..., list[Server]], topic: str) -> None:
    (api,) = running("api")
    unknown = sent_one(api.url, "orders-unknown", delay="1s")
    assert (unknown.status_code, unknown.json()["type"]) == (404, "/problems/topic-unknown")
    other = sent_one(api.url, f"x{topic}", delay="1s")
    assert (other.status_code, other.json()["type"]) == (400, "/problems/topic-not-enabled")


@pytest.mark.outage
def test_processes_that_are_there_before_the_broker_wait_for_it(make_server: MakeServer) -> None:
    from tests.brokers.kafka import Kafka

    with started(Kafka) as kafka:
        topic, settings = "orders-first", settings_of(kafka)
        kafka.nodes[0].kill()
        api, worker = (make_server(name, command=name, **settings) for name in ("api", "worker"))
        for server in (api, worker):
            server.start()
        for server in (api, worker):
            server.wait_alive()
            assert HTTP.get(f"{server.url}/readyz").status_code == 503
        refused = sent_one(api.url, topic, delay="1s")
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/queue-unavailable")
        assert int(refused.headers["retry-after"]) > 0
        kafka.nodes[0].start()
        kafka.wait_ready()
        make_topic(kafka, topic)
        api.wait_ready()
        send(api.url, topic, ["a"], delay="1s")
        assert arrived(api.url, topic, 1) == ["a"]


@pytest.mark.parametrize("command", ["api", "worker"])
def test_the_embedded_queue_has_one_process_only(command: str) -> None:
    ran = run(command)
    assert (ran.code, ran.out) == (2, "")
    assert "mq.kind: the embedded queue runs in one process" in ran.err


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ('{"nonsense": "1"}', "mq.properties: nonsense: not known to Delayline's own client"),
        ('{"log.nonsense": "1"}', 'mq.properties: No such configuration property: "log.nonsense"'),
    ],
)
@pytest.mark.parametrize("command", ["worker", "api"])
def test_a_property_that_nobody_knows_is_refused(command: str, properties: str, error: str) -> None:
    settings = {"mq__kind": "kafka", "mq__bootstrap_servers": "127.0.0.1:1", "mq__properties": properties}
    ran = run(command, **settings)
    assert ran.code == 2
    assert error in ran.err


def test_a_property_that_a_promise_hangs_on_is_refused() -> None:
    settings = {"mq__kind": "kafka", "mq__bootstrap_servers": "127.0.0.1:1", "mq__properties": '{"acks": "1"}'}
    ran = run("api", **settings)
    assert ran.code == 2
    assert "acks cannot be set" in ran.err
