"""`python -m tests.console.pictures`: the pictures of docs/console.md anew, from a server with made-up traffic, and
that of docs/reconcile.md, from a made-up run."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

from reconcile.report.page import render_page
from tests.console.conftest import HTTP, QUIET, chromium
from tests.fault.server import ROOT, Server
from tests.unit.reconcile.made_up import summary, trend

HOUR_MS = 3_600_000


def traffic(rnd: random.Random) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(topic, messages with a delay in ms)."""
    yield "orders", [_message(f"order-{n % 97}", 60_000 + abs(rnd.gauss(6, 5)) * HOUR_MS) for n in range(900)]
    digests = [rnd.choice((3, 8, 14, 20)) * HOUR_MS + rnd.uniform(0, HOUR_MS / 1.5) for _ in range(400)]
    yield "mail-digest", [_message(f"user-{n}", delay) for n, delay in enumerate(digests)]
    yield "invoices.overdue", [_message(f"invoice-{n}", rnd.uniform(1, 700) * HOUR_MS) for n in range(160)]
    yield "payment-retries", [_message(None, rnd.expovariate(1 / HOUR_MS)) for _ in range(140)]
    yield "cart-reminders", [_message(f"cart-{n}", rnd.gauss(26, 9) * HOUR_MS) for n in range(1000)]
    yield "trial-endings", [_message(f"account-{n}", rnd.uniform(2, 30 * 24) * HOUR_MS) for n in range(310)]
    yield "shipping", [_message(f"parcel-{n}", rnd.uniform(10, 900)) for n in range(200)]


def _message(key: str | None, delay_ms: float) -> dict[str, Any]:
    return {"key": key, "value": {"key": key}, "schedule": {"delay_ms": max(int(delay_ms), 0)}}


def take(browser: Browser, place: str, file: str, scheme: Any, height: int) -> None:
    context = browser.new_context(
        viewport={"width": 1240, "height": height}, color_scheme=scheme, timezone_id="Europe/Berlin", locale="en-GB"
    )
    page = context.new_page()
    page.goto(place)
    expect(page.locator(".bar").first).to_be_visible()
    expect(page.get_by_text("nothing is late")).to_be_visible(timeout=30_000)
    page.screenshot(path=ROOT / "docs" / file)
    context.close()


def take_report(browser: Browser, folder: Path) -> None:
    file = folder / "report.html"
    file.write_bytes(render_page(summary(run=57, trend=trend(50, 57))))
    page = browser.new_page(viewport={"width": 1240, "height": 1980}, color_scheme="light")
    page.goto(file.as_uri())
    page.screenshot(path=ROOT / "docs" / "reconcile-report.png")


def main() -> None:
    folder = tempfile.mkdtemp()
    server = Server(Path(folder) / "data")
    try:
        server.start()
        server.wait_ready()
        for topic, messages in traffic(random.Random(7)):
            HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json={"messages": messages}).raise_for_status()
        with sync_playwright() as running:
            browser = running.chromium.launch(executable_path=chromium(), args=[f"--{flag}" for flag in QUIET])
            take(browser, f"{server.url}/", "console-topics.png", "light", 620)
            take(browser, f"{server.url}/#/topics/orders", "console-topic.png", "dark", 780)
            take_report(browser, Path(folder))
            browser.close()
    finally:
        server.kill()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
