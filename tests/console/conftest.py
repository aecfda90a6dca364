"""A browser, a server, and a page that must stay free of errors."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Playwright, Route, expect, sync_playwright

from tests.acceptance.asking import wait_for
from tests.fault.server import Server

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("disable-background-networking", "disable-component-update", "disable-gpu", "disable-quic", "disable-sync")
WITHIN_MS = 15_000
"""How long a page may take on a busy machine."""
HTTP = httpx.Client(timeout=20, headers={"delayline-request": "1"})

OpenPage = Callable[..., Page]
Send = Callable[..., dict[str, Any]]


def chromium() -> str:
    """Its path. Skips where there is none, and fails instead where CI is set."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up("no Chromium: tests/console/install.sh installs Debian's")
    return found


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """For this package alone: while it is there, the thread has a running event loop, and asyncio.run fails."""
    path = chromium()
    with sync_playwright() as running:
        expect.set_options(timeout=WITHIN_MS)
        running.path = path  # type: ignore[attr-defined]
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    path: str = playwright.path  # type: ignore[attr-defined]
    browser = playwright.chromium.launch(executable_path=path, args=[f"--{flag}" for flag in QUIET])
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests, each of which uses topics of its own."""
    server = Server(tmp_path_factory.mktemp("console") / "data")
    server.start()
    server.wait_ready()
    yield server
    server.kill()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name.removeprefix("test_"))[:60].strip("-")


@pytest.fixture
def send(server: Server, topic: str) -> Send:
    """`send({"order": 7}, delay="1h", key="7")`: the message as the server describes it, once it has an owner: a new
    topic has none at first."""

    def send(value: Any, to: str = topic, *, key: str | None = None, headers: Any = None, **schedule: Any) -> Any:
        body = {"value": value, "key": key, "headers": headers, "schedule": schedule or None}
        answer = HTTP.post(f"{server.url}/v1/topics/{to}/messages", json=body)
        assert answer.status_code == 201, answer.text
        if (message_id := answer.json()["message_id"]) is not None:
            url = f"{server.url}/v1/messages/{message_id}"
            wait_for(lambda: HTTP.get(url).status_code, lambda status: status != 503)
        return answer.json()

    return send


@pytest.fixture
def open_page(browser: Browser, server: Server) -> Iterator[OpenPage]:
    """`open_page("#/send", width=360)`: a page of the console. Whatever it logs as an error fails the test, but for
    answers that refuse: those are the server's."""
    contexts = []
    errors: list[str] = []

    def note(kind: str, text: str) -> None:
        if not text.startswith("Failed to load resource"):
            errors.append(f"{kind}: {text}")

    def open_page(place: str = "", *, url: str = server.url, width: int = 1280, scheme: Any = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            timezone_id="Europe/Berlin",
            locale="en-GB",
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(WITHIN_MS)
        page = context.new_page()
        page.clock.install()
        page.on("console", lambda message: note("console", message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: note("exception", str(error)))
        page.on("dialog", lambda dialog: note("dialog", dialog.message))
        page.goto(f"{url}/{place}")
        expect(page.locator("h1")).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def read_again(page: Page) -> None:
    """The page's clock goes on to its next reading, also where it waits longer because readings failed."""
    page.clock.fast_forward(10_000)


def answering(page: Page, path: str, document: Any, status: int = 200) -> None:
    """From now on the page gets this for the path, whatever the server would answer."""
    kind = "application/json" if status < 400 else "application/problem+json"

    def fulfil(route: Route) -> None:
        route.fulfill(status=status, content_type=kind, body=json.dumps(document))

    page.route(f"**{path}", fulfil)
