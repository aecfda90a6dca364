"""What the console shows when not all is well."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.conftest import OpenPage, Send, answering, read_again
from tests.fault.server import Server


@pytest.mark.thorough
def test_a_server_that_goes_is_missed_and_its_return_is_noticed(open_page: OpenPage, tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.start()
    server.wait_ready()
    page = open_page(url=server.url)
    expect(page.get_by_text("No topic yet. The first message makes one.")).to_be_visible()
    server.kill()
    read_again(page)
    try:
        expect(page.locator(".banner")).to_contain_text("The server does not answer")
        expect(page.locator(".live")).to_contain_text("No answer since")
        expect(page.locator("#announcer")).to_have_text("The server does not answer. What is shown is old.")
        expect(page.get_by_text("No topic yet. The first message makes one.")).to_be_visible()
        server.start()
        server.wait_ready()
        read_again(page)
        expect(page.locator(".live")).to_contain_text("Live, as of")
        expect(page.locator(".banner")).to_be_empty()
        expect(page.locator("#announcer")).to_have_text("The server answers again.")
    finally:
        server.kill()


def test_an_act_without_an_answer_is_not_called_done(open_page: OpenPage, send: Send) -> None:
    sent = send("x", delay="1h")
    page = open_page(f"#/messages/{sent['message_id']}")
    page.get_by_role("button", name="Cancel").click()
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_role("button", name="Cancel the message").click()
    expect(page.get_by_role("dialog")).to_contain_text("It is unknown whether the server did what you asked for.")


@pytest.mark.thorough
def test_a_problem_of_the_server_is_shown_as_it_is(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x")
    page = open_page()
    expect(page.get_by_role("link", name=topic)).to_be_visible()
    problem = {
        "type": "/problems/queue-unavailable",
        "title": "The queue is away",
        "status": 503,
        "detail": "<b>brokers</b> do not answer",
        "request_id": "r-17",
    }
    answering(page, "/v1/topics", problem, 503)
    read_again(page)
    banner = page.locator(".banner")
    expect(banner).to_contain_text("The queue is away")
    expect(banner).to_contain_text("<b>brokers</b> do not answer")
    expect(banner).to_contain_text("503 queue-unavailable, request r-17")
    expect(page.get_by_role("link", name=topic)).to_be_visible()
    page.unroute_all()
    read_again(page)
    expect(banner).to_be_empty()


@pytest.mark.thorough
def test_an_answer_of_something_in_between_is_distinguished_from_one_of_the_server(open_page: OpenPage) -> None:
    page = open_page()
    page.route("**/v1/topics", lambda route: route.fulfill(status=502, body="<html>Bad Gateway"))
    read_again(page)
    expect(page.locator(".banner")).to_contain_text("status 502 from 127.0.0.1")
    expect(page.locator(".banner")).to_contain_text("without a problem document")


@pytest.mark.thorough
def test_stalled_shards_stand_first_with_their_reason(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x")
    page = open_page()
    stalled = {"partition": 2, "reason": "target", "detail": "not enough replicas", "retry_in_ms": 4000}
    row = {
        "name": topic,
        "partitions": 4,
        "delay_enabled": True,
        "pending": 60,
        "due_backlog": 14,
        "oldest_due_at": "2026-01-01T00:00:00.000Z",
        "next_due_at": "2026-01-01T00:00:00.000Z",
        "ingest_lag": 3,
        "stalled": [stalled],
        "complete": False,
        "missing_shards": [{"topic": topic, "partition": 3}],
    }
    answering(page, "/v1/topics", {"topics": [row], "as_of": "2026-01-01T00:00:10.000Z", "complete": False})
    read_again(page)
    notice = page.get_by_role("region", name="One shard has stalled")
    expect(notice).to_contain_text(f"{topic}.2 target: not enough replicas tried again in 4.0 s")
    expect(page.get_by_text(f"No owner answers for these shards right now: {topic}.3")).to_be_visible()
    expect(page.locator(".figures")).to_contain_text("the oldest 10 s late")
    expect(page.locator(".figures .warn")).to_contain_text("14")
    expect(page.locator(".live")).to_contain_text("Live, as of 01:00:10")


@pytest.mark.thorough
def test_what_an_installation_has_not_is_unavailable_and_not_broken(
    open_page: OpenPage, send: Send, topic: str
) -> None:
    send("x")
    page = open_page(f"#/topics/{topic}")
    refusal = {"type": "/problems/not-supported", "title": "Not built yet", "status": 501, "detail": "not here"}
    for path in ("/v1/topics/*/dead*", "/v1/messages?*", "/v1/topics/*/histogram*"):
        answering(page, path, refusal, 501)
    for place in (f"#/topics/{topic}/dead", "#/messages", f"#/topics/{topic}"):
        page.goto(page.url.partition("#")[0] + place)
        notice = page.locator(".notice.unavailable").first
        expect(notice).to_contain_text("Not available on this installation")
        expect(notice).to_contain_text("not here")
        expect(page.locator(".banner")).to_be_empty()


@pytest.mark.thorough
def test_an_answer_that_makes_no_sense_stops_nothing(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x")
    page = open_page()
    page.evaluate("console.error = () => {}")
    answering(page, "/v1/topics", {"topics": 7})
    read_again(page)
    expect(page.locator(".banner")).to_contain_text("The console cannot make sense of the answer")
    page.unroute_all()
    read_again(page)
    expect(page.locator(".banner")).to_be_empty()
    expect(page.get_by_role("link", name=topic)).to_be_visible()
