"""Questions about messages, and operations on them, asked of a process that owns nothing: the owner answers."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.asking import HTTP, send, wait_for
from tests.acceptance.conftest import MakeServer
from tests.acceptance.on_kafka import asked
from tests.brokers.authority import Authority
from tests.fault.server import Server
from tests.tiers import sample

Running = Callable[..., list[Server]]


def answered(ask: Callable[[], httpx.Response], within_s: float = 60.0) -> httpx.Response:
    """The first answer that is not "ask again", which has `Retry-After`."""

    def checked() -> httpx.Response:
        answer = ask()
        if answer.status_code == 503:
            assert answer.json()["type"] == "/problems/owner-unavailable"
            assert answer.headers["retry-after"] == "1"
        return answer

    return wait_for(checked, lambda answer: answer.status_code != 503, within_s)


def operate(url: str, method: str, message_id: str, **options: Any) -> httpx.Response:
    return HTTP.request(method, f"{url}/v1/messages/{message_id}", timeout=20, **options)


def state(url: str, message_id: str) -> str:
    return str(answered(lambda: asked(url, message_id)).json()["state"])


def remembered(url: str, message_id: str) -> str:
    """Its state, or that nobody knows any more how it ended."""
    found = answered(lambda: asked(url, message_id))
    return "gone" if found.status_code == 410 else str(found.json()["state"])


def pending(url: str, topic: str, count: int) -> list[str]:
    """Ids of so many messages, due in an hour and indexed by their owners."""
    ids = [message["message_id"] for message in send(url, topic, ["x"] * count, delay="1h")]
    for one in ids:
        assert wait_for(lambda one=one: state(url, one), lambda found: found == "pending") == "pending"
    return ids


def indexed_by(server: Server, topic: str) -> int:
    """How many messages of the topic wait in the process, which are those of the shards that it owns."""
    name = f'delayline_pending_messages{{topic="{topic}"}} '
    found = [line for line in HTTP.get(f"{server.url}/metrics").text.splitlines() if line.startswith(name)]
    return int(float(found[0].removeprefix(name))) if found else 0


def shared(topic: str, count: int, *servers: Server) -> None:
    """Wait until every process has its share of the messages."""
    shares = [count // len(servers)] * len(servers)
    assert (
        wait_for(lambda: [indexed_by(server, topic) for server in servers], lambda found: found == shares) == shares
    )


def surveyed(url: str, topic: str) -> tuple[list[str], int, int, bool]:
    """The messages of the topic as they are listed, how many are counted, and summed, and whether that is all."""
    page = HTTP.get(f"{url}/v1/messages", params={"topic": topic}).json()
    counts = HTTP.get(f"{url}/v1/topics/{topic}/histogram", params={"bucket": "30m"}).json()
    figures = HTTP.get(f"{url}/v1/topics/{topic}").json()
    listed = sorted(message["message_id"] for message in page["messages"])
    is_all = page["complete"] and counts["complete"] and figures["complete"]
    return listed, sum(counts["counts"]), figures["pending"], is_all


def test_over_mutual_tls_processes_answer_each_other_and_none_without(
    running: Running, make_server: MakeServer, topic: str, tmp_path: Path
) -> None:
    """And no secret. What the process without TLS reads names the settings; a wrong answer it never gets."""
    ca = Authority(tmp_path, "internal")
    tls = {"internal__certfile": str(ca.issue("delayline")), "internal__cafile": str(ca.file)}
    api, _, _ = running("api", "worker", "serve", **tls)
    (id,) = pending(api.url, topic, 1)
    own = {"data_dir", "api__port", *tls}
    same = {name: value for name, value in api.settings.items() if name not in own}
    plain = make_server("plain", command="api", **same)
    plain.start()
    plain.wait_ready()
    answer = asked(plain.url, id)
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/owner-unavailable")
    assert "internal.certfile and internal.cafile" in answer.json()["detail"]
    listed, _, _, is_all = surveyed(plain.url, topic)
    assert (listed, is_all) == ([], False)
    assert state(api.url, id) == "pending"


def test_every_process_answers_for_the_shards_of_all(running: Running, topic: str) -> None:
    api, worker, server = running("api", "worker", "serve")
    ids = pending(api.url, topic, 8)
    shared(topic, 8, worker, server)
    whole = (sorted(ids), 8, 8, True)
    for url in (api.url, server.url):
        assert [state(url, one) for one in ids] == ["pending"] * 8
        assert wait_for(lambda url=url: surveyed(url, topic), lambda found: found == whole) == whole
        nothing = asked(url, f"orders-none.0.0.{ids[0].rpartition('.')[2]}")
        assert (nothing.status_code, nothing.json()["type"]) == (404, "/problems/not-found")


def test_processes_on_several_machines_share_a_secret(running: Running, topic: str) -> None:
    open_to_others = {"internal__host": "0.0.0.0", "internal__advertised_host": "localhost"}
    api, worker = running("api", "worker", internal__secret="sixteen letters!", **open_to_others)
    (known,) = pending(api.url, topic, 1)
    assert operate(api.url, "DELETE", known).status_code == 204
    assert "/ask/" not in api.log.read_text(), "no line for each question"
    assert "sixteen letters!" not in api.log.read_text() + worker.log.read_text()


@pytest.mark.parametrize("asked", sample(["api", "serve"], every=2))
def test_an_operation_is_decided_by_the_owner_in_another_process(running: Running, topic: str, asked: str) -> None:
    asked_one, *workers = running(asked, *(["worker", "worker"] if asked == "api" else ["worker"]))
    url, ids = asked_one.url, pending(asked_one.url, topic, 8)
    shared(topic, 8, *(workers if asked == "api" else [asked_one, *workers]))
    cancelled, moved = ids[:4], ids[4:]
    for one in cancelled:
        assert operate(url, "DELETE", one).status_code == 204
        assert state(url, one) == "cancelled"
    for one in moved:
        answer = operate(url, "PATCH", one, json={"schedule": {"delay": "2h"}})
        assert (answer.status_code, answer.json()["version"]) == (200, 1)
        assert HTTP.post(f"{url}/v1/messages/{one}:deliver", timeout=20).status_code == 204
        assert wait_for(lambda one=one: state(url, one), lambda found: found == "delivered") == "delivered"
        late = operate(url, "DELETE", one)
        assert (late.status_code, late.json()["outcome"]["state"]) == (409, "delivered")


@pytest.mark.parametrize("how", sample([signal.SIGKILL, signal.SIGSTOP], every=2))
def test_when_an_owner_dies_or_freezes_the_next_one_answers(
    running: Running, topic: str, how: signal.Signals
) -> None:
    api, first, second = running("api", "worker", "worker")
    ids = pending(api.url, topic, 8)
    shared(topic, 8, first, second)
    os.kill(first.pid, how)
    with ThreadPoolExecutor(3) as threads:  # the group waits six seconds for a member
        page = threads.submit(HTTP.get, f"{api.url}/v1/messages", params={"topic": topic})
        answers = threads.map(lambda one: asked(api.url, one).status_code, ids[:2])  # one of each partition
        assert sorted(answers) == [200, 503]
        answer = page.result()
        assert answer.status_code == 200, answer.text
        listed = answer.json()
        assert (len(listed["messages"]), listed["complete"], len(listed["missing_shards"])) == (4, False, 1)
    assert [state(api.url, one) for one in ids] == ["pending"] * 8
    assert [answered(lambda one=one: operate(api.url, "DELETE", one)).status_code for one in ids] == [204] * 8
    if how is signal.SIGSTOP:
        os.kill(first.pid, signal.SIGCONT)  # it joins again, and may get shards whose history it has not seen
    assert {remembered(api.url, one) for one in ids} <= {"cancelled", "gone"}
    assert {answered(lambda one=one: operate(api.url, "DELETE", one)).status_code for one in ids} <= {204, 410}
