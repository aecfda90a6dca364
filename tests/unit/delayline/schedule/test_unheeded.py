"""What is counted and logged of headers that mean nothing."""

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from delayline.clock import ManualClock
from delayline.schedule.unheeded import LOGGED_AGAIN_MS, OTHER, PAIRS_MAX, UnheededNames, Why


def test_each_name_is_counted_and_logged_once_in_a_while() -> None:
    clock = ManualClock(1_767_225_600_000)
    unheeded = UnheededNames(CollectorRegistry(), clock)
    with capture_logs() as lines:
        for _ in range(5):
            unheeded.note("mail", "delay", Why.TOPIC)
        unheeded.note("mail", "delay-foo", Why.NAME)
        clock.advance(LOGGED_AGAIN_MS)
        unheeded.note("mail", "delay", Why.TOPIC)
    assert [(one.name, one.seen) for one in unheeded.of("mail")] == [("delay", 6), ("delay-foo", 1)]
    assert [line["header"] for line in lines] == ["delay", "delay-foo", "delay"]


@pytest.mark.parametrize("why", list(Why))
def test_a_sender_cannot_make_any_number_of_labels(why: Why) -> None:
    registry = CollectorRegistry()
    unheeded = UnheededNames(registry)
    for number in range(3 * PAIRS_MAX):
        unheeded.note(f"t{number}", f"delay-{number}", why)
    family = next(one for one in registry.collect() if one.name == "delayline_unheeded_headers")
    totals = [sample for sample in family.samples if sample.name.endswith("_total")]
    assert len(totals) == PAIRS_MAX + 1
    assert sum(sample.value for sample in totals if sample.labels["header"] == OTHER) == 2 * PAIRS_MAX


def test_what_is_too_much_to_be_counted_by_name_is_held_against_no_topic() -> None:
    unheeded = UnheededNames(CollectorRegistry())
    for number in range(PAIRS_MAX + 5):
        unheeded.note(OTHER if number < 2 else "mail", f"delay-{number}", Why.NAME)
    assert [one.name for one in unheeded.of(OTHER)] == ["delay-0", "delay-1"]


def test_a_sender_cannot_make_the_memory_of_names_grow() -> None:
    """Counts, moments and log lines, however many names and topics come."""
    unheeded = UnheededNames(CollectorRegistry(), ManualClock(1_767_225_600_000))
    with capture_logs() as lines:
        for number in range(20 * PAIRS_MAX):
            unheeded.note(f"t{number % 7}", f"delay-{number}", list(Why)[number % 2])
    most = PAIRS_MAX + len(Why)
    assert (len(unheeded.counts), len(unheeded.logged_ms), len(lines)) == (most, most, most)
