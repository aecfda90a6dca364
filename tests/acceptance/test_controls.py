"""Pausing, resuming and purging a topic of a real worker."""

import time
from typing import Any

from tests.acceptance.asking import HTTP, delivered, run, send, wait_delivered, wait_for
from tests.fault.server import Server


def _post(server: Server, topic: str, kind: str, **query: str) -> Any:
    answer = HTTP.post(f"{server.url}/v1/topics/{topic}:{kind}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _topic(server: Server, topic: str) -> Any:
    return HTTP.get(f"{server.url}/v1/topics/{topic}").json()


def test_a_paused_topic_delivers_nothing_until_it_is_resumed(shared: Server) -> None:
    send(shared.url, "paused", ["first"], delay="1h")
    assert _post(shared, "paused", "pause")["shards"] == 4
    send(shared.url, "paused", ["a", "b"], delay="100ms")
    send(shared.url, "running", ["c"], delay="100ms")
    assert wait_delivered(shared, ["c"], "running") == ["c"]
    time.sleep(0.5)
    assert delivered(shared.url, "paused") == []
    assert wait_for(lambda: _topic(shared, "paused"), lambda topic: topic["paused"])["paused"] is True
    _post(shared, "paused", "resume")
    assert wait_delivered(shared, ["a", "b"], "paused") == ["a", "b"]
    assert wait_for(lambda: _topic(shared, "paused"), lambda topic: not topic["paused"])["paused"] is False


def test_a_purge_cancels_all_that_waits_and_counts_it(shared: Server) -> None:
    for _ in range(3):
        send(shared.url, "purged", [str(number) for number in range(900)], delay="1h")
    counted = wait_for(
        lambda: _post(shared, "purged", "purge", dry_run="true"), lambda found: found["matched"] == 2700
    )
    purged = _post(shared, "purged", "purge")
    after = send(shared.url, "purged", ["after"], delay="1s")[0]

    assert (counted["matched"], counted["cancelled"]) == (2700, 0)
    assert (purged["cancelled"], purged["complete"]) == (2700, True)
    assert wait_delivered(shared, ["after"], "purged") == ["after"]
    assert _post(shared, "purged", "purge")["cancelled"] == 0
    assert HTTP.get(f"{shared.url}/v1/messages/{after['message_id']}").json()["state"] == "delivered"


def test_a_purge_is_undone_once_by_the_command_that_it_has_shown(shared: Server) -> None:
    send(shared.url, "undone", [str(number) for number in range(900)], delay="1h")
    send(shared.url, "undone", ["soon"], delay="4s")
    wait_for(lambda: _topic(shared, "undone")["pending"], lambda pending: pending == 901)
    assert run("undo", "undone", url=shared.url).out == "nothing can be undone\n"
    purged = run("purge", "undone", "--yes", url=shared.url)
    listed = run("undo", "undone", url=shared.url).out.splitlines()
    command = purged.err.strip().partition(": delayline ")[2].split()
    undone, again = (run(*command, url=shared.url) for _ in range(2))

    assert (purged.out, command[:2]) == ("901 messages cancelled\n", ["undo", "undone"])
    assert [row.split()[:2] for row in listed] == [["id", "of"], [command[2], "purge"]]
    assert (undone.out, again.out) == ("901 messages back\n", "0 messages back, 901 messages before\n")
    assert wait_for(lambda: _topic(shared, "undone")["pending"], lambda pending: pending >= 900) >= 900
    assert wait_delivered(shared, ["soon"], "undone") == ["soon"]


def test_a_bulk_cancel_is_undone_and_one_without_copies_is_not(shared: Server) -> None:
    send(shared.url, "filtered", ["a", "b"], delay="1h")
    wait_for(lambda: _topic(shared, "filtered")["pending"], lambda pending: pending == 2)
    cancelled = run("cancel", "--topic", "filtered", "--yes", url=shared.url)
    assert run(*cancelled.err.strip().partition(": delayline ")[2].split(), url=shared.url).out == "2 messages back\n"
    wait_for(lambda: _topic(shared, "filtered")["pending"], lambda pending: pending == 2)
    assert run("purge", "filtered", "--yes", "--no-undo", url=shared.url).err == ""
    refused = run("undo", "filtered", "0.999", url=shared.url)
    assert (refused.code, "has no undo '0.999'" in refused.err) == (3, True)
