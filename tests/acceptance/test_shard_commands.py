"""The commands about shards that have stalled, on a server that holds a record of a later version."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from delayline.buffer.record import encode_rules
from delayline.clock import SystemClock
from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from mq.contract import Append
from mq.embedded.queue import EmbeddedQueue
from tests.acceptance.asking import answer_of, delivered, run, wait_for
from tests.fault.server import Server

LATER = encode_rules(Rules(parser=99))


@pytest.fixture
def stalled(tmp_path: Path) -> Iterator[Server]:
    queue = EmbeddedQueue.open(tmp_path / "data" / "queue", namespace="delayline", clock=SystemClock())
    queue.ensure_topic("bills")
    queue.ensure_buffer("bills", Rules())
    soon = [(b"delay-ms", b"1")]
    bodies = [encode_body(None, b"before", soon), LATER, encode_body(None, b"behind", soon)]
    queue.append([Append("delayline.buffer.bills", "0", body) for body in bodies]).result(timeout=10)
    queue.close()
    server = Server(tmp_path / "data")
    server.start()
    server.wait_ready()
    yield server
    server.kill()


def listed(server: Server) -> list[Any]:
    found: list[Any] = answer_of(run("shard", "list", "--json", url=server.url))["stalled"]
    return found


def test_a_stalled_shard_is_listed_inspected_and_made_to_go_on(stalled: Server, tmp_path: Path) -> None:
    url = stalled.url
    (one,) = wait_for(lambda: listed(stalled), bool)
    assert (one["topic"], one["partition"], one["reason"]) == ("bills", 0, "unknown_format")
    assert "bills.0 (unknown_format)" in httpx.get(f"{url}/readyz").json()["detail"]
    assert "unknown_format" in run("shard", "list", url=url).out
    inspected = run("shard", "inspect", "bills", "0", url=url)
    assert all(text in inspected.out for text in ("unknown_format", "dead letter", "a later version", "parser"))
    port = url.rpartition(":")[2]
    assert "bills 0: unknown_format" in run("doctor", api__port=port, data_dir=str(tmp_path / "other")).out
    assert run("shard", "skip", "bills", "0", url=url).code == 2
    asked = run("shard", "skip", "bills", "0", "--to-dead", url=url)
    assert (asked.code, "Standard input is no terminal" in asked.err) == (2, True)
    assert "Lost: " in run("shard", "skip", "bills", "0", "--to-dead", "--dry-run", url=url).out
    wrong = run("shard", "skip", "bills", "0", "--offset", "2", "--to-dead", "--yes", url=url)
    assert (wrong.code, "not one that it could go on at" in wrong.err) == (4, True)
    done = run("shard", "skip", "bills", "0", "--offset", "1", "--to-dead", "--yes", url=url)
    assert done == (0, "bills.0 continues\n", "")
    assert wait_for(lambda: delivered(url, "bills"), lambda found: len(found) == 2) == ["before", "behind"]
    assert run("shard", "skip", "bills", "0", "--to-dead", "--yes", url=url).code == 4
    for topic, partition in (("nothing", "0"), ("bills", "99"), ("bills", "x")):
        assert run("shard", "inspect", topic, partition, url=url).code == 3
        assert run("shard", "skip", topic, partition, "--to-dead", "--yes", url=url).code == 3
    assert wait_for(lambda: listed(stalled), lambda found: not found) == []
    assert run("shard", "list", url=url).out == "no shard has stalled\n"
    (dead,) = answer_of(run("dead", "list", "bills", "--json", url=url))["messages"]
    assert dead["error_code"] == "skipped"
