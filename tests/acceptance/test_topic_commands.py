"""The commands about topics and their dead letters."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from delayline.clock import SystemClock
from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from delayline.times import format_moment
from mq.contract import Append
from mq.embedded.queue import EmbeddedQueue
from tests.acceptance.asking import answer_of, delivered, run, wait_for
from tests.acceptance.scripted import answering
from tests.fault.server import Server

UNREADABLE = [(b"delay", b"soon")]
LETTERS = 3
HOUR_MS = 3_600_000


def test_a_topic_is_shown_with_each_of_its_shards(shared: Server) -> None:
    run("send", "sharded", "x", "--delay", "1h", "--partition", "2", url=shared.url)

    def pending() -> list[list[str]]:
        ran = run("topics", "sharded", url=shared.url)
        assert ran.code == 0, ran
        return [line.split()[:3] for line in ran.out.splitlines() if re.match(r" \d ", line)]

    rows = [["0", "running", "0"], ["1", "running", "0"], ["2", "running", "1"], ["3", "running", "0"]]
    assert wait_for(pending, lambda found: found == rows) == rows
    answer = answer_of(run("topics", "show", "sharded", "--json", url=shared.url))
    assert (answer["name"], len(answer["shards"])) == ("sharded", 4)


def test_a_topic_that_is_not_there_is_not_found(shared: Server) -> None:
    assert [run(*words, "nowhere", url=shared.url).code for words in (["topics"], ["dead", "list"])] == [3, 3]


def test_a_histogram_has_a_bar_for_each_bucket_with_messages(shared: Server) -> None:
    start_ms = (SystemClock().now_ms() // HOUR_MS + 24) * HOUR_MS
    for minutes in (10, 20, 130):
        run("send", "counted", "x", "--at", str(start_ms + minutes * 60_000), url=shared.url)
    options = ["--bucket", "1h", "--from", str(start_ms), "--to", str(start_ms + 4 * HOUR_MS)]
    rows = [
        ["due_from", "messages"],
        ["before", "0"],
        [format_moment(start_ms), "2", "#" * 40],
        [format_moment(start_ms + 2 * HOUR_MS), "1", "#" * 20],
        ["after", "0"],
    ]

    def shown() -> list[list[str]]:
        return [line.split() for line in run("histogram", "counted", *options, url=shared.url).out.splitlines()]

    assert wait_for(shown, lambda found: found == rows) == rows


def test_a_paused_topic_delivers_nothing_until_it_is_resumed(shared: Server) -> None:
    run("send", "pausing", "first", "--delay", "1h", url=shared.url)
    assert run("pause", "pausing", url=shared.url) == (0, "pausing  paused\n", "")
    sent = answer_of(run("send", "pausing", "x", "--delay", "1ms", "--json", url=shared.url))
    wait_for(lambda: run("topics", "pausing", url=shared.url).out, lambda out: "due_backlog    1 " in out)
    assert answer_of(run("topics", "pausing", "--json", url=shared.url))["paused"] is True
    assert delivered(shared.url, "pausing") == []
    assert answer_of(run("resume", "pausing", "--json", url=shared.url))["state"] == "resumed"
    assert wait_for(lambda: delivered(shared.url, "pausing"), bool) == ["x"]
    assert answer_of(run("get", sent["message_id"], "--json", url=shared.url))["state"] == "delivered"


def test_a_topic_is_purged_only_after_confirmation(shared: Server) -> None:
    for _ in range(2):
        run("send", "purging", "x", "--delay", "1h", url=shared.url)
    counted = wait_for(lambda: run("purge", "purging", "--dry-run", url=shared.url), lambda ran: ran.out[0] == "2")
    asked = run("purge", "purging", url=shared.url)
    waiting = answer_of(run("list", "--topic", "purging", "--json", url=shared.url))["messages"]
    done = run("purge", "purging", "--yes", url=shared.url)
    assert counted == (0, "2 messages would be cancelled\n", "")
    assert (asked.code, asked.out, len(waiting)) == (2, "", 2)
    assert "Cancel 2 messages, all that wait in purging? Standard input is no terminal" in asked.err
    assert (done.code, done.out) == (0, "2 messages cancelled\n")
    assert re.fullmatch(r"until \S+Z: delayline undo purging \S+\n", done.err)
    assert run("list", "--topic", "purging", url=shared.url).out == "no messages\n"


def test_a_pause_that_is_not_decided_everywhere_is_no_success() -> None:
    missing = [{"topic": "t", "partition": 1}]
    answer = {"topic": "t", "state": "paused", "shards": 2, "complete": False, "missing_shards": missing}
    with answering([(202, answer)]) as server:
        ran = run("pause", "t", url=server.url)
    assert (ran.code, "no owner answers for t partition 1" in ran.err) == (1, True)


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose topic `bills` has messages that cannot be read: the API would refuse them."""
    folder: Path = tmp_path_factory.mktemp("dead") / "data"
    queue = EmbeddedQueue.open(folder / "queue", namespace="delayline", clock=SystemClock())
    queue.ensure_topic("bills")
    queue.ensure_buffer("bills", Rules())
    records = [encode_body(b"7", str(number).encode(), UNREADABLE) for number in range(LETTERS)]
    queue.append([Append("delayline.buffer.bills", "0", record) for record in records]).result(timeout=10)
    queue.close()
    server = Server(folder)
    server.start()
    server.wait_ready()
    wait_for(lambda: letters(server), lambda found: len(found) == LETTERS)
    yield server
    server.kill()


def letters(server: Server, *options: str) -> list[Any]:
    found: list[Any] = answer_of(run("dead", "list", "bills", "--json", *options, url=server.url))["messages"]
    return found


def test_dead_letters_are_listed_with_why_and_sent_again(dying: Server) -> None:
    table = run("dead", "list", "bills", "--limit", "2", url=dying.url)
    assert table.out.splitlines()[0].split()[:4] == ["id", "dead_at", "error_code", "reason"]
    assert len(re.findall(r"expected a duration", table.out)) == 2
    assert table.err == "there may be more: --limit N, or --all\n"
    one = letters(dying)[0]
    counts = run("dead", "redrive", "bills", "--all", "--dry-run", url=dying.url)
    some = run("dead", "redrive", "bills", one["id"], "0.999", url=dying.url)
    everything = run("dead", "redrive", "bills", "--all", url=dying.url)
    later = answer_of(run("dead", "redrive", "bills", one["id"], "--delay", "1h", "--json", url=dying.url))
    assert counts == (0, f"{LETTERS} letters would be sent\n", "")
    assert some == (3, "1 letter sent\n", "delayline: bills has no such letters: 0.999\n")
    assert everything == (0, f"{LETTERS} letters sent\n", "")
    assert later["redriven"] == 1
    assert sorted(delivered(dying.url, "bills")) == sorted([one["value"], *map(str, range(LETTERS))])
    assert letters(dying, "--all") == letters(dying)


def test_redriving_all_goes_on_with_one_moment_as_its_end() -> None:
    now = "2026-01-01T00:00:00.000Z"
    first = {"matched": 1000, "redriven": 1000, "not_found": [], "next_after": "0:9", "dry_run": False}
    last = {**first, "matched": 2, "redriven": 2, "next_after": None}
    with answering([(200, {"now": now}), (200, first), (200, last)]) as server:
        ran = run("dead", "redrive", "bills", "--all", url=server.url)
    assert ran == (0, "1002 letters sent\n", "")
    assert [asked.body["after"] for asked in server.asked[1:]] == [None, "0:9"]
    assert [asked.body["until"] for asked in server.asked[1:]] == [now, now]
