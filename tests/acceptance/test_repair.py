"""`delayline reconcile repair`, as an operator runs it: on a queue that has lost a message."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

import pytest

from delayline.buffer.decisions import encode_decision
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.message import Key, MessageId
from mq.contract import Append, Queue
from mq.embedded import EmbeddedQueue
from tests.acceptance.asking import HTTP, Ran, run, send, wait_for
from tests.acceptance.conftest import MakeServer
from tests.acceptance.on_kafka import settings_of
from tests.fault.server import Server, read_topic

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

Opened = Callable[[], Any]


@contextmanager
def embedded(server: Server) -> Iterator[Queue]:
    clock = SystemClock()
    with closing(EmbeddedQueue.open(server.data_dir / "queue", namespace="delayline", clock=clock)) as queue:
        yield queue


def accepted(server: Server, topic: str) -> str:
    """A message that its shard has read."""
    (message,) = send(server.url, topic, ["once"], delay="1h")
    found: str = message["message_id"]
    assert state(server, found) == "pending"
    return found


def state(server: Server, message_id: str) -> str:
    answer = wait_for(
        lambda: HTTP.get(f"{server.url}/v1/messages/{message_id}", timeout=20), lambda it: it.status_code != 503
    )
    return str(answer.json().get("state", answer.status_code))


def lose(queue: Queue, names: Names, message_id: str) -> None:
    """A decision without an operation and without an outcome row."""
    found = MessageId.parse(message_id)
    body = encode_decision([Key(found.due_ms, found.offset)])
    queue.append([Append(names.buffer(found.shard.topic), found.shard.partition, body)]).result(10)


def write_plan(file: Path, queue: Queue, kind: str, names: Names, message_id: str, **changes: object) -> None:
    found = MessageId.parse(message_id)
    place = {"topic": found.shard.topic, "shard": int(found.shard.partition), "offset": found.offset}
    lost = {"id": message_id, **place, "due_ms": found.due_ms, "accepted_ms": None}
    partitions = queue.topic(names.audit).partitions
    plan = {
        "v": 1,
        "cluster": {"kind": kind, "id": queue.identity(), "namespace": names.namespace},
        "run": 3,
        "at_ms": 0,
        "audit": {name: queue.offsets(names.audit, name)[1] for name in partitions},
        "messages": [lost],
        "more": 2,
        **changes,
    }
    file.write_text(json.dumps(plan))


def repair(file: Path, *options: str, **settings: str) -> Ran:
    return run("reconcile", "repair", str(file), *options, **settings)


def whats(ran: Ran) -> list[tuple[str, str]]:
    return [(message["what"], message["why"]) for message in json.loads(ran.out)["messages"]]


def restart(server: Server) -> None:
    server.stop()
    server.start()
    server.wait_ready()


def deliver_now(server: Server, topic: str, message_id: str, partitions: int) -> list[str]:
    """What stands in the topic after the message was moved to this moment, and some time."""
    moved = run("reschedule", message_id, "--delay", "0s", "--url", server.url)
    assert moved.code == 0, moved

    def values() -> list[str]:
        return [record["value"] for record in read_topic(server.url, topic, partitions)]

    wait_for(values, bool)
    send(server.url, topic, ["behind"] * 8, delay="10ms")
    wait_for(values, lambda found: found.count("behind") == 8)
    return [value for value in values() if value != "behind"]


def test_a_lost_message_is_looked_at_sent_again_once_and_delivered(server: Server, tmp_path: Path) -> None:
    plan, names, settings = tmp_path / "plan.json", Names("delayline"), {"data_dir": str(server.data_dir)}
    message_id = accepted(server, "orders")
    server.stop()
    with embedded(server) as queue:
        lose(queue, names, message_id)
        write_plan(plan, queue, "embedded", names, message_id)
    restart(server)
    lost = state(server, message_id)
    assert lost != "pending"

    in_use = repair(plan, "--apply", **settings)
    assert (in_use.code, "; stop it, repair, and start it again" in in_use.err) == (1, True)
    assert f" on {gethostname()} since " in in_use.err
    server.stop()
    looked = repair(plan, **settings)
    assert (looked.code, message_id in looked.out) == (0, True)
    assert looked.err == (
        "1 message to be sent again: --apply does it; 2 more are missing that the plan does not list\n"
    )
    sent = repair(plan, "--apply", "--json", **settings)
    assert (sent.code, whats(sent)) == (0, [("sent again", "")])
    again = repair(plan, "--apply", "--json", **settings)
    assert (again.code, whats(again)) == (0, [("has ended", "superseded (repair)")])

    restart(server)
    assert state(server, message_id) == "pending"
    assert deliver_now(server, "orders", message_id, 4) == ["once"]
    assert state(server, message_id) == "delivered"


@pytest.mark.thorough
def test_what_is_not_to_be_done_is_refused(server: Server, tmp_path: Path) -> None:
    plan, names, settings = tmp_path / "plan.json", Names("delayline"), {"data_dir": str(server.data_dir)}
    ids = [accepted(server, "orders") for _ in range(2)]
    server.stop()
    with embedded(server) as queue:
        write_plan(plan, queue, "embedded", names, ids[0])
        both = json.loads(plan.read_text())
        write_plan(plan, queue, "embedded", names, ids[1])
        both["messages"] += json.loads(plan.read_text())["messages"]
        end = queue.log_range(MessageId.parse(ids[0]).shard)
    plan.write_text(json.dumps(both))
    many = repair(plan, "--apply", "--max", "1", **settings)
    assert (many.code, many.err) == (64, "delayline: 2 messages to be sent again, --max is 1\n")
    plan.write_text(json.dumps(both | {"cluster": both["cluster"] | {"id": "another"}}))
    elsewhere = repair(plan, "--apply", **settings)
    assert (elsewhere.code, "the plan is for embedded another" in elsewhere.err) == (64, True)
    plan.write_text("{}")
    assert repair(plan, **settings).code == 64
    assert repair(tmp_path / "none.json", **settings).code == 64
    nowhere = repair(plan, data_dir=str(tmp_path / "none"))
    assert (nowhere.code, (tmp_path / "none").exists()) == (64, False)
    with embedded(server) as queue:
        assert queue.log_range(MessageId.parse(ids[0]).shard) == end


def test_a_payload_that_is_gone_is_a_failure(server: Server, tmp_path: Path) -> None:
    plan, names = tmp_path / "plan.json", Names("delayline")
    message_id = accepted(server, "orders")
    server.stop()
    with embedded(server) as queue:
        shard = MessageId.parse(message_id).shard
        queue.trim(shard, queue.log_range(shard)[1])
        write_plan(plan, queue, "embedded", names, message_id)
    ran = repair(plan, "--apply", "--json", data_dir=str(server.data_dir))
    assert (ran.code, whats(ran)[0][0]) == (2, "payload lost")


@pytest.mark.thorough
def test_on_kafka_it_is_sent_beside_the_running_worker(
    kafka: "KafkaAt", make_server: MakeServer, topic: str, tmp_path: Path
) -> None:
    from mq.kafka.queue import KafkaQueue
    from mq.kafka.settings import KafkaSettings

    plan, settings = tmp_path / "plan.json", settings_of(kafka)
    names = Names(settings["namespace"])
    server = make_server("kafka", **settings)
    server.start()
    server.wait_ready()
    message_id = accepted(server, topic)
    server.stop()
    own = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers, namespace=names.namespace)
    with closing(KafkaQueue(own, SystemClock())) as queue:
        lose(queue, names, message_id)
        write_plan(plan, queue, "kafka", names, message_id)
    server.start()
    server.wait_ready()
    assert state(server, message_id) != "pending"

    assert repair(plan, **settings).code == 0
    sent = repair(plan, "--apply", "--json", **settings)
    again = repair(plan, "--apply", "--json", **settings)
    assert (whats(sent), whats(again)) == ([("sent again", "")], [("has ended", "superseded (repair)")])
    wait_for(lambda: state(server, message_id), lambda found: found == "pending")
    assert deliver_now(server, topic, message_id, 2) == ["once"]
