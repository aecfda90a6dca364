"""Directives of our own; those of other systems stand in test_schedule_aliases.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.records.headers import ECHOED, RESERVED
from delayline.records.message import Header, MessageId
from delayline.schedule.directives import directive_names
from delayline.schedule.rules import DAY_MS, DEFAULT_RULES, HORIZON_MAX_MS, Rules
from delayline.schedule.terms import Retry, Series, Terms
from delayline.schedule.verdict import Immediate, Invalid, Op, Reason, Schedule, Verdict, read_directives

NOW_MS = 1_767_225_600_000
HORIZON_MS = 3650 * DAY_MS


def read(*headers: Header, rules: Rules = DEFAULT_RULES) -> Verdict:
    return read_directives(headers, NOW_MS, rules, HORIZON_MS)


def reason_of(*headers: Header) -> Reason:
    verdict = read(*headers)
    assert isinstance(verdict, Invalid), verdict
    return verdict.reason


@pytest.mark.parametrize(
    ("name", "value", "due_ms"),
    [
        (b"delay-ms", b"1", NOW_MS + 1),
        (b"delay-ms", b"030000", NOW_MS + 30_000),
        (b"delay", b"1h30m", NOW_MS + 5_400_000),
        (b"delay", b"PT0.0001S", NOW_MS + 1),
        (b"deliver-at", b"1767225630000", NOW_MS + 30_000),
        (b"deliver-at", b"2026-01-01T01:00:30+01:00", NOW_MS + 30_000),
        (b"delay-level", b"1", NOW_MS + 1000),
        (b"delay-level", b"18", NOW_MS + 7_200_000),
        (b"delay-level", b"99", NOW_MS + 7_200_000),  # beyond the table: its last level
    ],
)
def test_a_time_makes_a_message_due(name: bytes, value: bytes, due_ms: int) -> None:
    assert read((name, value)) == Schedule(due_ms)


@pytest.mark.parametrize("value", [b"1767225599999", b"2025-12-31T00:00:00Z", b"1970-01-01T00:00:00Z"])
def test_a_moment_in_the_past_is_scheduled_all_the_same(value: bytes) -> None:
    verdict = read((b"deliver-at", value))
    assert isinstance(verdict, Schedule)
    assert verdict.due_ms < NOW_MS


@pytest.mark.parametrize(
    ("name", "value"),
    [(b"delay-ms", b"0"), (b"delay", b"0s"), (b"delay", b"PT0S"), (b"delay-level", b"0"), (b"delay-level", b"-3")],
)
def test_no_delay_at_all_is_immediate(name: bytes, value: bytes) -> None:
    assert read((name, value)) == Immediate()


def test_a_record_without_directives_is_immediate() -> None:
    assert read((b"trace", b"\xff"), (b"DELAY", b"3"), (b"null", None)) == Immediate()


def test_headers_that_mean_nothing_to_us_are_passed_over() -> None:
    assert read((b"trace", None), (b"delay-ms", b"5"), (b"trace", b"x")) == Schedule(NOW_MS + 5)


@pytest.mark.parametrize("value", [None, b"", b"\xff\xfe"], ids=["null", "empty", "not UTF-8"])
def test_a_value_that_is_no_text_is_invalid_in_every_directive(value: bytes | None) -> None:
    aliases = ("rocketmq", "rabbitmq", "etf1")
    for name in sorted(directive_names(aliases)):
        verdict = read((name, value), rules=Rules(aliases=aliases))
        assert isinstance(verdict, Invalid), name
        assert (verdict.reason, verdict.directive) == (Reason.INVALID, name.decode())


@pytest.mark.parametrize("name", sorted(directive_names(())))
def test_a_directive_given_twice_is_invalid_even_with_one_meaning(name: bytes) -> None:
    header = (name, VALID[name])
    assert reason_of(header, header) == Reason.INVALID


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"delay-ms", b"-1"), (b"delay-ms", b"+1"), (b"delay-ms", b" 1"), (b"delay-ms", b"1 "), (b"delay-ms", b"1.0"),
        (b"delay-ms", b"1_000"), (b"delay-ms", "١".encode()), (b"delay-ms", b"soon"), (b"delay-ms", b"1" * 65),
        (b"delay", b"30"), (b"delay", b"-30s"), (b"delay", b"P1Y"),
        (b"deliver-at", b"1767225630"), (b"deliver-at", b"2026-01-01T00:00:30"), (b"deliver-at", b"tomorrow"),
        (b"deliver-at", b"1969-12-31T23:59:59Z"),
        (b"delay-level", b"3s"), (b"delay-level", b"+3"), (b"delay-level", b"1.5"), (b"delay-level", b"--1"),
        (b"delay-id", b"x" * 257), (b"delay-expire-at", b"soon"), (b"delay-ttl", b"0s"), (b"delay-ttl", b"x"),
        (b"delay-cron", b"* * *"), (b"delay-every", b"0s"), (b"delay-every", b"PT"), (b"delay-every", b"999ms"),
        (b"delay-expire-at", b"1" * 30), (b"delay-ttl", b"1" * 30 + b"s"),
        (b"delay-every", b"1" * 30 + b"s"), (b"delay-times", b"1" * 30),
        (b"delay-retry", b"a group"), (b"delay-retry", b"g" * 179),
    ],
)  # fmt: skip
def test_a_value_outside_the_grammar_is_invalid(name: bytes, value: bytes) -> None:
    verdict = read((name, value))
    assert isinstance(verdict, Invalid)
    assert (verdict.reason, verdict.directive) == (Reason.INVALID, name.decode())


@pytest.mark.parametrize(
    ("headers", "due_ms"),
    [
        ([(b"delay-ms", b"90000"), (b"delay", b"1m30s")], NOW_MS + 90_000),
        ([(b"delay-ms", b"1000"), (b"delay-level", b"1"), (b"delay", b"PT1S")], NOW_MS + 1000),
    ],
)
def test_delays_that_mean_the_same_are_accepted(headers: list[Header], due_ms: int) -> None:
    assert read(*headers) == Schedule(due_ms)


def test_two_ways_to_ask_for_no_delay_are_immediate() -> None:
    assert read((b"delay-ms", b"0"), (b"delay-level", b"-1")) == Immediate()


@pytest.mark.parametrize(
    "headers",
    [
        [(b"delay-ms", b"1000"), (b"delay", b"2s")],
        [(b"delay-ms", b"0"), (b"delay", b"1s")],
        [(b"delay-ms", b"1000"), (b"deliver-at", b"1767225601000")],  # meet by chance, at this append time only
        [(b"delay-ms", b"1767225600000"), (b"deliver-at", b"1767225600000")],  # one number, two meanings
        [(b"deliver-at", b"1767225600000"), (b"delay", b"0s")],
        [(b"delay", b"5s"), (b"delay-level", b"1")],
    ],
)
def test_times_that_differ_are_contradictory(headers: list[Header]) -> None:
    assert {reason_of(*headers), reason_of(*reversed(headers))} == {Reason.CONTRADICTORY}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"delay-ms", b"%d" % HORIZON_MS),
        (b"delay", b"3650d"),
        (b"deliver-at", b"%d" % (NOW_MS + HORIZON_MS)),
    ],
)
def test_the_horizon_itself_is_within_reach(name: bytes, value: bytes) -> None:
    assert read((name, value)) == Schedule(NOW_MS + HORIZON_MS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"delay-ms", b"%d" % (HORIZON_MS + 1)),
        (b"delay-ms", b"9" * 64),
        (b"delay", b"3650d1ms"),
        (b"delay", b"9" * 63 + b"w"),
        (b"deliver-at", b"%d" % (NOW_MS + HORIZON_MS + 1)),
        (b"deliver-at", b"9999-12-31T23:59:59Z"),
    ],
)
def test_beyond_the_horizon_is_refused_not_clamped(name: bytes, value: bytes) -> None:
    verdict = read((name, value))
    assert isinstance(verdict, Invalid)
    assert (verdict.reason, verdict.directive) == (Reason.BEYOND_HORIZON, name.decode())


BY_DEFAULT = Rules(default_delay_ms=5000)


@pytest.mark.parametrize("headers", [[], [(b"trace", b"x")], [(b"delayline-id", b"orders.0.1.2")]])
def test_without_a_word_about_time_the_default_delay_holds(headers: list[Header]) -> None:
    assert read(*headers, rules=BY_DEFAULT) == Schedule(NOW_MS + 5000)


@pytest.mark.parametrize("header", [(b"delay-ms", b"0"), (b"delay", b"0s"), (b"delay-level", b"-1")])
def test_no_delay_is_a_word_about_time(header: Header) -> None:
    assert read(header, rules=BY_DEFAULT) == Immediate()


@pytest.mark.parametrize("header", [(b"delay-ms", b"7"), (b"deliver-at", b"%d" % (NOW_MS + 7))])
def test_a_time_takes_the_place_of_the_default_delay(header: Header) -> None:
    assert read(header, rules=BY_DEFAULT) == read(header) == Schedule(NOW_MS + 7)


def test_an_operation_gets_no_time_from_the_default_delay() -> None:
    cancel = (b"delay-op", b"cancel"), (b"delay-ref", b"orders.0.1.1767225600000")
    assert read(*cancel, rules=BY_DEFAULT) == read(*cancel)
    reschedule = (b"delay-op", b"reschedule"), cancel[1]
    assert isinstance(read(*reschedule, rules=BY_DEFAULT), Invalid)


GROUP = (b"delay-retry", b"billing")


def attempt(value: bytes | None) -> Header:
    return b"delayline-attempt", value


@pytest.mark.parametrize(
    ("headers", "attempt", "delay_s"),
    [
        ([GROUP], 0, 10),
        ([GROUP, attempt(b"0")], 0, 10),
        ([attempt(b"1"), GROUP], 1, 30),
        ([(b"delayline-id", b"x"), GROUP, (b"trace", b"t"), attempt(b"7")], 7, 6 * 60),
        ([GROUP, attempt(b"15")], 15, 7200),
    ],
)
def test_the_more_often_a_group_has_failed_the_longer_it_waits(
    headers: list[Header], attempt: int, delay_s: int
) -> None:
    assert read(*headers) == Schedule(NOW_MS + 1000 * delay_s, Terms(retry=Retry("billing", attempt)))


def test_beyond_the_levels_the_last_one_holds() -> None:
    rules = Rules(levels_ms=(1, 2, 3, 4), retry_attempts_max=100)
    due = [read(GROUP, attempt(b"%d" % n), rules=rules) for n in (0, 1, 2, 99)]
    assert [verdict.due_ms - NOW_MS for verdict in due if isinstance(verdict, Schedule)] == [3, 4, 4, 4]


@pytest.mark.parametrize(("rules", "count"), [(DEFAULT_RULES, b"16"), (Rules(retry_attempts_max=0), b"0")])
def test_after_the_last_attempt_there_is_nothing_to_wait_for(rules: Rules, count: bytes) -> None:
    retry = Retry("billing", int(count), exhausted=True)
    assert read(GROUP, attempt(count), rules=rules) == Schedule(NOW_MS, Terms(retry=retry))


@pytest.mark.parametrize(
    "attempts",
    [[b"-1"], [b"+1"], [b"x"], [b""], [None], [b"1.0"], [b" 1"], ["١".encode()], [b"1" * 10], [b"1", b"1"]],
)
def test_an_attempt_that_cannot_be_read_is_refused_where_it_counts(attempts: list[bytes | None]) -> None:
    verdict = read(GROUP, *map(attempt, attempts))
    assert isinstance(verdict, Invalid)
    assert (verdict.reason, verdict.directive) == (Reason.INVALID, "delayline-attempt")
    assert read((b"delay-ms", b"5"), *map(attempt, attempts)) == Schedule(NOW_MS + 5)


def test_neither_a_default_delay_nor_the_horizon_of_an_api_is_meant_for_retries() -> None:
    rules = Rules(default_delay_ms=5000, levels_ms=(7_200_000,))
    assert read_directives([GROUP], NOW_MS, rules, horizon_max_ms=1000) == Schedule(
        NOW_MS + 7_200_000, Terms(retry=Retry("billing"))
    )


def test_the_rules_define_what_a_level_is() -> None:
    assert read((b"delay-level", b"2"), rules=Rules(levels_ms=(7, 70))) == Schedule(NOW_MS + 70)


def test_what_was_accepted_is_not_judged_again_by_how_far_ahead_it_is() -> None:
    headers = [(b"delay-ms", b"%d" % (HORIZON_MS + 1))]
    assert read_directives(headers, NOW_MS, DEFAULT_RULES) == Schedule(NOW_MS + HORIZON_MS + 1)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_headers_of_our_own_are_refused_from_clients(name: bytes) -> None:
    assert reason_of((b"delay-ms", b"5"), (name, b"1")) == Reason.INVALID


def test_headers_that_a_consumer_echoes_mean_nothing() -> None:
    echoed: list[Header] = [(name, None) for name in sorted(ECHOED)]
    assert read(*echoed, *echoed, (b"delay-ms", b"5")) == Schedule(NOW_MS + 5)


def test_a_cron_expression_whose_first_time_is_beyond_the_horizon_is_refused() -> None:
    headers = [(b"delay-cron", b"0 0 29 2 *")]
    verdict = read_directives(headers, NOW_MS, DEFAULT_RULES, horizon_max_ms=365 * DAY_MS)
    assert isinstance(verdict, Invalid)
    assert (verdict.reason, verdict.directive) == (Reason.BEYOND_HORIZON, "delay-cron")


def test_a_cron_expression_that_does_not_fire_any_more_is_invalid() -> None:
    verdict = read_directives([(b"delay-cron", b"0 9 * * *")], 2**53, DEFAULT_RULES)
    assert isinstance(verdict, Invalid)
    assert verdict.reason == Reason.INVALID


VALID: dict[bytes, bytes] = {
    b"delay-ms": b"5000",
    b"delay": b"5s",
    b"deliver-at": b"1767225605000",
    b"delay-level": b"2",
    b"delay-id": b"order-7",
    b"delay-on-conflict": b"replace",
    b"delay-expire-at": b"2026-02-01T00:00:00Z",
    b"delay-ttl": b"1h",
    b"delay-cron": b"0 9 * * 1-5",
    b"delay-time-zone": b"Europe/Berlin",
    b"delay-every": b"1h",
    b"delay-times": b"3",
    b"delay-backoff": b"1.5",
    b"delay-missed": b"none",
    b"delay-op": b"cancel",
    b"delay-ref": b"orders.0.1.1767225600000",
    b"delay-retry": b"billing",
}
"""A good value of every directive."""


def pick(*names: bytes) -> list[Header]:
    return [(name, VALID[name]) for name in names]


def test_the_table_of_good_values_is_whole() -> None:
    assert VALID.keys() == directive_names(())


HOURLY, WEEKDAYS = Series(every_ms=3_600_000), Series(cron="0 9 * * 1-5", zone="Europe/Berlin", times_left=3)


@pytest.mark.parametrize(
    ("headers", "due_ms", "terms"),
    [
        (pick(b"delay", b"delay-id"), 5000, Terms(own_id="order-7")),
        (pick(b"delay", b"delay-id", b"delay-on-conflict"), 5000, Terms(own_id="order-7", replaces=True)),
        (pick(b"delay", b"delay-expire-at"), 5000, Terms(expire_at_ms=1_769_904_000_000)),
        (pick(b"deliver-at", b"delay-ttl"), 5000, Terms(ttl_ms=3_600_000)),
        (pick(b"delay-every"), 3_600_000, Terms(series=HOURLY)),
        (pick(b"delay", b"delay-every"), 5000, Terms(series=HOURLY)),
        ([*pick(b"delay-every"), (b"delay-ms", b"0")], 0, Terms(series=HOURLY)),
        (
            pick(b"delay-every", b"delay-backoff", b"delay-missed"),
            3_600_000,
            Terms(series=Series(every_ms=3_600_000, backoff=1.5, missed="none")),
        ),
        (pick(b"delay-cron", b"delay-time-zone", b"delay-times"), 8 * 3_600_000, Terms(series=WEEKDAYS)),
    ],
    ids=lambda given: " ".join(name.decode() for name, _ in given) if isinstance(given, list) else "",
)
def test_more_than_a_time_is_kept_with_the_schedule(headers: list[Header], due_ms: int, terms: Terms) -> None:
    assert read(*headers) == Schedule(NOW_MS + due_ms, terms)


@pytest.mark.parametrize("ref", ["order-7", "orders.0.1.1767225600000", "orders.0.1.1767225600000~3"])
def test_an_operation_names_a_message_an_occurrence_or_an_own_id(ref: str) -> None:
    expected = ref if "." not in ref else MessageId.parse(ref)
    assert read(*pick(b"delay-op"), (b"delay-ref", ref.encode())) == Op(expected)


@pytest.mark.parametrize(
    "headers",
    [
        pick(b"delay", b"delay-on-conflict"),
        pick(b"delay", b"delay-time-zone"),
        pick(b"delay", b"delay-times"),
        pick(b"delay-cron", b"delay-backoff"),
        pick(b"delay-op"),
        pick(b"delay-ref"),
        pick(b"delay-cron", b"delay"),
        pick(b"delay-cron", b"delay-every"),
        pick(b"delay-retry", b"delay"),
        pick(b"delay-op", b"delay-ref", b"delay"),
        pick(b"delay-op", b"delay-ref", b"delay-id"),
        [*pick(b"delay-ref"), (b"delay-op", b"reschedule")],
        [*pick(b"delay-ref", b"delay"), (b"delay-op", b"postpone")],
        pick(b"delay", b"delay-expire-at", b"delay-ttl"),
        [*pick(b"delay"), (b"delay-expire-at", b"1767225605000")],
        [*pick(b"delay-id"), (b"delay-on-conflict", b"merge")],
        [*pick(b"delay-every"), (b"delay-times", b"0")],
        [*pick(b"delay-every"), (b"delay-backoff", b"1")],
        [*pick(b"delay-cron"), (b"delay-time-zone", b"Berlin")],
        [*pick(b"delay-cron"), (b"delay-missed", b"some")],
        [(b"delay-every", b"10ms")],
        pick(b"delay", b"delay-missed"),
        pick(b"delay-id"),
        [*pick(b"delay-id"), (b"delay-ms", b"0")],
        pick(b"delay-ttl"),
        [*pick(b"delay"), (b"delay-id", b"orders.0.1.1767225600000")],
        [*pick(b"delay"), (b"delay-id", b"x" * 257)],
        [*pick(b"delay-op"), (b"delay-ref", b"x" * 257)],
    ],
    ids=lambda headers: " ".join(name.decode() for name, _ in headers),
)
def test_a_combination_that_makes_no_sense_is_invalid(headers: list[Header]) -> None:
    assert reason_of(*headers) == Reason.INVALID


DIRECTIVES = st.tuples(
    st.sampled_from([*VALID, *sorted(RESERVED | ECHOED), b"trace"]),
    st.one_of(st.sampled_from([*VALID.values(), b"0", b"-1", b"0s"]), st.binary(max_size=70), st.none()),
)


@given(st.lists(DIRECTIVES, max_size=4), st.integers(0, 1 << 53))
def test_every_set_of_headers_has_a_verdict_that_the_index_has_room_for(headers: list[Header], now_ms: int) -> None:
    match read_directives(headers, now_ms, DEFAULT_RULES):
        case Schedule(due_ms):
            assert 0 <= due_ms <= now_ms + HORIZON_MAX_MS
        case verdict:
            assert isinstance(verdict, Immediate | Invalid | Op)


@given(st.lists(DIRECTIVES, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_headers_does_not_decide_whether_they_are_accepted(
    headers: list[Header], random: object
) -> None:
    shuffled = list(headers)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    verdict, other = read(*headers), read(*shuffled)
    assert verdict == other or (isinstance(verdict, Invalid) and isinstance(other, Invalid))


@given(
    st.sampled_from([b"delay-ms", b"deliver-at"]),
    st.one_of(
        st.integers(-1, 1 << 53).map(lambda number: b"%d" % number),
        st.integers(HORIZON_MS - 1, HORIZON_MS + 1).map(lambda number: b"%d" % number),
        st.integers(NOW_MS + HORIZON_MS - 1, NOW_MS + HORIZON_MS + 1).map(lambda number: b"%d" % number),
        st.integers(10**11 - 1, 10**11 + 1).map(lambda number: b"%d" % number),
        st.from_regex(rb"[0-9]{1,20}", fullmatch=True),
        st.binary(max_size=20),
        st.none(),
    ),
)
def test_the_short_way_for_one_plain_directive_agrees_with_the_long_way(name: bytes, value: bytes | None) -> None:
    assert read((name, value)) == read((name, value), (b"trace", b"two headers go the long way"))
