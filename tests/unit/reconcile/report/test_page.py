"""report.html: what is in the summary stands on the page, whatever it is called, and whatever there is none of."""

import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from reconcile.logic.ledger import Category
from reconcile.report.page import TOPICS_MAX, render_page
from reconcile.report.summary import (
    Finding,
    Ledger,
    Malformed,
    NotJudged,
    State,
    Summary,
    TopicSummary,
    WindowSummary,
)
from tests.unit.reconcile.made_up import AT_MS, CLUSTER, finding, summary, topic, windows
from tests.unit.reconcile.markup import Markup


def page(of: Summary) -> Markup:
    return Markup(render_page(of).decode())


def bare(**fields: Any) -> Summary:
    return replace(Summary(cluster=CLUSTER, run=1, at_ms=AT_MS, exit_code=0, seconds=9.04), **fields)


def test_the_ledger_stands_on_the_page_as_an_equation() -> None:
    given = summary()
    heading, *rows = page(given).tables["ledger"]
    assert heading[1:4] == ["accepted", "+ surplus", "= delivered"]
    assert heading[-2:] == ["+ unauditable", "Difference"]
    by_topic = {row[0]: row[1:] for row in rows}
    for one in given.topics:
        numbers = [int(cell.replace(",", "")) for cell in by_topic[one.topic][:-1]]
        assert numbers[0] + numbers[1] == sum(numbers[2:])
        assert numbers[2] == one.ledger.delivered
        assert by_topic[one.topic][-1] == "0, it holds"
    assert by_topic["All topics"][0] == f"{sum(one.ledger.accepted for one in given.topics):,}"


def test_a_ledger_that_does_not_balance_shows_by_how_much() -> None:
    ledger = Ledger(accepted=10, delivered=4, pending=3, missing=1)
    [_, row] = page(bare(topics=[TopicSummary(topic="orders", ledger=ledger)])).tables["ledger"]
    assert row[-1] == "2"


def test_each_finding_stands_on_the_page_with_the_place_of_its_record() -> None:
    given = summary()
    _, *rows = page(given).tables["findings"]
    assert len(rows) == len(given.findings)
    first = given.findings[0]
    assert rows[0][:5] == ["missing", first.id, "delayline.buffer.orders", "3", str(first.offset)]
    assert rows[0][5].endswith("Z")
    assert {(row[0], row[7]) for row in rows if row[7]} == {("early", "4.2 s early"), ("late", "1.5 min late")}


def test_a_finding_of_a_record_that_is_no_message_has_no_id() -> None:
    lost = Finding(category=Category.MISSING, topic="orders", shard=0, offset=0, buffer="delayline.buffer.orders")
    [_, row] = page(bare(findings=[lost], findings_total=1)).tables["findings"]
    assert row == ["missing", "not known", "delayline.buffer.orders", "0", "0", "", "", "", ""]


def test_the_page_shows_where_it_was_cut() -> None:
    shown = windows("orders")
    given = bare(
        topics=[topic("orders", shown)],
        windows=shown,
        windows_total=10_000,
        findings=[finding("late", "orders", 1)],
        findings_total=12_345,
    )
    text = page(given).text
    assert "The newest windows only: 288 of 10,000." in text
    assert "The first 1 of 12,345; all of them stand in findings/." in text


def test_a_page_that_is_whole_does_not_speak_of_cuts() -> None:
    text = page(summary()).text
    assert "newest windows only" not in text
    assert "The first" not in text
    assert "left out" not in text


def test_an_installation_without_topics_gets_a_page_that_shows_that() -> None:
    markup = page(bare())
    assert "there is nothing to judge" in markup.text
    assert markup.tables == {}


def test_a_topic_of_which_nothing_is_closed_yet_has_no_picture() -> None:
    markup = page(bare(topics=[TopicSummary(topic="orders", ledger=Ledger(accepted=2, pending=2))]))
    assert "No window has been closed yet." in markup.text
    assert markup.tables["topics"][1][:3] == ["orders", "judged", "no window yet"]


@pytest.mark.parametrize("state", State)
def test_each_state_is_named_with_its_reason(state: State) -> None:
    row = page(bare(topics=[TopicSummary(topic="orders", state=state, reason="for want of a nail")])).tables[
        "topics"
    ][1]
    assert row[1].endswith("for want of a nail")
    assert state.value in row[1]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (bare(), "Every record of the windows that this run has judged has exactly one end"),
        (bare(threshold=9, topics=[TopicSummary(topic="a", fresh={"late": 3})]), "3 findings, no more than the 9"),
        (
            bare(exit_code=2, topics=[TopicSummary(topic="a", fresh={"late": 3, "missing": 1})]),
            "4 findings in the windows",
        ),
        (
            bare(exit_code=3, topics=[TopicSummary(topic="a", state=State.STALLED), TopicSummary(topic="b")]),
            "1 of 2 topics could",
        ),
    ],
    ids=["clean", "tolerated", "findings", "stalled"],
)
def test_the_page_begins_with_what_came_of_the_run(given: Summary, expected: str) -> None:
    assert expected in page(given).text


def test_what_could_not_be_judged_stands_there_with_its_reason() -> None:
    given = bare(
        topics=[TopicSummary(topic="orders", before_start=1_200)],
        not_judged=[NotJudged(what="audit_gap", why="trimmed before it was read", records=5_000)],
        malformed=[Malformed(audit_partition=3, audit_offset=77, why="no JSON", value="\x00{")],
        malformed_total=4,
    )
    markup = page(given)
    assert markup.tables["unjudged"][1] == ["audit gap", "", "", "5,000", "trimmed before it was read"]
    assert "orders: 1,200 outcomes of records from before the first run" in markup.text
    assert markup.tables["malformed"][1][:3] == ["3", "77", "no JSON"]
    assert "1 of 4." in markup.text


NASTY = "</style><script>alert(1)</script>\"'{{ 7 * 7 }}&amp;\u202e"


def test_nothing_that_a_client_chose_becomes_markup() -> None:
    given = _with_every_text_as(NASTY, summary())
    clean, nasty = Markup(render_page(summary()).decode()), Markup(render_page(given).decode())
    assert nasty.tags == clean.tags
    assert "script" not in nasty.tags
    assert nasty.tables["findings"][1][1] == NASTY
    assert nasty.tables["topics"][1][0] == NASTY


def _with_every_text_as(text: str, of: Summary) -> Summary:
    """Topics keep apart, but by spaces that do not show; what is no client's choice stays."""
    names = {one.topic for one in of.topics}
    assert len(names) == len(of.topics)
    shown = msgspec.to_builtins(of)
    for kind, fields in _TEXTS.items():
        for item in shown[kind]:
            for field in fields:
                if item[field] is not None:
                    item[field] = text + " " * (sorted(names).index(item[field]) if field == "topic" else 0)
    shown["cluster"] |= {"id": text, "namespace": text}
    return msgspec.convert(shown, Summary)


_TEXTS = {
    "topics": ("topic", "reason"),
    "windows": ("topic",),
    "findings": ("topic", "id", "buffer", "detail"),
    "not_judged": ("topic", "why"),
    "malformed": ("why", "value"),
}


def test_moments_that_no_calendar_knows_stay_numbers() -> None:
    odd = Finding(category="orphan", topic="o", shard=0, offset=1, buffer="b", due_ms=2**62, accepted_ms=-(2**62))
    rows = page(bare(findings=[odd], findings_total=1)).tables["findings"]
    assert rows[1][5:7] == [str(2**62), str(-(2**62))]


def test_ten_thousand_windows_of_many_topics_stay_a_page() -> None:
    names = [f"topic-{n:04}" for n in range(TOPICS_MAX + 50)]
    shown = [
        WindowSummary(topic=name, window_ms=AT_MS - n * 300_000, accepted=1) for n in range(20) for name in names
    ]
    given = bare(topics=[TopicSummary(topic=name) for name in names], windows=shown, windows_total=len(shown))
    text = render_page(given)
    assert len(shown) > 10_000
    assert len(text) < 700_000
    markup = Markup(text.decode())
    assert "50 topics more stand in summary.json." in markup.text
    assert "510 topics more, no worse than these, are left out." in markup.text


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = render_page(summary()).decode()
    assert "default-src 'none'" in text
    assert re.findall(r"(?:https?:)?//\w", text) == []
