"""Names and numbers in the documents that the code knows too: each must be one that there is.

tests/unit/delayline/test_docs.py holds the reference pages against what they describe; here it is every page.
"""

import ast
import re
from collections.abc import Collection
from functools import cache
from itertools import product as pairs
from pathlib import Path
from typing import Any

import pytest

from api.http.idempotency import KEY_CHARS_MAX
from api.http.requests import QUERY_BYTES_MAX
from api.reading.own_topic import LOOKED_MAX
from api.reading.reader import PAGE_BYTES_MAX, PAGE_RECORDS_MAX
from api.routes import bulk, dead, finding, managing, records
from api.sending.drafts import HEADERS_MAX, KEY_BYTES_MAX
from cli import repair_commands
from delay_service.worker.owned import SUSPECTED_MIN
from delayline.buffer.cursor import SKIPPED_MAX
from delayline.config import EMBEDDED, Settings, describe, load_settings
from delayline.config.types import NAMESPACE_CHARS_MAX
from delayline.errors import ConfigError
from delayline.http.protocol import PIPELINED_MAX
from delayline.records import headers
from delayline.schedule.directives import GROUP_CHARS_MAX, OWN_ID_BYTES_MAX, directive_names
from delayline.schedule.rules import ALIASES, LEVELS_MAX
from delayline.schedule.unheeded import PAIRS_MAX
from delayline.times import TEXT_CHARS_MAX, parse_duration_ms
from reconcile.logic.ledger import Category
from reconcile.repair import Verdict
from reconcile.report.summary import State
from tests.test_tidy import ROOT, pages, product, tree

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: what belongs to it is unknown")

DOCS = ROOT / "docs"
PAST = {"CHANGELOG.md", "docs/adr/0013-own-client-for-the-data-path.md", "docs/data-path.md"}
"""Pages that name settings that do not exist any more, as such."""


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text()


def found(pattern: str, *, but: Collection[str] = ()) -> set[tuple[str, str]]:
    """Page and first group, of all pages."""
    return {(page, name) for page in pages() if page not in but for name in re.findall(pattern, text(page), re.M)}


def unknown(named: set[tuple[str, str]], known: set[str], at_least: int) -> list[tuple[str, str]]:
    """Those that there are not. That a pattern finds next to nothing any more is a failure, too."""
    assert len(named) >= at_least
    return sorted((page, name) for page, name in named if name not in known)


# --- settings and variables

KEYS = {key for key, _, _ in describe(Settings())}
SECTIONS = {key.partition(".")[0] for key in KEYS if "." in key}
FILES = {"reconcile.json", "topics.json", "log.py", "api.yaml", "proxy.yaml", "reconcile.yaml", "worker.yaml"}
FILES |= {"metrics.prom"}
NOT_SETTINGS = {"DELAYLINE_CONFIG", "DELAYLINE_URL", "DELAYLINE_API_PORT", "DELAYLINE_KEY", "DELAYLINE_KEY_FILE"}
NOT_SETTINGS |= {"DELAYLINE_CERTFILE", "DELAYLINE_KEYFILE"}
"""Where the settings and the server are; and what Kubernetes makes up."""


def test_every_setting_that_a_page_names_is_one() -> None:
    sections = "|".join(sorted(SECTIONS))
    named = found(rf"`((?:{sections})(?:\.[a-z_]+)+)(?=[` =])", but=PAST)
    groups = {key.rpartition(".")[0] for key in KEYS}
    assert unknown(named, KEYS | groups | FILES, 90) == []


def test_every_variable_that_a_page_names_is_a_setting() -> None:
    known = {f"DELAYLINE_{key.upper().replace('.', '__')}" for key in KEYS}
    assert unknown(found(r"\b(DELAYLINE_[A-Z_]+[A-Z])\b"), known | NOT_SETTINGS, 25) == []


RANGE = re.compile(r"[;,.] ([\d,.]+\w*) to ([\d,.]+\w*)(?=$|[.;] )")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
BESIDE = {
    "proxy.kafka.frame_bytes_max": {"proxy.kafka.held_bytes_max": "1TiB"},
    "proxy.kafka.held_bytes_max": {"proxy.kafka.frame_bytes_max": "1MiB"},
    "proxy.rocketmq.frame_bytes_max": {"proxy.rocketmq.held_bytes_max": "1TiB"},
    "proxy.rocketmq.held_bytes_max": {"proxy.rocketmq.frame_bytes_max": "4MiB"},
    "api.in_flight_bytes_max": {"api.body_bytes_max": "1KiB", "api.address_share_percent": "100"},
    "api.body_bytes_max": {"api.in_flight_bytes_max": "64GiB"},
    "api.address_share_percent": {"api.body_bytes_max": "1KiB"},
    "delay.horizon_max": {"delay.levels": "1s"},
    "access.session_lifetime": {"api.auth": "keys", "access.rules": "rules.toml", "access.keys": "keys.json"},
    "access.oidc.leeway": {
        "api.auth": "keys",
        "access.rules": "rules.toml",
        "access.oidc.issuer": "https://id.example",
        "access.oidc.audience": "api",
    },
}
"""Settings that have to be changed together."""


def ranges() -> list[Any]:
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.*?) \| (.*) \|$", text("docs/configuration.md"), re.M)
    return [
        pytest.param(key, *edges[0], id=key)
        for key, _, meaning in rows
        if key in KEYS and (edges := RANGE.findall(meaning)) and key != "namespace"
    ]


def _beyond(edge: str, by: int) -> str:
    """The next value, in the same way of writing."""
    plain = edge.replace(",", "")
    if plain.isdecimal():
        return str(int(plain) + by)
    if plain.endswith("B"):
        number, unit = re.findall(r"(\d+)(.*)", plain)[0]
        return f"{int(number) * UNITS[unit] + by}B"
    milliseconds = parse_duration_ms(plain)
    return f"{milliseconds + by}ms"


def _loads(key: str, value: str, folder: Path) -> bool:
    chosen = {key: value, **BESIDE.get(key, {})}
    if key in EMBEDDED:
        kind = "rocketmq" if key.startswith("proxy.rocketmq.") else "kafka"
        chosen |= {"mq.kind": kind, "mq.bootstrap_servers": "127.0.0.1:9", "delay.topics": "orders"}
    environ = {f"DELAYLINE_{name.upper().replace('.', '__')}": one for name, one in chosen.items()}
    try:
        load_settings(None, {}, environ, folder)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(("key", "least", "most"), ranges())
def test_a_setting_takes_what_the_page_documents_and_no_more(key: str, least: str, most: str, tmp_path: Path) -> None:
    assert _loads(key, least.replace(",", ""), tmp_path)
    assert _loads(key, most.replace(",", ""), tmp_path)
    assert not _loads(key, _beyond(most, 1), tmp_path)
    if not re.match(r"0\D*$", least):
        assert not _loads(key, _beyond(least, -1), tmp_path)


def test_most_settings_with_bounds_have_them_on_the_page() -> None:
    assert len(ranges()) > 35


# --- metrics, headers, files, make


def literals(pattern: str) -> set[str]:
    texts = (
        node.value
        for name in product()
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {word for one in texts for word in re.findall(pattern, one)}


def metrics() -> set[str]:
    """As they are written in code: whole, or in two parts where several ports have the same (`HttpGuard`), or where
    all of a job begin alike."""
    whole = literals(r"^delayline_[a-z_]+$")
    endings = {"connections", "connections_max", "connections_dropped"}
    parts = {f"{port}_{ending}" for port, ending in pairs(("delayline_http", "delayline_internal"), endings)}
    return whole | parts


def test_every_metric_that_a_page_names_is_one() -> None:
    named = found(r"`(delayline_(?!reconcile_|reconcile\b|internal_\.)[a-z_]+?)(?:_total)?(?=[`{])")
    known = {name.removesuffix("_total") for name in metrics()}
    assert unknown(named, known, 30) == []
    assert {f"_{name}" for name in ("connections", "connections_max", "connections_dropped")} <= _f_string_ends()


def _f_string_ends() -> set[str]:
    source = (ROOT / "delayline" / "http" / "guard.py").read_text()
    return set(re.findall(r'f"\{name\}(_[a-z_]+)"', source))


NOT_HEADERS = {
    *("delay-reason", "delayline-api", "delayline-proxy", "delayline-reconcile", "delayline-worker"),
    *("delayline-secrets", "delayline-console", "delayline-login"),
}
"""An example of a header that is no directive, Kubernetes' names, a client at a provider, and a cookie."""


def test_every_header_that_a_page_names_is_one() -> None:
    known = {value.decode() for value in vars(headers).values() if isinstance(value, bytes)}
    known |= {name.decode() for name in directive_names(ALIASES)}
    assert unknown(found(r"`((?:delay|delayline|deliver)-[a-z-]+)(?=[`:])"), known | NOT_HEADERS, 60) == []


def test_every_file_that_a_page_names_is_there() -> None:
    rooms = "delayline|mq|store|delay_service|api|proxy|reconcile|tests|bench|demo|deploy|docs"
    named = found(rf"`((?:{rooms})/[\w./-]*[\w/])`")
    assert len(named) > 60
    assert sorted((page, name) for page, name in named if not (ROOT / name).exists()) == []


def test_every_make_target_that_a_page_names_is_one() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", text("Makefile"), re.M))
    named = found(r"(?:`|^ {4}|^)(?:[A-Z]+=\S+ )*make ([a-z][a-z-]*)")
    assert unknown(named, targets, 40) == []


# --- numbers that are no settings

NUMBERS = [
    ("docs/http-api.md", f"| headers of a message | {HEADERS_MAX} |"),
    ("docs/http-api.md", f"| key | {KEY_BYTES_MAX} bytes |"),
    ("docs/http-api.md", f"| query | {QUERY_BYTES_MAX} bytes |"),
    ("docs/http-api.md", f"| requests sent before the answer to the first one | {PIPELINED_MAX} |"),
    ("docs/http-api.md", f"| `POST /v1/messages:cancel` under way | {bulk.AT_ONCE_MAX} |"),
    ("docs/http-api.md", f"| `Idempotency-Key` | {KEY_CHARS_MAX} characters |"),
    ("docs/http-api.md", f"1 to {KEY_CHARS_MAX} visible ASCII"),
    ("docs/http-api.md", f"1 to {finding.PAGE_SIZE_MAX}, default {finding.PAGE_SIZE} |"),
    ("docs/http-api.md", f"`to` to {finding.BUCKETS} buckets later. At most {finding.BUCKETS_MAX} buckets"),
    ("docs/http-api.md", f"`limit` is {records.LIMIT} by default and {PAGE_RECORDS_MAX} at most (0, with `follow`"),
    ("docs/http-api.md", f"`limit` is {dead.LIMIT} by default and {dead.LIMIT_MAX} at most. Pass"),
    ("docs/http-api.md", f"A page holds about {PAGE_BYTES_MAX >> 20} MiB"),
    ("docs/http-api.md", f"skips at most {LOOKED_MAX} letters"),
    ("docs/http-api.md", f"A request sends {dead.REDRIVEN_AT_ONCE} letters at most"),
    ("docs/http-api.md", f"`partitions` is 1 to {managing.PARTITIONS_MAX} and"),
    ("docs/directives.md", f"At most {TEXT_CHARS_MAX} characters."),
    ("docs/directives.md", f"an own id, at most {OWN_ID_BYTES_MAX} bytes"),
    ("docs/directives.md", f"the consumer group, 1 to {GROUP_CHARS_MAX} of"),
    ("docs/directives.md", f"After {PAIRS_MAX} pairs"),
    ("docs/configuration.md", f"1 to {NAMESPACE_CHARS_MAX} of `a-z A-Z 0-9 . _ -`"),
    ("docs/configuration.md", f"level 1 first; at most {LEVELS_MAX} |"),
    ("docs/reconcile.md", f"more than `--max` ({repair_commands.MESSAGES_MAX}) messages"),
    ("docs/command-line.md", f"more than `--max` ({repair_commands.MESSAGES_MAX})"),
    ("docs/howto/stalled-shard.md", f"keeps the ranges, {SKIPPED_MAX} at most"),
    ("docs/howto/stalled-shard.md", f"has failed {['', 'once', 'twice', 'three'][SUSPECTED_MIN]} times"),
]


@pytest.mark.parametrize(("page", "phrase"), NUMBERS, ids=[phrase[:50] for _, phrase in NUMBERS])
def test_a_number_on_a_page_is_that_of_the_code(page: str, phrase: str) -> None:
    assert phrase in " ".join(text(page).split("\n"))


# --- the reconcile job's words


def _first_cells(heading: str) -> list[str]:
    page = text("docs/reconcile.md").partition(f"{heading}\n")[2]
    table = re.search(r"^\|.*\|$(?:\n\|.*\|$)+", page, re.M)
    assert table is not None
    return [line.split(" | ")[0].strip("| ") for line in table[0].splitlines()[2:]]


def test_the_page_has_every_category_of_findings() -> None:
    assert sorted(_first_cells("## What is found, and what to do")) == sorted(
        one.value.replace("_", " ") for one in Category
    )


def test_the_page_has_every_verdict_of_a_repair() -> None:
    named = [verdict for cell in _first_cells("## Send again what is missing") for verdict in cell.split(", ")]
    assert sorted(named) == sorted(one.value for one in Verdict)


def test_the_page_has_every_state_of_a_topic() -> None:
    (cell,) = re.findall(
        r"^\| `delayline_reconcile_topic_state\{topic,state\}` \| (.+) \|$", text("docs/reconcile.md"), re.M
    )
    assert sorted(re.findall(r"`(\w+)`", cell)) == sorted(one.value for one in State)


def test_a_reason_of_a_stall_is_spelled_as_the_code_does() -> None:
    known = literals(r"^[a-z]+_[a-z_]+$")
    stalls = {name for _, name in found(r"[Ss]talls?(?:: | with | as )`([a-z_-]+)`")}
    assert len(stalls) >= 6
    assert stalls - known - {"commit", "target"} == set()


def _plain(value: str) -> float:
    """A number, a duration in milliseconds or a size in bytes, however it is written."""
    squeezed = value.replace(" ", "").replace(",", "").replace("days", "d").replace("one", "1")
    if squeezed.endswith("B"):
        number, unit = re.findall(r"(\d+)(.*)", squeezed)[0]
        return float(int(number) * UNITS[unit])
    return float(squeezed) if squeezed.isdecimal() else float(parse_duration_ms(squeezed))


def test_a_default_in_brackets_behind_a_setting_is_its_default() -> None:
    defaults = {key: value for key, value, _ in describe(Settings())}
    named = {
        (page, key, value)
        for page in pages()
        if page not in PAST
        for key, value in re.findall(r"`([a-z_.]+)`(?:\]\([^)]*\))? \((\d[\d,.]* ?[A-Za-z]*)\)", text(page))
        if key in KEYS
    }
    assert len(named) >= 7
    assert [(page, key, value) for page, key, value in named if _plain(value) != _plain(defaults[key])] == []
