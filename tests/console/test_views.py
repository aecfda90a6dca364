"""What the console shows of a real server."""

import re

import pytest
from playwright.sync_api import expect

from tests.console.conftest import HTTP, OpenPage, Send, read_again
from tests.fault.server import Server


def test_topics_are_listed_and_lead_to_their_pages(open_page: OpenPage, send: Send, topic: str) -> None:
    send("now")
    page = open_page()
    page.get_by_role("link", name=topic).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(topic)
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(page).to_have_title(f"{topic} · Delayline")


@pytest.mark.thorough
def test_a_search_leaves_the_topics_that_match(open_page: OpenPage, send: Send, topic: str) -> None:
    send("now")
    send("now", to=f"other.{topic}")
    page = open_page()
    page.get_by_label("Find a topic").fill("other.")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Find a topic").fill("no such name")
    expect(page.locator("tbody tr")).to_have_count(0)
    expect(page.get_by_text("No topic has “no such name” in its name.")).to_be_visible()


def test_a_message_stands_there_with_all_it_carries(open_page: OpenPage, send: Send, topic: str) -> None:
    sent = send({"big": 12345678901234567890}, key="7", headers=[{"name": "src", "value": "web"}], delay="1h")
    page = open_page(f"#/messages/{sent['message_id']}")
    expect(page.locator(".state")).to_contain_text("pending")
    expect(page.locator("pre").first).to_have_text(re.compile(r'^\{\s+"big": 12345678901234567890\s+\}$'))
    expect(page.locator("pre").nth(1)).to_have_text('{"big":12345678901234567890}')
    expect(page.get_by_role("row", name="src")).to_contain_text("web")
    expect(page.locator(".facts")).to_contain_text(topic)
    expect(page.locator(".countdown")).to_have_text(re.compile("^Due in (1 h|59 m)"))


def test_what_a_message_holds_is_text_and_never_markup(open_page: OpenPage, send: Send, topic: str) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    sent = send(evil, key=evil, headers=[{"name": evil, "value": evil}], delay="1h")
    page = open_page(f"#/messages/{sent['message_id']}")
    expect(page.locator("pre").first).to_have_text(evil)
    expect(page.get_by_role("row", name=evil)).to_be_visible()
    send(evil, key=evil, headers=[{"name": "n", "value": evil}])
    page.goto(page.url.partition("#")[0] + f"#/topics/{topic}")
    expect(page.get_by_role("table", name="Newest records")).to_contain_text(evil)
    assert page.locator("main script, main img").count() == 0


@pytest.mark.thorough
def test_an_address_that_holds_markup_is_shown_as_text(open_page: OpenPage) -> None:
    page = open_page("#/nowhere/<img src=x onerror=alert(1)>")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")
    assert page.locator("main img").count() == 0


@pytest.mark.thorough
def test_bytes_that_are_no_text_are_shown_in_hexadecimal(open_page: OpenPage, server: Server, topic: str) -> None:
    body = {"value_base64": "AP/+", "schedule": {"delay": "1h"}}
    sent = HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json=body).json()
    page = open_page(f"#/messages/{sent['message_id']}")
    expect(page.locator("pre").first).to_have_text("00 ff fe")
    expect(page.locator("figcaption").first).to_contain_text("3 B, no text")


@pytest.mark.thorough
def test_a_message_that_ends_while_it_is_shown_keeps_what_it_carried(
    open_page: OpenPage, send: Send, server: Server
) -> None:
    sent = send("soon", delay="1h")
    page = open_page(f"#/messages/{sent['message_id']}")
    expect(page.locator(".state")).to_contain_text("pending")
    HTTP.post(f"{server.url}/v1/messages/{sent['message_id']}:deliver").raise_for_status()
    read_again(page)
    expect(page.locator(".state")).to_contain_text("delivered")
    expect(page.locator("pre").first).to_have_text("soon")
    expect(page.get_by_text("As it was read here while it waited.")).to_be_visible()
    expect(page.get_by_text("Lateness")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


@pytest.mark.thorough
def test_a_message_that_never_was_is_shown_as_the_server_s_problem(open_page: OpenPage) -> None:
    page = open_page("#/messages/orders.0.999999.1767225630000")
    expect(page.locator("main .notice")).to_contain_text("404 not-found, request ")


@pytest.mark.thorough
def test_what_arrives_in_a_topic_appears_by_itself(open_page: OpenPage, send: Send, topic: str) -> None:
    send("first")
    page = open_page(f"#/topics/{topic}")
    newest = page.get_by_role("table", name="Newest records")
    expect(newest).to_contain_text("first")
    sent = send("second", delay="1ms")
    read_again(page)
    expect(newest).to_contain_text("second")
    expect(newest.get_by_role("link", name=sent["message_id"])).to_be_visible()


@pytest.mark.thorough
def test_updates_stop_and_go_on(open_page: OpenPage, send: Send, topic: str) -> None:
    send("first")
    page = open_page(f"#/topics/{topic}")
    newest = page.get_by_role("table", name="Newest records")
    expect(newest).to_contain_text("first")
    expect(page.locator(".live")).to_have_text(re.compile(r"^Live, as of \d\d:\d\d:\d\dPause updates$"))
    page.get_by_role("button", name="Pause updates").click()
    expect(page.locator(".live")).to_contain_text("Paused, as of")
    send("second")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    read_again(page)
    expect(newest).not_to_contain_text("second")
    assert asked == []
    page.get_by_role("button", name="Resume updates").click()
    expect(newest).to_contain_text("second")


@pytest.mark.thorough
def test_times_are_local_or_utc_and_the_choice_stays(open_page: OpenPage, send: Send, topic: str) -> None:
    sent = send("x", deliver_at="2035-07-01T12:00:00Z")
    page = open_page(f"#/messages/{sent['message_id']}")
    due = page.locator(".facts time").first
    expect(due).to_have_text("2035-07-01 14:00:00")
    page.get_by_role("button", name="Times").click()
    expect(due).to_have_text("2035-07-01 12:00:00")
    expect(page.get_by_role("contentinfo")).to_contain_text("times in UTC")
    page.reload()
    expect(due).to_have_text("2035-07-01 12:00:00")


@pytest.mark.thorough
def test_the_footer_names_the_installation(open_page: OpenPage) -> None:
    footer = open_page().get_by_role("contentinfo")
    expect(footer).to_contain_text("namespace delayline")
    expect(footer).to_contain_text("delivers exactly once")


@pytest.mark.thorough
def test_a_topic_shows_its_state(open_page: OpenPage, send: Send, topic: str) -> None:
    for _ in range(3):
        send("x", delay="1h")
    page = open_page()
    row = page.get_by_role("table", name="Topics").get_by_role("row", name=topic)
    expect(row.get_by_role("cell").first).to_have_text(re.compile("3$"))
    expect(row.locator(".sparkline rect")).not_to_have_count(0)
    row.get_by_role("link").click()
    expect(page.locator(".figures")).to_contain_text(re.compile(r"Waiting3next in (1 h|59 m)"))
    expect(page.get_by_role("table", name="Shards").locator("tbody tr")).to_have_count(4)
    expect(page.get_by_role("table", name="Next messages").locator("tbody tr")).to_have_count(3)


@pytest.mark.thorough
def test_topics_stand_in_the_order_that_is_asked_for(open_page: OpenPage, send: Send, topic: str) -> None:
    for name, count in (("few", 1), ("most", 3), ("some", 2)):
        for _ in range(count):
            send("x", to=f"{topic}.{name}", delay="1h")
    page = open_page()
    page.get_by_label("Find a topic").fill(topic)
    names = page.get_by_role("table", name="Topics").get_by_role("rowheader")
    expect(names).to_contain_text([f"{topic}.few", f"{topic}.most", f"{topic}.some"])
    page.get_by_label("Order").select_option("most waiting")
    expect(names).to_contain_text([f"{topic}.most", f"{topic}.some", f"{topic}.few"])


@pytest.mark.thorough
def test_what_is_due_when_is_a_picture_and_a_table(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x", delay="30m")
    send("x", delay="30m")
    send("x", delay="3d")
    page = open_page(f"#/topics/{topic}")
    expect(
        page.get_by_role("img", name=re.compile("^2 messages due within 1 d, at most [12] per 15 m"))
    ).to_be_visible()
    expect(page.locator(".beyond")).to_have_text("1 later")
    page.get_by_text("As a table").click()
    found = page.locator(".as-table tbody td")
    assert sum(int(text) for text in found.all_text_contents()) == 2
    page.get_by_role("button", name="7 d").click()
    expect(page.get_by_role("img", name=re.compile("^3 messages due within 1 w"))).to_be_visible()
    expect(page.get_by_role("button", name="7 d")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".as-table")).to_have_attribute("open", "")


@pytest.mark.thorough
def test_messages_are_found_by_key_and_by_when_they_are_due(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x", key="7", deliver_at="2035-07-01T10:00:00Z")
    send("x", key="7", deliver_at="2035-07-01T12:00:00Z")
    send("x", key="8", deliver_at="2035-07-01T12:00:00Z")
    page = open_page(f"#/messages?topic={topic}")
    rows = page.get_by_role("table", name="Messages").locator("tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_label("Key").fill("7")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(2)
    page.get_by_label("Due from").fill("2035-07-01T13:00:00")  # 11:00 in UTC
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("2035-07-01 14:00:00")
    expect(page.get_by_label("Key")).to_have_value("7")
    page.go_back()
    expect(rows).to_have_count(2)


@pytest.mark.thorough
def test_messages_that_ended_are_found_with_how(open_page: OpenPage, send: Send, server: Server, topic: str) -> None:
    sent = send("x", delay="1h")
    HTTP.delete(f"{server.url}/v1/messages/{sent['message_id']}").raise_for_status()
    page = open_page(f"#/messages?topic={topic}&state=cancelled")
    expect(page.get_by_label("State")).to_have_value("cancelled")
    expect(page.get_by_role("table", name="Messages").locator("tbody tr")).to_contain_text("cancelled")


@pytest.mark.thorough
def test_a_fault_in_a_search_stands_at_its_field(open_page: OpenPage, topic: str) -> None:
    page = open_page(f"#/messages?topic={topic}&key=7&state=delivered")
    expect(page.get_by_label("Key")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".notice")).to_contain_text("400 not-supported, request ")


@pytest.mark.thorough
def test_long_lists_come_in_pages(open_page: OpenPage, server: Server, topic: str) -> None:
    messages = [{"value": number, "schedule": {"delay": f"{number + 60}m"}} for number in range(60)]
    answer = HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json={"messages": messages})
    assert answer.status_code == 201
    page = open_page(f"#/messages?topic={topic}")
    table = page.get_by_role("table", name="Messages")
    expect(table.locator("tbody tr")).to_have_count(50)
    first = table.get_by_role("rowheader").first.inner_text()
    page.get_by_role("button", name="Next").click()
    expect(table.locator("tbody tr")).to_have_count(10)
    expect(page.get_by_text("Page 2")).to_be_visible()
    page.get_by_role("button", name="Previous").click()
    expect(table.get_by_role("rowheader").first).to_have_text(first, use_inner_text=True)


@pytest.mark.thorough
def test_a_message_is_opened_by_its_id(open_page: OpenPage, send: Send) -> None:
    sent = send("x", delay="1h")
    page = open_page("#/messages")
    page.get_by_label("Open by id").fill(sent["message_id"])
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(sent["message_id"])


@pytest.mark.thorough
def test_a_message_has_its_history(open_page: OpenPage, send: Send, server: Server) -> None:
    sent = send("x", delay="1h", own_id="order-7", ttl="10m")
    moved = HTTP.patch(f"{server.url}/v1/messages/{sent['message_id']}", json={"schedule": {"delay": "2h"}})
    moved.raise_for_status()
    page = open_page(f"#/messages/{sent['message_id']}")
    history = page.get_by_role("table", name="History")
    expect(history.get_by_role("rowheader").first).to_have_accessible_name("accepted")
    expect(history.get_by_role("row", name="rescheduled")).to_contain_text("client")
    expect(page.locator(".facts")).to_contain_text("order-7")
    expect(page.locator(".facts")).to_contain_text(re.compile("Expires.*in 2 h (9|10) m"))


@pytest.mark.thorough
def test_a_message_that_repeats_shows_how(open_page: OpenPage, send: Send) -> None:
    sent = send("x", cron="0 9 1 7 *", time_zone="Europe/Berlin", times=3)
    facts = open_page(f"#/messages/{sent['message_id']}").locator(".facts")
    expect(facts).to_contain_text("0 9 1 7 * in Europe/Berlin, ")
    expect(facts).to_contain_text("Next due")


@pytest.mark.thorough
def test_a_message_is_found_by_its_own_id(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x", delay="1h", own_id="order-8")
    sent = send("x", delay="1h", own_id="order-9")
    page = open_page(f"#/messages?topic={topic}")
    page.get_by_label("Own id").fill("order-9")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("table", name="Messages").get_by_role("rowheader")).to_have_count(1)
    expect(page.get_by_role("link", name=sent["message_id"])).to_be_visible()
