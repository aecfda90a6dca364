"""Dead letters, and sending them again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from delayline.clock import SystemClock
from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from mq.contract import Append
from mq.embedded.queue import EmbeddedQueue
from tests.acceptance.asking import wait_for
from tests.console.conftest import HTTP, OpenPage, read_again
from tests.console.test_access import findings
from tests.fault.server import Server, read_topic

UNREADABLE = [(b"delay", b"<b>soon</b>")]
LETTERS = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One whose topic `bills` has messages that cannot be read: the API would have refused them."""
    folder: Path = tmp_path_factory.mktemp("dead") / "data"
    queue = EmbeddedQueue.open(folder / "queue", namespace="delayline", clock=SystemClock())
    queue.ensure_topic("bills")
    queue.ensure_buffer("bills", Rules())
    records = [encode_body(b"7", b'{"bill":%d}' % number, UNREADABLE) for number in range(LETTERS)]
    queue.append([Append("delayline.buffer.bills", "0", record) for record in records]).result(timeout=10)
    queue.close()
    server = Server(folder)
    server.start()
    server.wait_ready()
    url = f"{server.url}/v1/topics/bills/dead"
    wait_for(lambda: len(HTTP.get(url).json()["messages"]), lambda count: count == LETTERS)
    yield server
    server.kill()


@pytest.fixture
def letters(open_page: OpenPage) -> Page:
    page = open_page("#/topics/bills/dead")
    expect(page.get_by_role("table", name="Dead letters").locator("> tbody > tr")).to_have_count(LETTERS)
    return page


def delivered(server: Server) -> list[str]:
    return sorted(record["value"] for record in read_topic(server.url, "bills"))


@pytest.mark.thorough
def test_dead_letters_are_listed_with_what_they_are_and_why(letters: Page) -> None:
    row = letters.locator("tr", has=letters.get_by_role("checkbox", name="Choose bills.0.2."))
    expect(row).to_contain_text("invalid")
    row.get_by_text("Value and headers").click()
    expect(row.locator("pre").first).to_have_text('{ "bill": 2 }')
    expect(row).to_contain_text("<b>soon</b>")
    read_again(letters)
    expect(row.locator("pre").first).to_be_visible()
    assert findings(letters) == []


def test_the_chosen_ones_are_sent_again(letters: Page, server: Server) -> None:
    before = delivered(server)
    again = letters.get_by_role("button", name="again…")
    expect(again).to_have_count(1)
    letters.get_by_role("checkbox", name="Choose bills.0.1.").check()
    read_again(letters)
    expect(letters.get_by_role("checkbox", name="Choose bills.0.1.")).to_be_checked()
    letters.get_by_role("button", name="Send 1 again").click()
    letters.get_by_role("dialog").get_by_role("button", name="Send again").click()
    expect(letters.locator(".toast")).to_contain_text("1 letter sent again.")
    assert delivered(server) == sorted([*before, '{"bill":1}'])
    expect(letters.get_by_role("checkbox", name="Choose bills.0.1.")).not_to_be_checked()


@pytest.mark.thorough
def test_all_are_counted_before_they_are_sent_again(letters: Page, server: Server) -> None:
    before = delivered(server)
    letters.get_by_role("button", name="Send all again").click()
    dialog = letters.get_by_role("dialog")
    expect(dialog).to_contain_text("3 letters.")
    assert delivered(server) == before
    dialog.get_by_role("radio", name="After a delay").check()
    dialog.get_by_label("Delay", exact=True).fill("later")
    dialog.get_by_role("button", name="Send all again").click()
    expect(dialog.get_by_label("Delay", exact=True)).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("Delay", exact=True).fill("5h")
    dialog.get_by_role("button", name="Send all again").click()
    expect(letters.locator(".toast")).to_contain_text("3 letters sent again.")
    waiting = HTTP.get(f"{server.url}/v1/messages", params={"topic": "bills"}).json()["messages"]
    assert [message["key"] for message in waiting] == ["7"] * LETTERS
    assert delivered(server) == before


@pytest.mark.thorough
def test_a_topic_without_dead_letters_shows_that(open_page: OpenPage, server: Server) -> None:
    HTTP.post(f"{server.url}/v1/topics/fine/messages", json={"value": 1}).raise_for_status()
    expect(
        open_page("#/topics/fine/dead").get_by_text("No dead letters: everything could be delivered.")
    ).to_be_visible()


@pytest.mark.thorough
def test_dead_letters_fit_a_narrow_page(open_page: OpenPage) -> None:
    page = open_page("#/topics/bills/dead", width=360)
    page.get_by_text("Value and headers").first.click()
    expect(page.locator("pre").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
