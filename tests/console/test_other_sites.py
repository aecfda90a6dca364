"""A page of another site, in a real browser: it can neither act here nor read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, Playwright

from tests.acceptance.asking import wait_for
from tests.console.conftest import HTTP, QUIET, WITHIN_MS, Send
from tests.fault.server import Server

EVIL = "evil.test"
REBOUND = "rebound.test"


@contextmanager
def site(html: str) -> Iterator[int]:
    """A site with this one page; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def deceived(playwright: Playwright) -> Iterator[Browser]:
    """A browser for which both names are this machine, by their owner's DNS."""
    path: str = playwright.path  # type: ignore[attr-defined]
    rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1,MAP {REBOUND} 127.0.0.1"
    browser = playwright.chromium.launch(executable_path=path, args=[rules, *(f"--{flag}" for flag in QUIET)])
    yield browser
    browser.close()


@pytest.fixture
def visit(deceived: Browser) -> Iterator[Callable[[str], Page]]:
    context = deceived.new_context()
    context.set_default_timeout(WITHIN_MS)

    def visit(url: str) -> Page:
        page = context.new_page()
        page.goto(url)
        return page

    yield visit
    context.close()


def untouched(server: Server, topic: str, send: Send) -> None:
    """The topic's message still waits, and the topic is not paused: seen once one behind it is counted."""
    send("marker", delay="1h")

    def shown() -> tuple[int, bool]:
        found = HTTP.get(f"{server.url}/v1/topics/{topic}").json()
        return found["pending"], any(shard["paused"] for shard in found["shards"])

    wait_for(shown, lambda now: now == (2, False))


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"])
@pytest.mark.parametrize("act", ["purge", "pause"])
def test_a_form_of_another_site_does_nothing(
    visit: Callable[[str], Page], server: Server, send: Send, topic: str, act: str, kind: str
) -> None:
    send("x", delay="1h")
    form = f'<form method="post" enctype="{kind}" action="{server.url}/v1/topics/{topic}:{act}"></form>'
    with site(form) as port:
        page = visit(f"http://{EVIL}:{port}/")
        with page.expect_navigation() as navigation:
            page.evaluate("document.forms[0].submit()")
    assert navigation.value.status == 403
    untouched(server, topic, send)


@pytest.mark.parametrize("mode", ["no-cors", "cors"])
def test_a_script_of_another_site_does_nothing(
    visit: Callable[[str], Page], server: Server, send: Send, topic: str, mode: str
) -> None:
    send("x", delay="1h")
    with site("<p>Win!</p>") as port:
        page = visit(f"http://{EVIL}:{port}/")
        for options in (
            "",
            ", headers: {'delayline-request': '1'}",
            ", headers: {'content-type': 'application/json'}",
        ):
            asked = f"fetch('{server.url}/v1/topics/{topic}:purge', {{method: 'POST', mode: '{mode}'{options}}})"
            page.evaluate(f"{asked}.catch(() => 0).then(() => 0)")
        delete = f"fetch('{server.url}/v1/messages/x', {{method: 'DELETE', mode: '{mode}'}}).then(r => r.status)"
        assert page.evaluate(f"{delete}.catch(() => 'refused')") == "refused"
    untouched(server, topic, send)


def test_a_name_that_is_bound_to_this_machine_neither_reads_nor_acts(
    visit: Callable[[str], Page], server: Server, send: Send, topic: str
) -> None:
    send("a secret", delay="1h")
    send("a secret")
    page = visit(f"http://{REBOUND}:{server.port}/v1/topics/{topic}/records")
    assert "misdirected-request" in page.content()
    assert "secret" not in page.content()
    read = "fetch('/v1/topics').then(answer => answer.status)"
    act = f"fetch('/v1/topics/{topic}:pause', {{method: 'POST', headers: {{'delayline-request': '1'}}}})"
    assert page.evaluate(read) == 421
    assert page.evaluate(f"{act}.then(answer => answer.status)") == 421
    untouched(server, topic, send)


def test_the_console_shows_nothing_in_a_frame_of_another_site(visit: Callable[[str], Page], server: Server) -> None:
    with site(f'<iframe src="{server.url}/"></iframe>') as port:
        page = visit(f"http://{EVIL}:{port}/")
        assert "Skip to the content" not in page.frames[-1].content()
