"""For everybody: by keyboard alone, on small screens, in both themes, with a screen reader."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.console.conftest import OpenPage, Send, read_again

GRAVE = ("serious", "critical")


def findings(page: Page) -> list[str]:
    """What axe-core takes for serious or critical, with the elements."""
    response: dict[str, Any] = Axe().run(page).response
    return [
        f"{found['id']}: {node['target']}"
        for found in response["violations"]
        if found["impact"] in GRAVE
        for node in found["nodes"]
    ]


def places(send: Send, topic: str) -> list[tuple[str, str]]:
    """Addresses of every view, with a text that stands there once it is read."""
    sent = send({"order": 7}, key="7", headers=[{"name": "src", "value": "web"}], delay="1h")
    send("here" * 200)
    return [
        ("", topic),
        (f"#/topics/{topic}", "hereherehere"),
        (f"#/topics/{topic}/dead", "Dead letters"),
        (f"#/messages?topic={topic}", sent["message_id"]),
        (f"#/messages?topic={topic}&state=cancelled", "No message matches."),
        (f"#/messages/{sent['message_id']}", "As it was sent"),
        ("#/send", "Such as 90s"),
        ("#/quotas", "The file of rules has no quotas."),
        ("#/operators", "purgeTopic"),
        ("#/nowhere", "There is no such page"),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_any_view(open_page: OpenPage, send: Send, topic: str, scheme: str) -> None:
    page = open_page(scheme=scheme)
    for place, text in places(send, topic):
        page.goto(page.url.partition("#")[0] + place)
        expect(page.get_by_role("main")).to_contain_text(text)
        assert findings(page) == [], place


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_dialogs_and_problems(open_page: OpenPage, send: Send, scheme: str) -> None:
    sent = send("x", delay="1h")
    page = open_page(f"#/messages/{sent['message_id']}", scheme=scheme)
    page.get_by_role("button", name="Reschedule").click()
    page.get_by_label("Delay from now").fill("whenever")
    page.get_by_role("button", name="Reschedule", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("The schedule is not valid")
    assert findings(page) == []


@pytest.mark.thorough
@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_the_page(open_page: OpenPage, send: Send, topic: str, width: int) -> None:
    page = open_page(width=width)
    for place, text in places(send, topic):
        page.goto(page.url.partition("#")[0] + place)
        expect(page.get_by_role("main")).to_contain_text(text)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place


@pytest.mark.thorough
@pytest.mark.parametrize("width", [360, 1280])
def test_long_names_do_not_widen_the_page(open_page: OpenPage, send: Send, width: int) -> None:
    name, key = "n" * 200 + str(width), "k" * 2000
    sent = send("v" * 2000, to=name, key=key, headers=[{"name": "h" * 300, "value": "w" * 3000}], delay="1h")
    send("v" * 2000, to=name, key=key)
    page = open_page(width=width)
    for place in ("", f"#/topics/{name}", f"#/messages?topic={name}", f"#/messages/{sent['message_id']}"):
        page.goto(page.url.partition("#")[0] + place)
        expect(page.get_by_role("main")).to_contain_text(name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place


@pytest.mark.thorough
def test_a_narrow_table_is_still_a_table(open_page: OpenPage, send: Send, topic: str) -> None:
    send("x")
    page = open_page(width=360)
    row = page.get_by_role("table", name="Topics").get_by_role("row", name=topic)
    expect(row.get_by_role("rowheader")).to_have_accessible_name(topic)
    expect(row.get_by_role("cell").first).to_be_visible()
    for part, role in (("table", "table"), ("tbody", "rowgroup"), ("tbody tr", "row"), ("tbody td", "cell")):
        # written out: not every browser takes it from a table that is laid out otherwise
        expect(page.locator(part).first).to_have_attribute("role", role)


def test_a_message_can_be_sent_and_cancelled_by_keyboard_alone(open_page: OpenPage, topic: str) -> None:
    page = open_page(f"#/send?topic={topic}")
    press = page.keyboard.press

    def tab_to(name: str, role: Any) -> None:
        wanted = page.get_by_role(role, name=name)
        for _ in range(40):
            press("Tab")
            if wanted.evaluate_all("found => found.includes(document.activeElement)"):
                return
        raise AssertionError(f"the Tab key does not reach {name!r}")

    tab_to("Value", "textbox")
    page.keyboard.type("1")
    tab_to("Delay", "textbox")
    press("Control+a")
    page.keyboard.type("2h")
    press("Enter")
    expect(page.locator(".notice.good")).to_be_visible()
    tab_to(f"{topic}.", "link")
    press("Enter")
    expect(page.locator(".state")).to_contain_text("pending")
    tab_to("Cancel", "button")
    press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(6):
        press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    press("Enter")
    tab_to("Cancel the message", "button")
    press("Enter")
    expect(page.locator(".state")).to_contain_text("cancelled")


@pytest.mark.thorough
def test_the_first_tab_leads_past_the_navigation(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(page.get_by_role("heading", level=1)).to_have_text("What waits")


@pytest.mark.thorough
def test_the_focus_can_be_seen(open_page: OpenPage) -> None:
    page = open_page()
    for _ in range(6):
        page.keyboard.press("Tab")
        focused = "getComputedStyle(document.activeElement)"
        assert page.evaluate(f"{focused}.outlineStyle + {focused}.outlineWidth") == "solid2px"


@pytest.mark.thorough
def test_a_refresh_leaves_the_focus_where_it_is(open_page: OpenPage, send: Send, topic: str) -> None:
    send("first")
    page = open_page()
    link = page.get_by_role("link", name=topic)
    link.focus()
    send("x", to=f"a.{topic}")
    read_again(page)
    expect(page.get_by_role("link", name=f"a.{topic}")).to_be_visible()
    expect(page.get_by_role("link", name=topic, exact=True)).to_be_focused()


@pytest.mark.thorough
def test_the_theme_follows_the_system_until_one_is_chosen(open_page: OpenPage) -> None:
    page = open_page(scheme="dark")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(paper)
    toggle = page.get_by_role("button", name="Theme")
    expect(toggle).to_have_text("Theme: auto")
    toggle.click()
    expect(toggle).to_have_text("Theme: light")
    light = page.evaluate(paper)
    assert light != dark
    page.reload()
    expect(toggle).to_have_text("Theme: light")
    assert page.evaluate(paper) == light
    toggle.click()
    assert page.evaluate(paper) == dark
    toggle.click()
    expect(toggle).to_have_text("Theme: auto")
