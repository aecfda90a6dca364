"""What is done by hand, and what the server answers to it."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.conftest import HTTP, OpenPage, Send, answering, read_again
from tests.fault.server import Server, read_topic


def state(server: Server, message_id: str) -> str:
    return str(HTTP.get(f"{server.url}/v1/messages/{message_id}").json()["state"])


def test_a_message_is_sent_and_leads_to_its_page(open_page: OpenPage, server: Server, topic: str) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Value", exact=True).fill('{"big": 12345678901234567890}')
    page.get_by_label("Key").fill("7")
    page.get_by_role("button", name="Add a header").click()
    page.get_by_label("Name").fill("src")
    page.get_by_label("Value", exact=True).nth(1).fill("console")
    page.get_by_label("Delay", exact=True).fill("1h30m")
    expect(page.locator(".preview")).to_have_text(re.compile(r"^Due \d{4}-.* in 1 h (30|29) m"))
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".notice.good")).to_contain_text("accepted")
    page.locator(".notice.good a").click()
    expect(page.locator("pre").nth(1)).to_have_text('{"big":12345678901234567890}')
    expect(page.get_by_role("row", name="src")).to_contain_text("console")


@pytest.mark.thorough
def test_a_message_without_a_delay_goes_straight_to_its_topic(
    open_page: OpenPage, server: Server, topic: str
) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_role("radio", name="Text", exact=True).check()
    page.get_by_label("Value", exact=True).fill("plain text")
    page.get_by_role("radio", name="Now", exact=True).check()
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".notice.good")).to_contain_text("straight to its topic")
    assert [record["value"] for record in read_topic(server.url, topic)] == ["plain text"]


@pytest.mark.thorough
def test_a_moment_is_meant_in_the_zone_that_is_shown(open_page: OpenPage, topic: str) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_role("radio", name="At a moment", exact=True).check()
    page.get_by_label("Moment", exact=True).fill("2035-07-01T14:00:00")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".notice.good time")).to_have_attribute("datetime", "2035-07-01T12:00:00.000Z")


@pytest.mark.thorough
def test_a_fault_stands_next_to_the_field_it_is_about(open_page: OpenPage, topic: str) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Value", exact=True).fill("1")
    delay = page.get_by_label("Delay", exact=True)
    delay.fill("soon")
    page.get_by_role("button", name="Send").click()
    detail = "expected a duration such as 90s, 1h30m or PT1H"
    expect(delay).to_have_attribute("aria-invalid", "true")
    expect(delay).to_be_focused()
    expect(delay).to_have_accessible_description(re.compile(re.escape(detail)))
    problem = page.locator(".answer .notice.problem")
    expect(problem).to_contain_text("The schedule is not valid")
    expect(problem).to_contain_text("400 invalid-schedule, request ")
    delay.fill("1h")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".notice.good")).to_be_visible()
    assert delay.get_attribute("aria-invalid") is None


@pytest.mark.thorough
def test_what_the_server_never_sees_is_shown_at_its_field_too(open_page: OpenPage) -> None:
    page = open_page("#/send")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_label("Topic")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Topic").fill("orders")
    page.get_by_label("Value", exact=True).fill("{not json")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_label("Value", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".answer .notice")).to_contain_text("The value is no JSON")


def opened(open_page: OpenPage, message_id: str, button: str) -> Page:
    page = open_page(f"#/messages/{message_id}")
    page.get_by_role("button", name=button).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    return page


def test_a_message_is_cancelled_after_it_was_asked_about(open_page: OpenPage, server: Server, send: Send) -> None:
    sent = send("x", delay="1h")
    page = opened(open_page, sent["message_id"], "Cancel")
    page.get_by_role("button", name="Leave it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert state(server, sent["message_id"]) == "pending"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the message").click()
    expect(page.locator(".state")).to_contain_text("cancelled")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert state(server, sent["message_id"]) == "cancelled"


@pytest.mark.thorough
def test_a_message_is_moved(open_page: OpenPage, send: Send) -> None:
    sent = send("x", delay="1h")
    page = opened(open_page, sent["message_id"], "Reschedule")
    page.get_by_role("radio", name="At a moment", exact=True).check()
    page.get_by_label("Moment", exact=True).fill("2035-07-01T14:00:00")
    page.get_by_role("button", name="Reschedule", exact=True).click()
    expect(page.locator(".facts time").first).to_have_attribute("datetime", "2035-07-01T12:00:00.000Z")
    expect(page.locator(".facts")).to_contain_text("Version1")


@pytest.mark.thorough
def test_a_dialog_stays_open_with_the_server_s_error(open_page: OpenPage, send: Send) -> None:
    sent = send("x", delay="1h")
    page = opened(open_page, sent["message_id"], "Reschedule")
    page.get_by_label("Delay from now").fill("whenever")
    page.get_by_role("button", name="Reschedule", exact=True).click()
    expect(page.get_by_label("Delay from now")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("dialog")).to_contain_text("The schedule is not valid")


@pytest.mark.thorough
def test_a_message_is_had_now(open_page: OpenPage, server: Server, send: Send, topic: str) -> None:
    sent = send("early", delay="1h")
    page = opened(open_page, sent["message_id"], "Deliver now")
    page.get_by_role("dialog").get_by_role("button", name="Deliver now").click()
    expect(page.locator(".state")).to_contain_text("delivered")
    assert [record["value"] for record in read_topic(server.url, topic)] == ["early"]


@pytest.mark.thorough
def test_who_is_too_late_to_cancel_hears_how_it_ended(open_page: OpenPage, send: Send, server: Server) -> None:
    sent = send("x", delay="1h")
    page = opened(open_page, sent["message_id"], "Cancel")
    assert HTTP.post(f"{server.url}/v1/messages/{sent['message_id']}:deliver").status_code == 204
    page.get_by_role("button", name="Cancel the message").click()
    expect(page.get_by_role("dialog")).to_contain_text("409 already-terminal")
    expect(page.get_by_role("dialog")).to_contain_text("It is delivered since ")


@pytest.mark.thorough
def test_a_repeat_is_previewed_with_its_next_times_and_sent(open_page: OpenPage, topic: str) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_role("radio", name="By cron").check()
    page.get_by_label("Cron", exact=True).fill("0 9 1 7 *")
    page.get_by_label("Time zone").fill("UTC")
    page.get_by_label("Times", exact=True).fill("3")
    times = page.locator(".preview time")
    expect(times).to_have_count(3)
    for time in times.all():
        expect(time).to_have_text(re.compile("-07-01 11:00:00$"))
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".notice.good time")).to_have_attribute("datetime", re.compile("-07-01T09:00:00.000Z$"))


@pytest.mark.thorough
def test_who_sends_an_own_id_that_waits_already_is_led_to_it(open_page: OpenPage, send: Send, topic: str) -> None:
    first = send("first", key="7", delay="1h", own_id="order-7")
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_label("Key").fill("7")
    page.get_by_label("Own id", exact=True).fill("order-7")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".notice.good")).to_contain_text("It waits already")
    expect(page.locator(".notice.good a")).to_have_text(first["message_id"])


@pytest.mark.thorough
def test_a_message_that_would_expire_before_it_is_due_is_refused_at_the_field(
    open_page: OpenPage, topic: str
) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_label("Expires at").fill("2020-07-01T14:00:00")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_label("Expires at")).to_have_attribute("aria-invalid", "true")


@pytest.mark.thorough
def test_a_schedule_that_cannot_be_is_shown_before_it_is_sent(open_page: OpenPage, topic: str) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Delay", exact=True).fill("4000d")
    expect(page.locator(".preview")).to_contain_text("3650d")


@pytest.mark.thorough
def test_what_cannot_be_done_here_cannot_be_pressed(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x", delay="1h")
    page = open_page(f"#/topics/{topic}")
    document = {"openapi": "3.1.0", "paths": {}, "components": {}}
    answering(page, "/openapi.json", document)
    page.reload()
    purge = page.get_by_role("button", name="Purge")
    expect(purge).to_have_attribute("aria-disabled", "true")
    expect(purge).to_have_accessible_name("Purge… (not available on this installation)")
    purge.click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.thorough
def test_all_that_match_are_counted_before_they_are_cancelled(
    open_page: OpenPage, server: Server, send: Send, topic: str
) -> None:
    ids = {key: [send("x", key=key, delay="1h")["message_id"] for _ in range(3)] for key in ("7", "8")}
    page = open_page(f"#/messages?topic={topic}&key=7")
    page.get_by_role("button", name="Cancel all that match").click()
    expect(page.get_by_role("dialog")).to_contain_text("3 messages match now.")
    assert {state(server, message_id) for message_id in ids["7"]} == {"pending"}
    page.get_by_role("button", name="Cancel them").click()
    expect(page.locator(".toast")).to_contain_text("3 messages of 3 cancelled.")
    expect(page.get_by_text("No message matches.")).to_be_visible()
    assert {state(server, message_id) for message_id in ids["7"]} == {"cancelled"}
    assert {state(server, message_id) for message_id in ids["8"]} == {"pending"}


def test_an_incomplete_result_is_shown_as_such(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x", delay="1h")
    page = open_page(f"#/messages?topic={topic}")
    counts = {"matched": 1234, "cancelled": 1200, "too_late": 4, "unknown": 30, "dry_run": False}
    missing = [{"topic": topic, "partition": 3}]
    answering(page, "/v1/messages:cancel", counts | {"complete": False, "missing_shards": missing})
    page.get_by_role("button", name="Cancel all that match").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"No owner answers for these shards right now: {topic}.3")
    page.get_by_role("button", name="Cancel them").click()
    sentence = (
        "1,200 messages of 1,234 cancelled, 4 too late, 30 unknown. That was not all of it: ask again to go on."
    )
    expect(page.locator(".toast")).to_contain_text(sentence)


def test_a_purge_counts_and_wants_the_topics_name_typed(
    open_page: OpenPage, server: Server, send: Send, topic: str
) -> None:
    sent = [send("x", delay="1h")["message_id"] for _ in range(3)]
    page = open_page(f"#/topics/{topic}")
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("dialog")).to_contain_text("3 messages wait now.")
    page.get_by_role("button", name="Purge the topic").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Type {topic} here.")
    assert {state(server, message_id) for message_id in sent} == {"pending"}
    page.get_by_label("Type the topic's name to confirm").fill(topic)
    page.get_by_role("button", name="Purge the topic").click()
    expect(page.locator(".toast")).to_contain_text("3 messages cancelled.")
    assert {state(server, message_id) for message_id in sent} == {"cancelled"}


def test_a_purge_is_undone_by_a_button_that_goes_when_its_time_is_over(
    open_page: OpenPage, server: Server, send: Send, topic: str
) -> None:
    for _ in range(3):
        send("x", delay="1h")
    page = open_page(f"#/topics/{topic}")

    def purge() -> None:
        page.get_by_role("button", name="Purge").click()
        page.get_by_label("Type the topic's name to confirm").fill(topic)
        page.get_by_role("button", name="Purge the topic").click()

    purge()
    expect(page.get_by_role("button", name="Undo the purge of")).to_have_count(1)
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.locator(".toast").last).to_contain_text(f"3 messages are back in {topic}.")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    expect(page.get_by_role("table", name="Next messages").locator("> tbody > tr")).to_have_count(3)
    purge()
    expect(page.get_by_role("button", name="Undo")).to_have_count(2)
    page.clock.fast_forward("10:01")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)


def test_a_purge_that_no_answer_came_to_is_undone_on_the_page_of_its_topic(
    open_page: OpenPage, server: Server, send: Send, topic: str
) -> None:
    for _ in range(3):
        send("x", delay="1h")
    HTTP.post(f"{server.url}/v1/topics/{topic}:purge").raise_for_status()
    page = open_page(f"#/topics/{topic}")
    page.get_by_role("button", name="Undo the purge of").click()
    expect(page.locator(".toast").last).to_contain_text(f"3 messages are back in {topic}.")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)


def test_a_cancel_of_all_that_match_is_undone_by_a_button(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x", key="7", delay="1h")
    page = open_page(f"#/messages?topic={topic}&key=7")
    page.get_by_role("button", name="Cancel all that match").click()
    page.get_by_role("button", name="Cancel them").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".toast").last).to_contain_text("1 message is back")
    expect(page.get_by_role("table", name="Messages").locator("> tbody > tr")).to_have_count(1)


def counted_bit_by_bit(page: Page, path: str, topic: str, answers: list[Any]) -> list[str]:
    """The page gets one of these answers after the other, and then the server's. A status is a problem of that
    status. The list grows by what was asked."""
    asked: list[str] = []

    def answer(route: Route) -> None:
        if not 0 <= len(asked) < len(answers):
            return route.continue_()
        given = answers[len(asked)]
        asked.append(route.request.url)
        if isinstance(given, int):
            return route.fulfill(status=given, json={"type": "/problems/x", "title": "Not now", "status": given})
        return route.fulfill(json={"topic": topic, "cancelled": 0, "dry_run": True, **given})

    page.route(f"**{path}", answer)
    return asked


def waiting(matched: int, topic: str, *missing: int) -> dict[str, Any]:
    shards = [{"topic": topic, "partition": number} for number in missing]
    return {"matched": matched, "too_late": 0, "unknown": 0, "complete": not missing, "missing_shards": shards}


def test_a_purges_count_that_is_not_whole_is_asked_for_again_until_it_is(
    open_page: OpenPage, send: Send, topic: str
) -> None:
    send("x", delay="1h")
    page = open_page(f"#/topics/{topic}")
    partly = [waiting(0, topic, 0, 1, 2, 3), 503, waiting(2, topic, 3)]
    asked = counted_bit_by_bit(page, ":purge?dry_run=true", topic, partly)
    page.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"No owner answers for these shards right now: {topic}.0, {topic}.1")
    expect(dialog).to_contain_text("It is asked for again every second.")
    expect(dialog).to_contain_text("1 message waits now.")
    expect(dialog).not_to_contain_text("This is not all of it")
    assert len(asked) == len(partly)


@pytest.mark.thorough
def test_all_that_match_are_counted_again_until_every_shard_has_answered(
    open_page: OpenPage, send: Send, topic: str
) -> None:
    send("x", delay="1h")
    page = open_page(f"#/messages?topic={topic}")
    counted_bit_by_bit(page, "/v1/messages:cancel", topic, [waiting(0, topic, 1)])
    page.get_by_role("button", name="Cancel all that match").click()
    expect(page.get_by_role("dialog")).to_contain_text("0 messages match now.")
    expect(page.get_by_role("dialog")).to_contain_text("1 message matches now.")
    expect(page.get_by_role("dialog")).not_to_contain_text("This is not all of it")


@pytest.mark.thorough
def test_a_dialog_that_was_closed_asks_no_more(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x", delay="1h")
    page = open_page(f"#/topics/{topic}")
    asked = counted_bit_by_bit(page, ":purge?dry_run=true", topic, [waiting(0, topic, 0)] * 100)
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("dialog")).to_contain_text("This is not all of it")
    page.get_by_role("button", name="Leave it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    before = len(asked)
    page.clock.run_for(10_000)
    assert len(asked) == before


@pytest.mark.thorough
def test_a_topic_is_paused_and_resumed(open_page: OpenPage, server: Server, send: Send, topic: str) -> None:
    send("x", delay="1h")
    page = open_page(f"#/topics/{topic}")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause the topic").click()
    expect(page.locator(".toast")).to_contain_text(f"{topic} is paused.")
    read_again(page)
    expect(page.locator(".state")).to_contain_text("paused")
    late = send("late", delay="1ms")
    expect(page.get_by_role("table", name="Next messages")).to_contain_text(late["message_id"])
    page.get_by_role("button", name="Resume", exact=True).click()
    page.get_by_role("button", name="Resume the topic").click()
    read_again(page)
    expect(page.get_by_role("table", name="Newest records")).to_contain_text("late")


@pytest.mark.thorough
def test_shards_that_have_not_decided_yet_are_named(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x", delay="1h")
    page = open_page(f"#/topics/{topic}")
    answer = {"topic": topic, "state": "paused", "shards": 4, "complete": False}
    answering(page, ":pause", answer | {"missing_shards": [{"topic": topic, "partition": 3}]})
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause the topic").click()
    expect(page.locator(".toast")).to_contain_text(f"Not yet in {topic}.3: it is stored there and will happen.")


@pytest.mark.thorough
def test_what_is_not_decided_at_once_has_a_page_of_its_own(open_page: OpenPage, send: Send) -> None:
    sent = send("x", delay="1h")
    page = opened(open_page, sent["message_id"], "Cancel")
    operation = {"operation_id": "op~orders.3.1042", "state": "accepted", "target": sent["message_id"]}
    page.route(f"**/v1/messages/{sent['message_id']}", lambda route: route.fulfill(status=202, json=operation))
    answering(page, "/v1/messages/op~orders.3.1042*", operation)
    page.get_by_role("button", name="Cancel the message").click()
    page.locator(".toast").get_by_role("link", name="op~orders.3.1042").click()
    expect(page.locator(".facts")).to_contain_text("accepted")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(page.locator(".facts a")).to_have_text(sent["message_id"])


def test_what_somebody_else_has_changed_meanwhile_is_not_overwritten(
    open_page: OpenPage, send: Send, server: Server
) -> None:
    sent = send("x", delay="1h")
    page = opened(open_page, sent["message_id"], "Reschedule")
    url = f"{server.url}/v1/messages/{sent['message_id']}"
    HTTP.patch(url, json={"schedule": {"deliver_at": "2035-07-01T12:00:00Z"}}).raise_for_status()
    page.get_by_role("button", name="Reschedule", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("412 version-mismatch")
    assert HTTP.get(url).json()["due_at"] == "2035-07-01T12:00:00.000Z"


@pytest.mark.thorough
def test_another_zone_leaves_what_is_written(open_page: OpenPage, topic: str) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_role("radio", name="At a moment").check()
    page.get_by_label("Moment", exact=True).fill("2035-07-01T14:00:00")
    page.get_by_role("button", name="Times").click()
    expect(page.get_by_label("Moment", exact=True)).to_have_accessible_description("In UTC.")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".notice.good time")).to_have_attribute("datetime", "2035-07-01T14:00:00.000Z")


def test_a_message_whose_answer_was_lost_is_sent_again_and_delivered_once(
    open_page: OpenPage, server: Server, topic: str
) -> None:
    page = open_page(f"#/send?topic={topic}")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_label("Delay", exact=True).fill("1h")

    def lose(route: Route) -> None:
        assert route.fetch().status == 201
        route.abort()

    page.route("**/messages", lose)
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".answer")).to_contain_text("Send it again as it is: it is delivered once.")
    page.unroute_all()
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".notice.good")).to_be_visible()
    rows = HTTP.get(f"{server.url}/v1/messages", params={"topic": topic}).json()["messages"]
    assert len(rows) == 1
