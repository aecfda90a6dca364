"""report.html: one file without scripts, that needs nothing else.

Topics and ids are what clients chose: the template escapes everything.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from jinja2 import DictLoader, Environment, StrictUndefined, Template

from delayline.times import format_duration, format_moment
from reconcile.exits import Exit
from reconcile.report import trend
from reconcile.report.labels import (
    LETTERS,
    MEANINGS,
    SEVERITIES,
    STATES,
    WORST_FIRST,
    about,
    category_words,
    counted,
    minute,
    timeliness,
    urgency,
)
from reconcile.report.lateness import lateness
from reconcile.report.strips import STRIP_PX, draw
from reconcile.report.summary import Ledger, State, Summary

TERMS = (
    "delivered",
    "cancelled",
    "superseded",
    "expired",
    "dead",
    "duplicate",
    "skipped",
    "pending",
    "missing",
    "unauditable",
)
"""The right side of the ledger's equation."""

TOPICS_MAX = 500
"""Rows of the tables of topics. summary.json has them all."""


def render_page(summary: Summary) -> bytes:
    """The page in UTF-8."""
    topics = sorted(summary.topics, key=urgency)
    text = _template().render(
        summary=summary,
        verdict=_headline(summary),
        topics=topics[:TOPICS_MAX],
        topics_left_out=max(len(topics) - TOPICS_MAX, 0),
        total=_total([topic.ledger for topic in topics]),
        terms=TERMS,
        picture=draw(topics, summary.windows),
        lateness=lateness(summary.windows),
        trend=trend.draw(summary.trend),
    )
    return text.encode()


class Headline(NamedTuple):
    """What the page shows first."""

    kind: str  # a class of the style: good, bad or unknown
    text: str


def _headline(summary: Summary) -> Headline:
    fresh = sum(sum(topic.fresh.values()) for topic in summary.topics)
    unjudged = sum(topic.state is not State.JUDGED for topic in summary.topics)
    if summary.exit_code == Exit.FOUND:
        runs = "this run has" if summary.reports_from == summary.run else "this run and unreported ones have"
        return Headline("bad", f"{fresh:,} findings in the windows that {runs} judged")
    if summary.exit_code == Exit.CANNOT_JUDGE:
        return Headline("unknown", f"{unjudged:,} of {len(summary.topics):,} topics could not be judged wholly")
    if fresh:
        return Headline("good", f"{fresh:,} findings, no more than the {summary.threshold:,} that are tolerated")
    return Headline("good", "Every record of the windows that this run has judged has exactly one end")


def _total(ledgers: list[Ledger]) -> Ledger:
    names = Ledger.__struct_fields__
    return Ledger(**{name: sum(getattr(ledger, name) for ledger in ledgers) for name in names})


def _moment(moment_ms: int | None) -> str:
    return "" if moment_ms is None else format_moment(moment_ms)


@cache
def _template() -> Template:
    folder = files("reconcile.report") / "templates"
    sources = {name: (folder / name).read_text("utf-8") for name in ("report.html", "report.css")}
    environment = Environment(
        loader=DictLoader(sources), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "moment": _moment,
        "minute": minute,
        "about": about,
        "duration": format_duration,
        "timeliness": timeliness,
        "words": category_words,
        "counted": counted,
        "count": lambda number: f"{number:,}",
    }
    environment.globals |= {
        "categories": [(SEVERITIES[c], LETTERS[c], c, MEANINGS[c]) for c in WORST_FIRST],
        "states": STATES,
        "strip_px": STRIP_PX,
    }
    return environment.get_template("report.html")
