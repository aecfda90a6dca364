"""Which records of a batch are delayed, and when it is refused."""

import pytest
from prometheus_client import CollectorRegistry

from delayline.schedule.rules import DEFAULT_RULES, Rules
from delayline.schedule.unheeded import UnheededNames, Why
from kafkawire.batch.head import Codec, read_batch
from kafkawire.protocol.errors import CorruptBatch, ErrorCode
from proxy.kafka.produce.screen import RECORD_ERRORS_MAX, Refusal, Screen, Seen, Target, fits
from tests.unit.mq.kafka.batches import CODECS, Sent, batch_of, plain

NOW_MS = 1_767_225_600_000
SCREEN = Screen(lambda _: DEFAULT_RULES, horizon_max_ms=86_400_000)
every_codec = pytest.mark.parametrize("codec", CODECS)
ROOMY = Target(record_bytes_max=1000, batch_bytes_max=10_000, compacted=False)


def looked_at(*records: Sent) -> Seen:
    return SCREEN.look("orders", read_batch(batch_of(list(records))), NOW_MS)


def verdict(seen: Seen, target: Target) -> Refusal | None:
    return fits(seen, seen.scan.split(seen.delayed), target)


def test_records_with_a_time_are_delayed_and_those_without_are_not() -> None:
    seen = looked_at(plain(0), plain(1, delay=b"1h"), plain(2, delay_ms=b"0"), plain(3, deliver_at=b"1"))
    assert seen.refusal is not None  # 1 looks like seconds
    seen = looked_at(plain(0), plain(1, delay=b"1h"), plain(2, delay_ms=b"0"), plain(3, trace=b"delay"))
    assert (seen.delayed, seen.refusal) == ({1}, None)


@pytest.mark.parametrize(
    ("headers", "about"),
    [
        ({"delay": b"soon"}, "delay: "),
        ({"delay": b"2d"}, "delay: due later than 1d"),
        ({"delay_ms": b"1", "delay": b"1s"}, "delay: "),
        ({"delay_id": b"7"}, "delay-id: "),
        ({"delayline_origin": b"a.0.1.2"}, "delayline-origin: "),
        ({"delay_retry": b"billing", "delay": b"1s"}, "delay-retry: "),
        ({"delayline_attempt": b"-1", "delay_retry": b"billing"}, "delayline-attempt: "),
    ],
)
def test_an_invalid_directive_refuses_the_batch_and_names_the_record(headers: dict[str, bytes], about: str) -> None:
    refusal = looked_at(plain(0), plain(1, **headers)).refusal
    assert refusal is not None
    assert refusal.code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in refusal.record_errors] == [1]
    assert (refusal.record_errors[0].batch_index_error_message or "").startswith(about)


def test_what_a_consumer_group_sends_back_is_delayed_and_what_it_only_passes_on_is_not() -> None:
    seen = looked_at(plain(0, delayline_attempt=b"x"), plain(1, delayline_attempt=b"1", delay_retry=b"billing"))
    assert (seen.delayed, seen.refusal) == ({1}, None)


def test_the_errors_reported_of_a_batch_are_bounded() -> None:
    refusal = looked_at(*(plain(n, delay=b"soon") for n in range(RECORD_ERRORS_MAX + 50))).refusal
    assert refusal is not None
    assert len(refusal.record_errors) == RECORD_ERRORS_MAX


def test_a_delayed_batch_with_a_wrong_checksum_is_found_out_before_anything_is_written() -> None:
    data = bytearray(batch_of([plain(1, delay=b"1h")]))
    data[20] ^= 1
    with pytest.raises(CorruptBatch):
        SCREEN.look("orders", read_batch(data), NOW_MS)


# --- a topic with a default delay

BY_DEFAULT = Screen(lambda topic: Rules(default_delay_ms=1000 * (topic == "mail")), horizon_max_ms=86_400_000)


@every_codec
@pytest.mark.parametrize(
    ("topic", "records", "delayed"),
    [
        ("mail", [plain(0), plain(1)], {0, 1}),
        ("orders", [plain(0), plain(1)], set()),
        ("mail", [plain(0), plain(1, delay_ms=b"0"), plain(2, delay=b"5s"), plain(3, trace=b"x")], {0, 2, 3}),
        ("mail", [plain(0, delay_ms=b"0"), plain(1, delay=b"0s")], set()),
        ("mail", [plain(0, delayline_id=b"mail.0.1.2")], {0}),
    ],
)
def test_records_without_a_time_are_delayed_where_the_topic_has_a_default(
    topic: str, records: list[Sent], delayed: set[int], codec: int
) -> None:
    seen = BY_DEFAULT.look(topic, read_batch(batch_of(records, codec)), NOW_MS)
    parts = seen.scan.split(seen.delayed)
    assert (seen.delayed, seen.refusal) == (delayed, None)
    assert len(parts.delayed_at) + len(parts.immediate_at) == len(records)


def test_a_record_that_is_delayed_by_default_must_fit_like_any_other() -> None:
    keyless, large = plain(0)._replace(key=None), plain(1)._replace(value=bytes(2000))
    seen = BY_DEFAULT.look("mail", read_batch(batch_of([keyless, large])), NOW_MS)
    for target, code in ((ROOMY, 10), (Target(9000, 9000, compacted=True), 87)):
        refused = verdict(seen, target)
        assert refused is not None
        assert refused.code == code


def test_a_wrong_checksum_is_found_out_where_nothing_but_the_default_delays() -> None:
    data = bytearray(batch_of([plain(0)]))
    data[20] ^= 1
    with pytest.raises(CorruptBatch):
        BY_DEFAULT.look("mail", read_batch(data), NOW_MS)


def test_records_too_old_for_headers_are_refused_where_they_would_be_delayed() -> None:
    refusal = BY_DEFAULT.look_at_legacy("mail")
    assert refusal is not None
    assert refusal.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert BY_DEFAULT.look_at_legacy("orders") is None


@pytest.mark.parametrize(
    ("records", "adds"),
    [
        ([plain(0)], (0, 0)),
        ([plain(0), plain(1, delay=b"1h"), plain(2, delay=b"1h")], (2, 0)),
        ([plain(0, delay=b"1h"), plain(1, delay_every=b"1h"), plain(2, delay_cron=b"0 9 * * *")], (3, 2)),
        ([plain(0, delay_op=b"cancel", delay_ref=b"orders.0.1.1767225600000")], (0, 0)),
        ([plain(0, delay_op=b"cancel", delay_ref=b"orders.0.1.1767225600000"), plain(1, delay=b"1h")], (1, 0)),
    ],
)
def test_what_a_batch_adds_to_what_waits_is_counted_and_an_operation_adds_nothing(
    records: list[Sent], adds: tuple[int, int]
) -> None:
    seen = looked_at(*records)
    assert (seen.adds, seen.repeats) == adds


def test_a_batch_that_fits_is_taken() -> None:
    assert verdict(looked_at(plain(0), plain(1, delay=b"1h")), ROOMY) is None


def test_a_record_too_large_for_its_topic_is_refused_only_when_it_is_delayed() -> None:
    large = plain(0)._replace(value=bytes(2000))
    assert verdict(looked_at(large, plain(1, delay=b"1h")), ROOMY) is None
    refused = verdict(looked_at(large._replace(headers=[("delay", b"1h")])), ROOMY)
    assert refused is not None
    assert refused.code == ErrorCode.MESSAGE_TOO_LARGE


def test_more_delayed_records_than_a_batch_of_the_buffer_holds_are_refused() -> None:
    refused = verdict(looked_at(*(plain(n, delay=b"1h") for n in range(400))), ROOMY)
    assert refused is not None
    assert refused.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_compacted_topic_needs_keys_of_delayed_records() -> None:
    compacted = Target(1000, 10_000, compacted=True)
    keyless = plain(1, delay=b"1h")._replace(key=None)
    refused = verdict(looked_at(plain(0)._replace(key=None), plain(2, delay=b"1h"), keyless), compacted)
    assert refused is not None
    assert [one.batch_index for one in refused.record_errors] == [2]


# --- names that are like a directive's


def test_a_name_that_is_like_a_directive_refuses_the_batch_and_names_both() -> None:
    refusal = looked_at(plain(0), plain(1, Delay=b"5s")).refusal
    assert refusal is not None
    assert refusal.code == ErrorCode.INVALID_RECORD
    assert refusal.message == "record 1: `Delay` is no directive; `delay` is one"
    assert [one.batch_index for one in refusal.record_errors] == [1]


@pytest.mark.parametrize("name", ["DELAY", "DELAY_MS", "Deliver_At", "Delay_Ms", "delays", "delay_tttl"])
def test_such_names_are_found_in_any_record(name: str) -> None:
    assert looked_at(plain(0), plain(1), plain(2, **{name: b"5s"})).refusal is not None


@every_codec
@pytest.mark.parametrize("name", ["dely", "dealy", "deley", "dlay", "Deliver_at"])
def test_who_writes_a_name_wrong_in_every_record_is_refused(name: str, codec: Codec) -> None:
    data = batch_of([plain(n, **{name: b"5s"}) for n in range(3)], codec=codec)
    refusal = SCREEN.look("orders", read_batch(data), NOW_MS).refusal
    assert refusal is not None
    assert [one.batch_index for one in refusal.record_errors] == [0, 1, 2]


def test_a_users_own_header_under_delay_passes_and_is_counted() -> None:
    unheeded = UnheededNames(CollectorRegistry())
    screen = Screen(lambda _: DEFAULT_RULES, 86_400_000, unheeded=unheeded)
    data = batch_of([plain(0, delay_reason=b"rain"), plain(1, delay_reason=b"snow", delay=b"1h")])
    seen = screen.look("orders", read_batch(data), NOW_MS)
    assert (seen.delayed, seen.refusal) == ({1}, None)
    assert unheeded.of("orders") == [("orders", "delay-reason", Why.NAME, 2)]


def test_it_is_refused_where_unknown_names_are() -> None:
    screen = Screen(lambda _: DEFAULT_RULES, 86_400_000, refuse_unknown=True)
    refusal = screen.look("orders", read_batch(batch_of([plain(0, delay_reason=b"rain")])), NOW_MS).refusal
    assert refusal is not None
    assert "`delay-reason` is no directive" in refusal.message


@pytest.mark.parametrize("headers", [{"relay": b"1"}, {"trace": b"Delay"}, {"delayline_id": b"orders.0.1.2"}])
def test_what_is_like_no_directive_is_the_applications(headers: dict[str, bytes]) -> None:
    seen = looked_at(plain(0, **headers))
    assert (seen.delayed, seen.refusal) == (set(), None)
