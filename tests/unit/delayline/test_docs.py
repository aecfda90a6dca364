"""The reference pages describe what the code does."""

import json
import re
from itertools import islice
from pathlib import Path

import pytest

from cli.kafka_rights import OWN, RIGHTS, ROLES, operations
from delay_service.core.operations import NOT_PENDING
from delay_service.core.retries import EXHAUSTED, RETRIED
from delay_service.core.shard import SURPLUS
from delay_service.core.skipping import SKIPPED
from delay_service.worker.batching import TARGET_REFUSES
from delayline.buffer.cursor import Cursor
from delayline.buffer.decisions import encode_decision
from delayline.buffer.facts import row_id_of
from delayline.buffer.outcome import (
    CANCELLED,
    DEADLINE,
    FORWARDED,
    LATE_MAX,
    MISSED,
    PURGED,
    REPAIR,
    REPLACED,
    RESCHEDULED,
    ROLL,
    SCHEDULED,
    AuditRow,
    Outcome,
    encode_audit,
    encode_low_water,
    encode_skipped,
    spread,
)
from delayline.buffer.record import Message, encode_reappend, encode_rules, read
from delayline.config import EMBEDDED, Settings, describe, load_settings
from delayline.questions.inquiry import IDEMPOTENCY, IDEMPOTENCY_REUSED, OWN_ID, VERSION_MISMATCH
from delayline.records.message import Key, MessageId, Shard
from delayline.records.record import decode_body, encode_body
from delayline.records.set_aside import MALFORMED_BATCH
from delayline.schedule.directives import directive_names
from delayline.schedule.recurrence import first, ticks
from delayline.schedule.rules import ALIASES, DEFAULT_RULES, Rules
from delayline.schedule.terms import Series, Terms
from delayline.schedule.verdict import Reason, Schedule, read_directives
from delayline.times import format_moment, parse_moment_ms
from kafkawire.batch.walk import RECORDS_MAX
from mq.kafka.worker.mirror import shard_key
from proxy.kafka.produce.scan import PLAIN_BYTES_MAX

DOCS = Path(__file__).parents[3] / "docs"
NOW_MS = 1_767_225_600_000
KEY = Key(NOW_MS + 30_000, 1041)
ORIGIN = "orders.3.1041.1767225630000"


def rows(page: str, columns: int) -> list[list[str]]:
    """Rows with code in their first column, of the page's tables with that many columns, without back ticks."""
    lines = [line for line in (DOCS / page).read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == columns]


def block(page: str, language: str) -> str:
    """The one fenced block of the page with this information string."""
    found = re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert len(found) == 1, f"{page} has {len(found)} blocks of {language}"
    return str(found[0])


# --- configuration


def defaults_on_page() -> dict[str, str]:
    return {key: value for key, value, _ in rows("configuration.md", 3)}


def test_the_page_names_every_setting_once() -> None:
    keys = [key for key, _, _ in rows("configuration.md", 3)]
    assert sorted(keys) == sorted(key for key, _, _ in describe(Settings()))


NOT_EMPTY = ("store.encryption_key", "store.encryption_key_before")
"""Settings that are refused where they are written and empty: nothing would be encrypted."""


def test_the_defaults_on_the_page_are_the_defaults(tmp_path: Path) -> None:
    written_out = {key: value for key, value in defaults_on_page().items() if key not in NOT_EMPTY}
    environ = {f"DELAYLINE_{key.upper().replace('.', '__')}": value for key, value in written_out.items()}
    written = load_settings(None, {}, environ, tmp_path)
    assert [row[:2] for row in describe(written)] == [row[:2] for row in describe(Settings())]


def test_the_page_distinguishes_settings_that_work_from_those_that_are_for_brokers() -> None:
    text = (DOCS / "configuration.md").read_text()
    section = text.partition("### For Kafka")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z_.]+)` \|", section, re.MULTILINE)) == set(EMBEDDED)


def test_the_file_on_the_page_can_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "delayline.toml").write_text(block("configuration.md", "toml"))
    settings = load_settings(None, {}, {}, tmp_path)
    assert (settings.api.port, settings.delay.topics) == (9000, ("orders", "mail-*"))


# --- directives


TIMES = [(name, example, due) for name, _, example, due in rows("directives.md", 4) if name not in ALIASES]
FOREIGN = [(name, example, due) for family, name, example, due in rows("directives.md", 4) if family in ALIASES]
OPERATIONS = rows("directives.md", 2)
TERMS = [(name, example) for name, _, example in rows("directives.md", 3)]


def test_the_page_names_every_directive() -> None:
    assert {name.encode() for name, *_ in [*TIMES, *OPERATIONS, *TERMS]} == directive_names(())
    foreign = directive_names(ALIASES) - directive_names(())
    assert foreign - {name.encode() for name, *_ in FOREIGN} == {b"scheduler-target-topic", b"scheduler-target-key"}


@pytest.mark.parametrize(("name", "example", "due"), [*TIMES, *FOREIGN])
def test_an_example_is_due_when_documented(name: str, example: str, due: str) -> None:
    verdict = read_directives([(name.encode(), example.encode())], NOW_MS, Rules(aliases=ALIASES))
    assert isinstance(verdict, Schedule)
    assert format_moment(verdict.due_ms) == due


@pytest.mark.parametrize(("name", "example"), TERMS)
def test_an_example_of_more_than_a_time_is_accepted(name: str, example: str) -> None:
    needed = {"delay-on-conflict": "delay-id", "delay-time-zone": "delay-cron", "delay-times": "delay-every"}
    needed |= {"delay-backoff": "delay-every", "delay-missed": "delay-every"}
    names = {name, needed.get(name, name)}
    examples = dict(TERMS)
    headers = [(one.encode(), examples[one].encode()) for one in sorted(names)]
    if not names & {"delay-cron", "delay-every"}:
        headers.append((b"delay", b"1h"))
    verdict = read_directives(headers, NOW_MS, DEFAULT_RULES)
    assert isinstance(verdict, Schedule)
    assert verdict.terms is not None


@pytest.mark.parametrize(("cron", "zone", "after", "due", "_"), rows("directives.md", 5))
def test_a_repeat_on_the_page_is_due_when_documented(cron: str, zone: str, after: str, due: str, _: str) -> None:
    moments = [parse_moment_ms(text) for text in due.split()]
    begins = first(cron, zone, parse_moment_ms(after))
    assert begins is not None
    assert [*islice(ticks(Series(cron=cron, zone=zone), begins), len(moments))] == moments


# --- formats


def test_the_example_of_a_message_id_has_the_parts_that_the_page_names() -> None:
    parsed = MessageId.parse(block("formats/message-id.md", "text").strip())
    assert parsed == MessageId(Shard("eu.orders", "3"), 1041, 1_767_225_630_000)


def test_the_page_documents_how_an_occurrence_is_called() -> None:
    name = block("formats/message-id.md", "text").strip()
    assert row_id_of(name, Terms(series=Series(every_ms=1000))) == f"{name}~1"
    assert MessageId.parse(f"{name}~2").occurrence == 2
    assert re.findall(r"\.<due_ms>~<n> +(.+)", (DOCS / "formats/message-id.md").read_text()) == [
        "occurrence n of a series, from 1 on"
    ]


def test_the_page_documents_under_which_key_a_cursor_stands() -> None:
    key = shard_key(Shard("orders", "3")).decode()
    assert f"key `<topic>.<shard>`, here `{key}`" in (DOCS / "formats/cursor.md").read_text()


def test_the_example_of_a_cursor_is_its_encoding() -> None:
    cursor = Cursor(
        topic_id=bytes(range(16)), next_offset=1042, delivered_key=KEY, low_offset=1000, owner_epoch=3, writer="w1"
    )
    assert cursor.encode() == bytes.fromhex(block("formats/cursor.md", "hex")) + DEFAULT_RULES.encoded


def test_the_example_of_an_audit_record_is_its_value() -> None:
    written = [
        AuditRow(1041, ORIGIN, KEY.due_ms, NOW_MS, Outcome.DELIVERED),
        AuditRow(1042, None, None, NOW_MS + 100, Outcome.APPLIED),
    ]
    body = next(encode_audit(Shard("orders", "3"), 3, NOW_MS + 30_012, written))
    assert json.loads(decode_body(body).value or b"") == json.loads(block("formats/audit.md", "json"))


REFUSED = [*map(str, Reason), "malformed-record", MALFORMED_BATCH]
DEAD = [*REFUSED, "refused-by-target", "refused-by-buffer", TARGET_REFUSES, SURPLUS[0], EXHAUSTED, SKIPPED]
REASONS = {
    Outcome.DELIVERED: ["none", RETRIED],
    Outcome.CANCELLED: [CANCELLED, PURGED],
    Outcome.EXPIRED: [DEADLINE, LATE_MAX, MISSED],
    Outcome.DEAD: DEAD,
    Outcome.DUPLICATE: [OWN_ID, IDEMPOTENCY, IDEMPOTENCY_REUSED],
    Outcome.SUPERSEDED: [RESCHEDULED, SCHEDULED, MISSED, ROLL, REPAIR, REPLACED],
    Outcome.APPLIED: ["none", CANCELLED, RESCHEDULED, FORWARDED, "paused", "resumed", PURGED, SKIPPED],
    Outcome.UNMATCHED: [NOT_PENDING, VERSION_MISMATCH],
}


def test_the_page_names_every_outcome_with_its_reasons() -> None:
    named: dict[str, list[str]] = {}
    for outcome, reasons, _ in rows("formats/audit.md", 3):
        named.setdefault(outcome, []).extend(re.findall(r"[a-z-]+", reasons))
    assert named == {outcome.value: reasons for outcome, reasons in REASONS.items()}
    assert set(REASONS) == set(Outcome)


def test_the_page_documents_in_which_partition_of_the_audit_a_shard_s_rows_stand() -> None:
    found = re.findall(r"`orders\.3` of four is in partition (\d)", (DOCS / "formats/audit.md").read_text())
    assert found == [str(spread(Shard("orders", "3"), 4))]


def message() -> Message:
    found = read(encode_body(b"7", b"hi", [(b"delay", b"30s"), (b"src", b"web")]), NOW_MS, DEFAULT_RULES)
    assert isinstance(found, Message)
    return found


def test_the_example_of_an_index_value_is_its_encoding() -> None:
    assert message().value == bytes.fromhex(block("formats/buffer.md", "hex message"))


def test_the_example_of_a_decision_is_its_encoding() -> None:
    assert encode_decision([KEY]) == bytes.fromhex(block("formats/buffer.md", "hex decision"))


def test_the_example_of_rules_is_their_value() -> None:
    value = decode_body(encode_rules(DEFAULT_RULES.numbered(1))).value or b""
    assert json.loads(value) == json.loads(block("formats/buffer.md", "json"))


def test_the_example_of_a_reappend_is_its_encoding() -> None:
    text = block("formats/buffer.md", "text").replace("\n", "")
    expected = text.encode().decode("unicode_escape").encode("latin-1")
    assert encode_reappend(message().value, KEY, ORIGIN, KEY.due_ms) == expected


def test_the_example_of_a_skip_is_its_value() -> None:
    body = encode_skipped(Shard("orders", "3"), 3, NOW_MS + 60_000, 1042, 1045)
    assert json.loads(decode_body(body).value or b"") == json.loads(block("formats/audit.md", "json skipped"))


def test_the_example_of_a_low_water_mark_is_its_value() -> None:
    body = encode_low_water(Shard("orders", "3"), 3, NOW_MS + 60_000, 1043, NOW_MS + 59_990, 17)
    assert json.loads(decode_body(body).value or b"") == json.loads(block("formats/audit.md", "json low_water"))


def test_the_rights_on_the_page_are_those_that_are_looked_for() -> None:
    page = (DOCS / "deploy.md").read_text().split("## Rights")[1].split("## ")[0]
    found = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    assert found == [[right.resource, right.operation, ", ".join(right.roles), right.why] for right in RIGHTS]
    assert operations(OWN) >= {"ALTER", "ALTER_CONFIGS", "DELETE"}
    assert {role for right in RIGHTS for role in right.roles} == set(ROLES)


def test_the_limits_of_a_batch_on_the_page_are_those_of_the_proxy() -> None:
    page = (DOCS / "kafka-clients.md").read_text().split("## Limits")[1]
    assert f"{PLAIN_BYTES_MAX} bytes of records" in page
    assert f"{RECORDS_MAX} records" in page
