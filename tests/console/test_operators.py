"""Who did what, in the browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.conftest import HTTP, OpenPage
from tests.console.test_access import findings
from tests.fault.server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that keeps acts without keys."""
    folder: Path = tmp_path_factory.mktemp("operators") / "data"
    server = Server(folder, access__act_topic="true")
    server.start()
    server.wait_ready()
    HTTP.post(f"{server.url}/v1/topics/bills/messages", json={"value": 1, "schedule": {"delay": "1h"}})
    for what in ("pause", "resume"):
        HTTP.post(f"{server.url}/v1/topics/bills:{what}")
    HTTP.post(f"{server.url}/v1/messages:cancel", json={"filter": {"topic": "bills", "key": "<b>7</b>"}})
    yield server
    server.kill()


def test_acts_are_listed_one_row_each_with_who_what_and_the_answer(open_page: OpenPage) -> None:
    page = open_page("#/operators")
    rows = page.get_by_role("table", name="Acts").locator("> tbody > tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("cancelMessages")
    expect(rows.nth(2)).to_contain_text("pauseTopic")
    expect(rows.nth(2)).to_contain_text("anonymous")
    expect(rows.nth(2)).to_contain_text("bills")
    rows.nth(0).get_by_text("More").click()
    expect(rows.nth(0)).to_contain_text("<b>7</b>")
    assert findings(page) == []
    page.get_by_label("What").fill("pauseTopic")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(1)
    expect(page.get_by_role("link", name="Operators")).to_have_attribute("aria-current", "page")


@pytest.mark.thorough
def test_acts_fit_a_narrow_page(open_page: OpenPage) -> None:
    page = open_page("#/operators", width=360)
    page.get_by_text("More").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.thorough
def test_a_moment_that_is_none_is_shown_at_its_field(open_page: OpenPage) -> None:
    page = open_page("#/operators?since=nonsense")
    expect(page.get_by_label("From")).to_have_attribute("aria-invalid", "true")
