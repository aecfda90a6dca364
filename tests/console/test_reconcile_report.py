"""The reconcile job's report in a browser: a file, without a server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from reconcile.report.page import render_page
from reconcile.report.summary import Summary
from tests.console.test_access import findings
from tests.unit.reconcile.made_up import AT_MS, CLUSTER, summary

OpenReport = Callable[..., Page]


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[OpenReport]:
    """Whatever it asks for elsewhere, or logs, fails the test."""
    contexts = []
    heard: list[str] = []

    def open_report(of: Summary, *, width: int = 1280, scheme: Any = "light", scripts: bool = True) -> Page:
        file = tmp_path / "report.html"
        file.write_bytes(render_page(of))
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=scripts,
            bypass_csp=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("request", lambda request: heard.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert heard == []


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "of", [summary(), Summary(cluster=CLUSTER, run=1, at_ms=AT_MS, exit_code=0, seconds=1)], ids=["full", "empty"]
)
def test_axe_finds_nothing_serious_in_the_report(open_report: OpenReport, of: Summary, scheme: str) -> None:
    assert findings(open_report(of, scheme=scheme)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_report_never_scrolls_sideways(open_report: OpenReport, width: int) -> None:
    page = open_report(summary(), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.thorough
def test_what_is_wider_than_the_screen_is_reached_by_keyboard(open_report: OpenReport) -> None:
    page = open_report(summary(), width=360)
    wider = "[...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1 && "
    wider += "getComputedStyle(e).overflowX === 'auto')"
    assert page.evaluate(f"{wider}.length") >= 3
    assert page.evaluate(f"{wider}.filter(e => e.tabIndex !== 0).length") == 0


@pytest.mark.thorough
def test_the_picture_shows_each_severity_in_a_colour_of_its_own(open_report: OpenReport) -> None:
    for scheme in ("light", "dark"):
        page = open_report(summary(), scheme=scheme)
        fills = page.evaluate(
            "Object.fromEntries(['clean', 'off', 'wrong', 'lost', 'unknown'].map(name => "
            "[name, getComputedStyle(document.querySelector(`.picture rect.${name}`)).fill]))"
        )
        assert len(set(fills.values())) == 5, fills
