"""The picture of topics and windows."""

from hypothesis import given
from hypothesis import strategies as st

from reconcile.logic.ledger import WINDOW_MS, Category
from reconcile.report.labels import LETTERS, MEANINGS, SEVERITIES, WORST_FIRST
from reconcile.report.strips import COLUMNS_MAX, STRIPS_MAX, draw
from reconcile.report.summary import TopicSummary, WindowSummary
from tests.unit.reconcile.made_up import AT_MS

ORDERS = [TopicSummary(topic="orders")]


def at(number: int, **found: int) -> WindowSummary:
    return WindowSummary(topic="orders", window_ms=AT_MS + number * WINDOW_MS, findings=found)


def test_every_category_has_a_letter_a_colour_and_a_meaning() -> None:
    for named in (WORST_FIRST, LETTERS, SEVERITIES, MEANINGS):
        assert set(named) == set(Category)
    assert len(set(LETTERS.values())) == len(Category)


def test_nothing_judged_is_no_picture() -> None:
    assert draw(ORDERS, []) is None


def test_few_windows_have_a_column_each_and_clean_neighbours_are_one_block() -> None:
    picture = draw(ORDERS, [at(0), at(1), at(2, missing=1), at(3), at(5), at(6)])
    assert picture is not None
    assert picture.step_ms == WINDOW_MS
    px = picture.column_px
    [strip] = picture.strips
    assert [(b.x // px, b.width // px, b.severity, b.letter) for b in strip.blocks] == [
        (0, 2, "clean", ""),
        (2, 1, "lost", "M"),
        (3, 1, "clean", ""),
        (5, 2, "clean", ""),
    ]
    assert strip.blocks[1].title == "2026-01-01 00:10 to 2026-01-01 00:15: 1 missing"
    assert strip.label == "orders: 6 windows, 1 of them not clean"


def test_a_column_is_as_bad_as_its_worst_window_and_counts_all() -> None:
    windows = [at(n) for n in range(288)] + [at(144, late=2), at(145, missing=1, late=1)]
    picture = draw(ORDERS, windows)
    assert picture is not None
    assert picture.step_ms > WINDOW_MS
    [bad] = [block for block in picture.strips[0].blocks if block.severity != "clean"]
    assert bad.letter == "M"
    assert bad.title.endswith("1 missing, 3 late")


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=60))
def test_a_picture_has_room_for_every_window_at_its_moment(numbers: list[int]) -> None:
    picture = draw(ORDERS, [at(number, late=1) for number in numbers])
    assert picture is not None
    assert picture.width <= COLUMNS_MAX * picture.column_px
    blocks = picture.strips[0].blocks
    assert all(block.x >= 0 and block.x + block.width <= picture.width for block in blocks)
    assert sum(int(block.title.rpartition(": ")[2].split()[0]) for block in blocks) == len(numbers)
    assert all(picture.start <= block.title[:16] < picture.end for block in blocks)


def test_the_worst_topics_are_drawn_first_and_the_others_counted() -> None:
    names = [f"t{n:03}" for n in range(STRIPS_MAX + 5)]
    topics = [TopicSummary(topic=name, findings={"missing": 1} if name == "t044" else {}) for name in names]
    picture = draw(topics, [WindowSummary(topic=name, window_ms=AT_MS) for name in names])
    assert picture is not None
    assert [strip.topic for strip in picture.strips[:2]] == ["t044", "t000"]
    assert len(picture.strips) == STRIPS_MAX
    assert picture.left_out == 5
