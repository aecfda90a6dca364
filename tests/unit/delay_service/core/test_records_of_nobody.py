"""Records that no version of the program has written, straight into a buffer: whatever they contain, what waits
before and behind them is delivered, each has one outcome, and no process ends."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delayline.buffer.decisions import encode_decision
from delayline.buffer.outcome import Outcome
from delayline.buffer.record import encode_rules
from delayline.records.headers import (
    ACCEPTED,
    CONTROL,
    DECISION,
    DUE,
    IDEMPOTENCY,
    ORIGIN,
    REPLACES,
    RULES,
    SET_ASIDE,
    TERMS,
    VERSION,
)
from delayline.records.message import Header, Key
from delayline.records.record import decode_body, encode_body
from delayline.records.set_aside import encode_set_aside
from delayline.schedule.directives import KEPT_MAX
from delayline.schedule.rules import NUMBERS_END, RULES_BYTES_MAX, Rules
from mq.contract import Fetched
from tests.tiers import examples
from tests.unit.delay_service.core.test_claims import HOUR, restart, rows
from tests.unit.delay_service.harness import NAMES, Bench

NOW_MS = 1_767_225_600_000


def decision(value: object, version: bytes | None = b"1") -> bytes:
    data = value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
    return encode_body(None, data, [(DECISION, version)])


def rules(value: bytes | None) -> bytes:
    return encode_body(None, value, [(RULES, b"1")])


def reappend(terms: object = None, **headers: bytes | None) -> bytes:
    """`headers` by what stands behind `delayline-`."""
    given: dict[bytes, bytes | None] = {
        ACCEPTED: b"5",
        ORIGIN: b"orders.0.0.5",
        REPLACES: b"5.0",
        DUE: b"5",
        VERSION: b"1",
        **{b"delayline-" + name.encode(): value for name, value in headers.items()},
    }
    if terms is not None:
        given[TERMS] = terms if isinstance(terms, bytes) else json.dumps(terms).encode()
    found: list[Header] = [(name, value) for name, value in given.items() if value is not None]
    return encode_body(None, b"again", found)


def series(**fields: object) -> bytes:
    return reappend({"series": {"every_ms": 1000, **fields}})


FAR = (1 << 63) - 1
SEALING = [b"delayline-accepted", b"delayline-id", b"delayline-due"]
QUARANTINED = {
    "a decision without a value": decision(b""),
    "a decision that is no MessagePack": decision(b"\xc1"),
    "a decision with columns of two lengths": decision({"due": [1, 2], "off": [1]}),
    "a decision that names no key": decision({"due": [-1], "off": [0]}),
    "a decision that names an offset beyond all": decision({"due": [0], "off": [1 << 63]}),
    "a decision without a version": decision({"due": [], "off": []}, None),
    "a decision of a version that is no number": decision({"due": [], "off": []}, b"x"),
    "a decision of version 0": decision({"due": [], "off": []}, b"0"),
    "rules without a value": rules(None),
    "rules that are no JSON": rules(b"{"),
    "rules that are no object": rules(b"[1]"),
    "rules of another type": rules(b'{"levels_ms": "x"}'),
    "rules without a field": rules(b"{}"),
    "rules without a parser": rules(b'{"number":1,"levels_ms":[1000],"aliases":[]}'),
    "rules without aliases": rules(b'{"number":1,"parser":1,"levels_ms":[1000]}'),
    "rules with a field of no version": rules(b'{"number":1,"parser":1,"levels_ms":[1000],"aliases":[],"x":1}'),
    "rules with a number beyond all": rules(Rules(number=10**40).encoded),
    "rules with more levels than settings take": rules(Rules(levels_ms=(1,) * 65).encoded),
    "rules with a family named twice": rules(Rules(aliases=("etf1", "etf1")).encoded),
    "rules with attempts beyond what settings take": rules(Rules(retry_attempts_max=1001).encoded),
    "rules of parser 0": rules(Rules(parser=0).encoded),
    "rules without levels": rules(Rules(levels_ms=()).encoded),
    "rules with a level beyond the horizon": rules(Rules(levels_ms=(1 << 62,)).encoded),
    "rules that no cursor has room for": rules(
        Rules(levels_ms=tuple(range(10_000, 10_000 + RULES_BYTES_MAX))).encoded
    ),
    "rules nested without end": rules(b'{"x":' * 100_000),
    "a control without a value": encode_body(None, None, [(CONTROL, None)]),
    "a control that nobody knows": encode_body(None, None, [(CONTROL, b"explode")]),
    "terms that are no JSON": reappend(b"{"),
    "terms that are no object": reappend([1]),
    "terms of another type": reappend({"ttl_ms": "x"}),
    "terms nested without end": reappend(b'{"series":{"x":' + b"[" * 100_000),
    "a series without a time": reappend({"series": {}}),
    "a series with two": series(cron="* * * * *"),
    "a series of no gap": series(every_ms=0),
    "a series that goes back": series(every_ms=-1000),
    "a series of gaps beyond the horizon": series(every_ms=FAR),
    "a cron expression that is none": reappend({"series": {"cron": "x"}}),
    "a zone that is no name": reappend({"series": {"cron": "* * * * *", "zone": "../x"}}),
    "a series that shrinks": series(backoff=0.5),
    "a series that grows without bound": series(backoff=1e300),
    "a series with no delivery left": series(times_left=0),
    "a series that makes up otherwise": series(missed="some"),
    "an occurrence that is none": series(occurrence=0),
    "a re-append that is due in the year 33,658": reappend(due=b"%d" % 10**15),
    "a re-append that is due when nothing is": reappend(due=b"%d" % 10**18),
    "a re-append of what was never due": reappend(replaces=b"%d.0" % 10**18),
    "a re-append that was accepted in the year 33,658": reappend(accepted=b"%d" % 10**15),
    "a re-append of an id that is none": reappend(origin=b"orders.0.0.%d" % 10**18),
    "a re-append whose version nobody counts to": reappend(version=b"%d" % 10**18),
    "a re-append with digits of another script": reappend(due="٥".encode()),
    "a re-append with a blank before its time": reappend(due=b" 5"),
    "a deadline in the year 33,658": reappend({"expire_at_ms": 10**15}),
    "a deadline before all time": reappend({"expire_at_ms": -1}),
    "a deadline behind all time": reappend({"ttl_ms": FAR}),
    "an own id beyond all length": reappend({"own_id": "x" * 70_000}),
    "an own id that looks like another's": reappend({"own_id": "orders.0.1.2"}),
    "a key beyond all length": reappend({"idempotency": {"key": "x" * 70_000, "digest": "d"}}),
    "a key beyond all length, of a message": encode_body(
        None, b"x", [(b"delay-ms", b"1000"), (IDEMPOTENCY, b"digest " + b"k" * 70_000)]
    ),
    "a group that is no name": reappend({"retry": {"group": "a b"}}),
    "a group that has failed less than never": reappend({"retry": {"group": "g", "attempt": -1}}),
}

STALLING = {
    "a decision of a later version": decision({}, b"2"),
    "rules of a later parser": rules(Rules(parser=99).encoded),
    "rules of a later parser with other fields": rules(b'{"parser": 99, "levels_ms": "x"}'),
    "rules with an alias family of a later version": rules(Rules(aliases=("sqs",)).encoded),
    "terms of a later version": reappend({"weather": "fair"}),
    "a zone of a later version": reappend({"series": {"cron": "* * * * *", "zone": "Mars/Base"}}),
}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def around(bench: Bench, body: bytes) -> int:
    """Between two messages; its offset."""
    bench.turn()
    bench.send(b"before", (b"delay-ms", b"%d" % HOUR))
    offset = bench.send_raw(body)
    bench.send(b"behind", (b"delay-ms", b"%d" % HOUR))
    bench.turn()
    bench.clock.advance(HOUR)
    bench.turn(6)
    return offset


@pytest.mark.parametrize("body", QUARANTINED.values(), ids=QUARANTINED)
def test_what_no_version_has_written_is_a_dead_letter_with_its_bytes_and_the_shard_goes_on(
    bench: Bench, body: bytes
) -> None:
    offset = around(bench, body)
    assert bench.delivered() == [b"before", b"behind"]
    assert (bench.worker.statuses[0].stalled, bench.worker.statuses[0].ready) == (None, True)
    (dead,) = [decode_body(record.body) for record in bench.log(NAMES.dead)]
    came = decode_body(body)
    assert (dead.key, dead.value, dead.headers[: len(came.headers)]) == (came.key, came.value, came.headers)
    assert dict(dead.headers)[b"delayline-error-code"] == b"malformed-record"
    assert [row[:2] for row in rows(bench) if row[0] == offset] == [(offset, Outcome.DEAD)]


@pytest.mark.parametrize("body", QUARANTINED.values(), ids=QUARANTINED)
def test_the_next_owner_reads_it_in_the_same_way(bench: Bench, body: bytes) -> None:
    around(bench, body)
    outcomes = rows(bench)
    restart(bench, lose_index=True)
    assert (rows(bench), len(bench.log(NAMES.dead))) == (outcomes, 1)


@pytest.mark.parametrize("body", STALLING.values(), ids=STALLING)
def test_what_a_later_version_may_have_written_stops_reading_and_what_is_read_is_delivered(
    bench: Bench, body: bytes
) -> None:
    around(bench, body)
    assert (bench.delivered(), bench.worker.statuses[0].stalled) == ([b"before"], "unknown_format")
    assert len(bench.log(NAMES.dead)) == 0


OURS = st.sampled_from([ACCEPTED, CONTROL, DECISION, DUE, ORIGIN, REPLACES, RULES, TERMS, VERSION, SET_ASIDE])
TEXTS = st.sampled_from([b"0", b"1", b"5.0", b"orders.0.0.5", b"-1", b"9223372036854775807", b"9223372036854775808"])
JSONS = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["series", "cron", "every_ms", "due", "off", "ttl_ms", "levels_ms", "own_id", "retry"]),
            inner,
        )
    ),
    max_leaves=5,
)
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=12),
    TEXTS,
    JSONS.map(lambda value: json.dumps(value).encode()),
    JSONS.filter(lambda value: value == value).map(repr).map(str.encode),
)


@pytest.mark.slow
@settings(max_examples=examples(1200), deadline=None)
@given(VALUES, st.lists(st.tuples(OURS, VALUES), min_size=1, max_size=7))
@example(None, [(DECISION, b"1")])
def test_no_record_ends_the_process_whatever_it_contains(value: bytes | None, headers: list[Header]) -> None:
    bench = Bench()
    around(bench, encode_body(None, value, headers))
    bench.clock.advance(HOUR)
    bench.turn(4)
    assert b"before" in bench.delivered()


def test_a_message_with_the_header_of_a_set_aside_batch_is_delivered_without_it(bench: Bench) -> None:
    """The mark belongs to the reader, and is never read from a log."""
    headers = [(b"delay-ms", b"1"), (SET_ASIDE, b"offsets 1 to 2"), (b"mine", b"x")]
    around(bench, encode_body(None, b"good", headers))
    assert bench.delivered() == [b"good", b"before", b"behind"]
    (good, *_) = [decode_body(record.body).headers for record in bench.log("orders")]
    assert [name for name, _ in good] == [b"mine", *SEALING]
    assert len(bench.log(NAMES.dead)) == 0


def test_a_batch_that_the_reader_has_set_aside_is_a_dead_letter(bench: Bench) -> None:
    bench.turn()
    offset, source = bench.send(b"in its place", (b"delay-ms", b"1")), bench.source
    poll, aside = source.poll, encode_set_aside(offset, offset, b"raw", 10, "unreadable")

    def polled(*given: Any) -> list[Any]:
        return [
            event._replace(records=[(*record[:2], aside) for record in event.records])
            if isinstance(event, Fetched)
            else event
            for event in poll(*given)
        ]

    source.poll = polled
    bench.turn()
    (dead,) = [decode_body(record.body) for record in bench.log(NAMES.dead)]
    headers = dict(dead.headers)
    assert (dead.value, headers[b"delayline-error-code"]) == (b"raw", b"malformed-batch")
    assert (headers[b"delayline-reason"] or b"").endswith(b"unreadable")


def test_rules_with_the_last_number_are_followed_by_the_configured_ones(bench: Bench) -> None:
    bench.turn()
    bench.send_raw(encode_rules(Rules(number=NUMBERS_END - 1, levels_ms=(7,))))
    bench.turn(6)
    assert bench.worker.statuses[0].ready


def test_a_series_ends_with_the_last_moment_that_can_be_written(bench: Bench) -> None:
    """What its owner writes is always one that its reader takes."""
    around(bench, reappend({"series": {"every_ms": KEPT_MAX}}))
    assert (sorted(filter(None, bench.delivered())), len(bench.log(NAMES.dead))) == (
        [b"again", b"before", b"behind"],
        0,
    )


def test_what_the_owner_itself_writes_is_followed(bench: Bench) -> None:
    """The checks let through what they must: a decision and rules as they are."""
    bench.turn()
    bench.send_raw(encode_decision([Key(FAR, FAR)]))
    bench.send_raw(encode_rules(Rules(number=4)))
    bench.turn()
    bench.clock.advance(2000)
    bench.turn()
    assert [row[1] for row in rows(bench)] == [Outcome.APPLIED, Outcome.APPLIED]
