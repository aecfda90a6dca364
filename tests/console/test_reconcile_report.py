"""The reconcile job's report in a browser: a file, without a server."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page

from reconcile.report.page import render_page
from reconcile.report.summary import Ledger, Summary
from tests.console.test_access import findings
from tests.unit.reconcile.made_up import AT_MS, CLUSTER, finding, summary, trend

OpenReport = Callable[..., Page]

PAPER_PX = round((297 - 2 * 12) / 25.4 * 96)
"""Between the margins of the sheet, which lies on its side."""
SMALLEST_PX = 9.0


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


WIDER = """() => {
  const wide = [];
  for (const one of document.querySelectorAll('body, main, section, .scroll, table, figure, svg')) {
    const { left, right } = one.getBoundingClientRect();
    if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 || left < -1 || right > innerWidth + 1)
      wide.push(`${one.tagName} ${one.className.baseVal ?? one.className} ${one.scrollWidth} ${Math.round(right)}`);
  }
  return wide;
}"""
"""What is cut, or has to be scrolled."""


def large() -> Summary:
    """Names as long as they may be, and numbers of years."""
    long = f"{'payments.'.ljust(27, 'x')}.{'retries.of.the.european.shops'}"
    of = summary(trend=trend(50, 12_345))
    ledgers = {name: getattr(of.topics[0].ledger, name) * 100_000 for name in Ledger.__struct_fields__}
    topics = [replace(of.topics[0], topic=long, ledger=Ledger(**ledgers)), *of.topics[1:]]
    windows = [replace(one, topic=long) if one.topic == "orders" else one for one in of.windows]
    found = finding("missing", long, 9, detail="no outcome; not re-appended in partition 3 at offset 104109")
    return replace(of, topics=topics, windows=windows, findings=[found, *of.findings])


@pytest.mark.thorough
@pytest.mark.parametrize("of", [summary(), large()], ids=["full", "large"])
def test_every_table_fits_1200_px(open_report: OpenReport, of: Summary) -> None:
    assert open_report(of, width=1200).evaluate(WIDER) == []


@pytest.mark.thorough
@pytest.mark.parametrize("of", [summary(), large()], ids=["full", "large"])
def test_every_table_fits_a_sheet_of_a4(open_report: OpenReport, of: Summary, tmp_path: Path) -> None:
    """As wide as what the margins leave of the page; the browser would make smaller what does not fit."""
    page = open_report(of, width=PAPER_PX)
    page.emulate_media(media="print")
    assert page.evaluate(WIDER) == []
    small = "[...document.querySelectorAll('td, th')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    assert page.evaluate(f"Math.min(...{small})") >= SMALLEST_PX
    data = page.pdf(prefer_css_page_size=True)
    boxes = [[float(side) for side in box.split()] for box in re.findall(rb"/MediaBox ?\[([^]]+)\]", data)]
    assert [box == pytest.approx([0, 0, 842, 595], abs=1) for box in boxes] == [True] * len(boxes)  # A4, in points
    assert boxes


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
