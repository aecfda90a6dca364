"""The commands about messages: list, get, cancel, reschedule, deliver."""

import re
from typing import Any

import pytest

from tests.acceptance.asking import answer_of, run, wait_for
from tests.acceptance.scripted import answering
from tests.fault.server import Server
from tests.tiers import sample


def sent(server: Server, topic: str, *options: str) -> Any:
    return answer_of(run("send", topic, "x", "--json", *options, url=server.url))


def state_of(server: Server, message_id: str) -> Any:
    return answer_of(run("get", message_id, "--json", url=server.url))["state"]


def listed(server: Server, *options: str) -> list[Any]:
    """The messages once they are indexed."""
    found = wait_for(lambda: answer_of(run("list", "--json", *options, url=server.url))["messages"], bool)
    return [message["message_id"] for message in found]


def test_an_own_id_is_sent_once_and_names_its_message(shared: Server) -> None:
    first = sent(shared, "owning", "--delay", "1h", "--own-id", "o/7")
    again = run("send", "owning", "x", "--delay", "2h", "--own-id", "o/7", url=shared.url)
    found = answer_of(run("get", "--topic", "owning", "--own-id", "o/7", "--json", url=shared.url))
    assert again.out.startswith(f"{first['message_id']}  due ")
    assert again.out.endswith("(it waits already: nothing was sent)\n")
    assert (found["message_id"], found["due_at"]) == (first["message_id"], first["due_at"])


def test_on_conflict_replace_takes_the_place_of_the_first(shared: Server) -> None:
    first = sent(shared, "replacing", "--delay", "1h", "--own-id", "o")
    second = sent(shared, "replacing", "--delay", "2h", "--own-id", "o", "--on-conflict", "replace")
    assert second["message_id"] != first["message_id"]
    assert listed(shared, "--topic", "replacing") == [second["message_id"]]


def test_get_shows_own_id_occurrence_expiry_and_history(shared: Server) -> None:
    message = sent(shared, "getting", "--every", "1h", "--times", "3", "--ttl", "30m", "--own-id", "o-1")
    ran = run("get", message["message_id"], url=shared.url)
    assert re.search(r"^ *own_id +o-1 *$", ran.out, re.MULTILINE), ran
    assert re.search(r"^ *repeat .*every=1h .*times_left=3 .*occurrence=1 *$", ran.out, re.MULTILINE), ran
    assert re.search(r"^ *expires_at +\d", ran.out, re.MULTILINE), ran
    assert re.search(r"^ *\S+Z +accepted +client +0 *$", ran.out, re.MULTILINE), ran


@pytest.fixture(scope="module")
def filtered(shared: Server) -> dict[str, Any]:
    """Three messages that wait, by what they are for."""
    wanted = {
        "early": ["--delay", "1h"],
        "late": ["--delay", "10d", "--own-id", "o"],
        "keyed": ["--delay", "900d", "--key", "k"],
    }
    made = {name: sent(shared, "filtered", *options) for name, options in wanted.items()}
    wait_for(lambda: len(listed(shared, "--topic", "filtered")), lambda count: count == len(made))
    return made


@pytest.mark.parametrize(
    ("options", "expected"),
    sample(
        [
            ([], ["early", "late", "keyed"]),
            (["--key", "k"], ["keyed"]),
            (["--own-id", "o"], ["late"]),
            (["--due-before", "late"], ["early"]),
            (["--due-after", "late"], ["late", "keyed"]),
            (["--limit", "2"], ["early", "late"]),
        ],
        every=3,
    ),
)
def test_list_has_what_the_filters_select_by_due_time(
    filtered: dict[str, Any], shared: Server, options: list[str], expected: list[str]
) -> None:
    given = [filtered["late"]["due_at"] if option == "late" else option for option in options]
    assert listed(shared, "--topic", "filtered", *given) == [filtered[name]["message_id"] for name in expected]


def test_list_is_a_table_and_shows_where_there_is_more(filtered: dict[str, Any], shared: Server) -> None:
    ran = run("list", "--topic", "filtered", "--limit", "2", url=shared.url)
    early, late = filtered["early"], filtered["late"]
    assert [line.split() for line in ran.out.splitlines()] == [
        ["message_id", "due_at", "own_id", "key"],
        [early["message_id"], early["due_at"]],
        [late["message_id"], late["due_at"], "o"],
    ]
    assert ran.err == "there may be more: --limit N, or --all\n"
    assert run("list", "--topic", "filtered", "--all", url=shared.url).err == ""


def test_what_ended_is_listed_with_how_and_when(shared: Server) -> None:
    message = sent(shared, "ended", "--delay", "1h")
    run("cancel", message["message_id"], url=shared.url)
    ran = run("list", "--topic", "ended", "--state", "cancelled", url=shared.url)
    assert re.search(rf"^ *{message['message_id']} +\S+Z +cancelled +\S+Z", ran.out, re.MULTILINE), ran


def page(ids: list[str], token: str | None, missing: list[int]) -> dict[str, Any]:
    return {
        "messages": [{"message_id": one, "due_at": "2026-01-01T00:00:00.000Z"} for one in ids],
        "next_page_token": token,
        "as_of": "2026-01-01T00:00:00.000Z",
        "complete": not missing,
        "missing_shards": [{"topic": "orders", "partition": number} for number in missing],
    }


def test_short_pages_are_followed_and_what_is_missing_is_reported_once() -> None:
    pages = [page(["a"], "t1", [3]), page([], "t2", [3]), page(["b", "c"], "t3", [])]
    with answering([(200, one) for one in pages]) as server:
        ran = run("list", "--limit", "3", url=server.url)
    assert [line.split()[0] for line in ran.out.splitlines()] == ["message_id", "a", "b", "c"]
    assert ran.err.splitlines() == [
        "incomplete: no owner answers for orders partition 3",
        "there may be more: --limit N, or --all",
    ]
    sizes = [re.findall(r"page_size=(\d+)|page_token=(\w+)", one.path) for one in server.asked]
    assert sizes == [[("3", "")], [("2", ""), ("", "t1")], [("2", ""), ("", "t2")]]


def test_all_goes_on_to_the_last_page() -> None:
    with answering([(200, page(["a"], "t1", [])), (200, page(["b"], None, [0]))]) as server:
        answer = answer_of(run("list", "--all", "--json", url=server.url))
    assert [message["message_id"] for message in answer["messages"]] == ["a", "b"]
    assert (answer["complete"], answer["missing_shards"]) == (False, [{"topic": "orders", "partition": 0}])


def test_a_cancelled_message_stays_cancelled_and_a_delivered_one_is_a_conflict(shared: Server) -> None:
    waits = sent(shared, "cancelling", "--delay", "1h")["message_id"]
    gone = sent(shared, "cancelling", "--delay", "1ms")["message_id"]
    wait_for(lambda: state_of(shared, gone), lambda state: state == "delivered")
    first, second, late = (run("cancel", one, url=shared.url) for one in (waits, waits, gone))
    assert (first, second) == (second, (0, f"{waits}  cancelled\n", ""))
    assert (late.code, late.out) == (4, "")
    assert "it was delivered at" in late.err
    assert state_of(shared, waits) == "cancelled"


def test_cancel_takes_an_own_id_and_forgets_it_with_its_message(shared: Server) -> None:
    message = sent(shared, "owned", "--delay", "1h", "--own-id", "o")["message_id"]
    named = ["--topic", "owned", "--own-id", "o"]
    assert run("cancel", *named, url=shared.url) == (0, "o  cancelled\n", "")
    assert state_of(shared, message) == "cancelled"
    assert run("cancel", *named, url=shared.url).code == 3


def test_reschedule_moves_a_message_and_minds_the_version(shared: Server) -> None:
    message = sent(shared, "moving", "--delay", "1h")["message_id"]
    moved = run("reschedule", message, "--delay", "9d", "--if-match", "0", url=shared.url)
    stale = run("reschedule", message, "--delay", "1s", "--if-match", "0", url=shared.url)
    assert re.fullmatch(rf"{message}  due \S+ \S+ \(in 9\.0 d\)  version 1\n", moved.out), moved
    assert (stale.code, stale.out) == (4, "")
    assert "it has version 1" in stale.err
    assert answer_of(run("get", message, "--json", url=shared.url))["version"] == 1


def test_cancel_of_another_version_is_a_conflict(shared: Server) -> None:
    message = sent(shared, "versions", "--delay", "1h")["message_id"]
    assert run("cancel", message, "--if-match", "3", url=shared.url).code == 4
    assert state_of(shared, message) in ("accepted", "pending")


def test_deliver_delivers_now(shared: Server) -> None:
    message = sent(shared, "now", "--delay", "1h")["message_id"]
    assert run("deliver", message, url=shared.url) == (0, f"{message}  due now, on its way\n", "")
    assert wait_for(lambda: state_of(shared, message), lambda state: state == "delivered") == "delivered"


def test_an_operation_that_is_not_decided_is_no_success() -> None:
    stored = {"operation_id": "op~orders.3.9", "state": "accepted", "target": "orders.3.1.1767225630000"}
    with answering([(202, stored)] * 2) as server:
        ran = run("cancel", "orders.3.1.1767225630000", url=server.url)
        as_json = run("cancel", "orders.3.1.1767225630000", "--json", url=server.url)
    assert (ran.code, ran.out) == (1, "")
    assert "`delayline get op~orders.3.9`" in ran.err
    assert (as_json.code, '"op~orders.3.9"' in as_json.out) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    sample(
        [
            (["cancel"], "which message? Give its id, or --topic and --own-id"),
            (["cancel", "a", "--topic", "t"], "which message?"),
            (["cancel", "--own-id", "o"], "which message?"),
            (["cancel", "a", "--dry-run"], "are for all messages of a --topic"),
            (["cancel", "a", "--key", "k"], "are for all messages of a --topic"),
            (["cancel", "--topic", "t", "--if-match", "1"], "--if-match is for one message"),
            (["reschedule", "a"], "to which time? Give --delay or --at"),
            (["get", "--topic", "t"], "which message?"),
            (["send", "t", "x", "--idempotency-key", "ö"], "is not ASCII"),
            (["dead", "redrive", "t"], "which letters? Give their ids, or --all"),
            (["dead", "redrive", "t", "0.1", "--all"], "which letters?"),
        ],
        every=4,
    ),
)
def test_what_is_not_clear_is_not_done(arguments: list[str], sentence: str) -> None:
    with answering([]) as server:
        ran = run(*arguments, url=server.url)
    assert (ran.code, ran.out, server.asked) == (2, "", [])
    assert sentence in ran.err


def many(matched: int, cancelled: int = 0, late: int = 0, unknown: int = 0, *, dry: bool = False) -> dict[str, Any]:
    counts = {"matched": matched, "cancelled": cancelled, "too_late": late, "unknown": unknown, "dry_run": dry}
    return {**counts, "complete": True, "missing_shards": [], "undo": None}


def test_many_are_cancelled_only_after_confirmation() -> None:
    answers = [many(3, dry=True), many(3, dry=True), many(3, 2, 1), many(3, 1, 0, 2)]
    arguments = ["cancel", "--topic", "t", "--key", "7", "--due-after", "soon", "--due-before", "1767225630000"]
    with answering([(200, one) for one in answers]) as server:
        asked, dry, done, unclear = (
            run(*arguments, *more, url=server.url) for more in ([], ["--dry-run"], ["--yes"], ["--yes"])
        )
    assert (asked.code, asked.out) == (2, "")
    assert "Cancel 3 messages of t? Standard input is no terminal: use --yes to do it, or --dry-run" in asked.err
    assert dry == (0, "3 messages would be cancelled\n", "")
    assert done == (0, "2 of 3 messages cancelled, 1 too late\n", "")
    assert (unclear.code, "of 2 messages it is not known" in unclear.err) == (1, True)
    body = {"filter": {"topic": "t", "key": "7", "due_after": "soon", "due_before": 1767225630000}, "undo": True}
    assert [one[:2] for one in server.asked] == [("POST", "/v1/messages:cancel")] * 4
    assert [one.body for one in server.asked] == [{**body, "dry_run": dry} for dry in (True, True, False, False)]


def test_a_key_used_for_another_request_is_a_conflict() -> None:
    problem = {"title": "Reused", "detail": "the key was used for another request", "status": 422}
    with answering([(422, problem)]) as server:
        ran = run("send", "t", "x", "--idempotency-key", "k", url=server.url)
    assert ran == (4, "", "delayline: Reused: the key was used for another request\n")


def test_all_messages_that_match_are_cancelled(shared: Server) -> None:
    for key in ("7", "7", "8"):
        sent(shared, "matching", "--delay", "1h", "--key", key)
    wait_for(lambda: len(listed(shared, "--topic", "matching")), lambda count: count == 3)
    dry = run("cancel", "--topic", "matching", "--key", "7", "--dry-run", url=shared.url)
    done = run("cancel", "--topic", "matching", "--key", "7", "--yes", url=shared.url)
    assert (dry.out, done.out) == ("2 messages would be cancelled\n", "2 of 2 messages cancelled\n")
    assert len(listed(shared, "--topic", "matching")) == 1


def test_a_cancel_of_many_that_ended_early_has_failed() -> None:
    early = {**many(9, 5), "complete": False, "missing_shards": [{"topic": "t", "partition": 2}]}
    with answering([(200, early)]) as server:
        ran = run("cancel", "--topic", "t", "--yes", url=server.url)
    assert (ran.code, ran.out) == (1, "5 of 9 messages cancelled\n")
    assert "no owner answers for t partition 2\n" in ran.err
    assert "it ended early" in ran.err


def test_a_send_that_is_repeated_with_its_key_sends_nothing_more(shared: Server) -> None:
    options = ["--delay", "1h", "--idempotency-key", "k-1"]
    first, second = (sent(shared, "repeated", *options) for _ in range(2))
    assert first["message_id"] == second["message_id"]
    assert listed(shared, "--topic", "repeated") == [first["message_id"]]
    other = run("send", "repeated", "y", *options, url=shared.url)
    assert (other.code, other.out) == (4, "")
