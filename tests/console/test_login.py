"""People who log in where keys are needed, and whose sessions end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.asking import run, wait_for
from tests.brokers.certificates import make_certificate
from tests.console.conftest import OpenPage, read_again
from tests.console.test_access import findings
from tests.fault.server import Server, http_client

RULES = """
[[rule]]
principals = ["ops/*"]
topics = ["*"]
acts = ["send", "read", "payload", "cancel", "control"]

[[rule]]
principals = ["looks"]
topics = ["*"]
acts = ["read"]
"""


class Keyed:
    """A server that needs keys, and what people have."""

    def __init__(self, folder: Path) -> None:
        self.rules, self.keys = folder / "rules.toml", folder / "keys.json"
        self.rules.write_text(RULES)
        self.ann, self.bob, self.looks = map(self.new_key, ("ops/ann", "ops/bob", "looks"))
        settings = {"access__rules": str(self.rules), "access__keys": str(self.keys)}
        self.server = Server(folder / "data", api__auth="keys", **settings)

    def new_key(self, principal: str) -> str:
        ran = run("access", "keys", "create", principal, "--file", str(self.keys))
        assert ran.code == 0, ran.err
        return ran.out.strip()

    def end(self, key: str) -> None:
        assert run("access", "keys", "end", key.split("_")[1], "--file", str(self.keys)).code == 0

    def ask(self, method: str, path: str, **options: Any) -> Any:
        with http_client(20) as http:
            return http.request(
                method, self.server.url + path, headers={"authorization": f"Bearer {self.ann}"}, **options
            )

    def send(self) -> str:
        """The id of a message that waits."""
        body = {"value": "hello", "schedule": {"delay": "1h"}}
        message_id = str(self.ask("POST", "/v1/topics/orders/messages", json=body).json()["message_id"])
        wait_for(lambda: self.state(message_id), lambda state: state == "pending")
        return message_id

    def state(self, message_id: str) -> str:
        return str(self.ask("GET", f"/v1/messages/{message_id}").json().get("state"))


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    keyed = Keyed(tmp_path_factory.mktemp("keyed"))
    keyed.server.start()
    keyed.server.wait_ready()
    yield keyed
    keyed.server.kill()


def log_in(page: Page, key: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    page.get_by_label("Key").fill(key)
    page.keyboard.press("Enter")


def stored(page: Page) -> str:
    """Everything that the page could have kept where scripts can read it."""
    return str(
        page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, document.body.outerHTML])")
    )


def test_a_person_logs_in_cancels_a_message_and_logs_out(open_page: OpenPage, keyed: Keyed) -> None:
    message_id = keyed.send()
    page = open_page(f"#/messages/{message_id}", url=keyed.server.url)
    expect(page.get_by_label("Key")).to_be_focused()
    expect(page.get_by_label("Key")).to_have_attribute("type", "password")
    log_in(page, keyed.ann)
    expect(page.get_by_role("heading", level=1)).to_have_text(message_id)
    expect(page.locator("#session")).to_contain_text("ops/ann")
    expect(page.get_by_role("main")).to_contain_text("hello")
    assert keyed.ann.split("_", 2)[2] not in stored(page)
    page.reload()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the message").click()
    expect(page.locator(".state")).to_contain_text("cancelled")
    assert keyed.state(message_id) == "cancelled"
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("main")).to_contain_text("You are logged out.")
    assert page.context.cookies() == []
    assert page.url.endswith(message_id)
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)


@pytest.mark.thorough
def test_a_wrong_key_is_refused_in_plain_words_and_many_have_to_wait(open_page: OpenPage, keyed: Keyed) -> None:
    page = open_page(url=keyed.server.url)
    for key in ("nonsense", "", "d\u00e4lk", keyed.ann[:-1] + ("A" if keyed.ann[-1] != "A" else "B")):
        log_in(page, key)
        expect(page.get_by_role("alert")).to_contain_text("The key was refused")
        expect(page.get_by_label("Key")).to_be_focused()
        page.get_by_role("alert").evaluate("alert => alert.remove()")
    page.route("**/v1/session", lambda route: route.fulfill(**TOO_MANY))
    log_in(page, keyed.ann)
    expect(page.get_by_role("alert")).to_contain_text("Wait a minute, then try again")
    page.unroute_all()
    page.route("**/v1/session", lambda route: route.abort())
    log_in(page, keyed.ann)
    expect(page.get_by_role("alert")).to_contain_text("no connection to the server. Try again.")
    page.unroute_all()
    log_in(page, keyed.ann)
    expect(page.get_by_role("heading", level=1)).to_have_text("What waits")


TOO_MANY: dict[str, Any] = {
    "status": 429,
    "content_type": "application/problem+json",
    "body": json.dumps({"type": "/problems/limit-exceeded", "title": "x", "status": 429, "detail": "too many"}),
}

FOLLOW = """() => {
  window.seen = [];
  const stream = new EventSource("v1/topics/delayline.audit/records?follow=sse");
  stream.onopen = () => window.seen.push("open");
  stream.addEventListener("problem", (event) => { window.seen.push(JSON.parse(event.data).type); stream.close(); });
}"""


@pytest.mark.thorough
def test_when_its_key_ends_a_session_ends_and_leads_back_to_the_same_view(open_page: OpenPage, keyed: Keyed) -> None:
    """Also a stream that is open, and a dialog."""
    message_id = keyed.send()
    page = open_page(f"#/messages/{message_id}", url=keyed.server.url)
    log_in(page, keyed.bob)
    expect(page.locator("#session")).to_contain_text("ops/bob")
    page.evaluate(FOLLOW)
    assert wait_for(lambda: page.evaluate("window.seen"), bool) == ["open"]
    page.get_by_role("button", name="Cancel").click()
    keyed.end(keyed.bob)
    ended = ["open", "/problems/unauthenticated"]
    assert wait_for(lambda: page.evaluate("window.seen"), lambda seen: len(seen) > 1) == ended
    read_again(page)
    expect(page.get_by_role("main")).to_contain_text("Your session is over.")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Key")).to_be_focused()
    expect(page.locator("#live")).to_be_empty()
    assert page.context.cookies() == []
    log_in(page, keyed.ann)
    expect(page.get_by_role("heading", level=1)).to_have_text(message_id)
    expect(page.locator(".state")).to_contain_text("pending")
    read_again(page)
    expect(page.locator("#live")).to_contain_text("Live")


@pytest.mark.thorough
def test_what_no_rule_allows_is_refused_with_the_right_that_it_takes(open_page: OpenPage, keyed: Keyed) -> None:
    message_id = keyed.send()
    page = open_page(f"#/messages/{message_id}", url=keyed.server.url)
    log_in(page, keyed.looks)
    no_payload = "not shown: looks has no right to `payload` of topic 'orders'."
    expect(page.get_by_role("main")).to_contain_text(no_payload)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the message").click()
    expect(page.get_by_role("alert")).to_contain_text("looks has no right to `cancel` of topic 'orders'")
    assert keyed.state(message_id) == "pending"


@pytest.mark.thorough
def test_a_page_of_the_session_before_changes_nothing_in_this_one(open_page: OpenPage, keyed: Keyed) -> None:
    message_id = keyed.send()
    page = open_page(f"#/messages/{message_id}", url=keyed.server.url)
    log_in(page, keyed.ann)
    expect(page.locator(".state")).to_contain_text("pending")
    other = page.context.new_page()
    login = {"authorization": f"Bearer {keyed.looks}", "delayline-request": "1"}
    other.goto(f"{keyed.server.url}/healthz")
    other.evaluate("headers => fetch('/v1/session', { method: 'POST', headers })", login)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the message").click()
    expect(page.get_by_role("alert")).to_contain_text("load a page again that was open before you logged in")
    assert keyed.state(message_id) == "pending"


@pytest.mark.thorough
def test_over_tls_the_browser_keeps_the_cookie_for_this_host_alone(browser: Browser, tmp_path: Path) -> None:
    make_certificate(tmp_path, "server", "127.0.0.1")
    keyed = Keyed(tmp_path)
    keyed.server.settings |= {
        "api__certfile": str(tmp_path / "server.crt"),
        "api__keyfile": str(tmp_path / "server.key"),
    }
    keyed.server.start()
    context = browser.new_context(ignore_https_errors=True)
    try:
        assert wait_for(lambda: "listens on https:" in keyed.server.log.read_text(), bool)
        page = context.new_page()
        page.goto(keyed.server.url.replace("http:", "https:"))
        log_in(page, keyed.ann)
        expect(page.locator("#session")).to_contain_text("ops/ann")
        (cookie,) = context.cookies()
        assert cookie["name"] == "__Host-delayline-session"
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        page.reload()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("main")).to_contain_text("You are logged out.")
        assert context.cookies() == []
    finally:
        context.close()
        keyed.server.kill()


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_login_and_log_out_are_for_everybody(open_page: OpenPage, keyed: Keyed, scheme: str) -> None:
    page = open_page(url=keyed.server.url, scheme=scheme, width=360)
    log_in(page, "nonsense")
    expect(page.get_by_role("alert")).to_be_visible()
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    log_in(page, keyed.ann)
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
