"""Commands and requests in the documents: each is one that the program takes, and the reference pages have all."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from api.http import problems
from cli import failure
from cli.main import app
from delayline.config import Settings, describe
from delayline.times import parse_duration_ms
from tests.test_docs_names import literals, text
from tests.test_tidy import ROOT, pages
from tests.unit.api.in_memory import Api

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: what belongs to it is unknown")

# --- commands

ROOT_COMMAND = get_command(app)


def commands(command: Any = ROOT_COMMAND, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Of all that can be typed, the words."""
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*names, name))
    if not hasattr(command, "commands"):
        yield names


def _options(names: tuple[str, ...]) -> set[str]:
    command: Any = ROOT_COMMAND
    for name in names:
        command = command.commands[name]
    return {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}


def typed() -> Iterator[tuple[str, str]]:
    """Page and command line: in blocks and between back ticks."""
    for page in pages():
        joined = text(page).replace("\\\n", " ")
        blocks = "\n".join(re.findall(r"```\w*\n(.*?)```", joined, re.DOTALL))
        spans = re.findall(r"`(?:\.venv/bin/)?delayline ([a-z][^`\n]*)`", joined)
        lines = re.findall(r"^(?:\s*|.*[$(] ?|.*\d +)(?:\S*/bin/)?delayline ([a-z][^\n|;)]*)", blocks, re.M)
        indented = re.findall(r"^ {4}(?:\S*/bin/)?delayline ([a-z].*)$", joined, re.M)
        yield from ((page, line) for line in (*spans, *lines, *indented))


def wrong_in(line: str) -> str | None:
    """What there is not: a command, or an option of one."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    known = max((names for names in commands() if tuple(words[: len(names)]) == names), key=len, default=None)
    if known is None:
        groups = {names[:1] for names in commands() if len(names) > 1}
        alone = tuple(words[:1]) in groups and (len(words) == 1 or words[0] == "topics" or words[1].isupper())
        return None if alone else f"no command: {line}"
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    missing = [option for option in options if option not in _options(known)]
    return f"no option {missing[0]}: {line}" if missing else None


def test_every_command_that_a_page_types_is_one_with_such_options() -> None:
    lines = list(typed())
    assert len(lines) > 90
    assert [(page, wrong) for page, line in lines if (wrong := wrong_in(line))] == []


@pytest.mark.parametrize("line", ["mend orders", "send orders 1 --later 1h", "shard skip --through 7"])
def test_what_is_no_command_line_is_found(line: str) -> None:
    assert wrong_in(line) is not None


def test_the_page_names_every_command() -> None:
    page = text("docs/command-line.md")
    assert [" ".join(names) for names in commands() if not re.search(rf"\b{' '.join(names)}\b", page)] == []


def test_the_page_has_every_option_of_a_reconcile_run() -> None:
    section = text("docs/command-line.md").partition("## Reconcile")[2]
    named = set(re.findall(r"^\| `(--[a-z-]+)` \|", section, re.M))
    assert named == _options(("reconcile", "run")) - {"--config", "--help"}


def test_the_page_and_the_help_have_the_exit_codes_of_commands() -> None:
    codes = (
        "0 ok",
        f"{failure.FAILED} failed",
        f"{failure.USAGE} wrong usage or settings",
        "3 not found",
        "4 conflict",
    )
    assert (failure.NOT_FOUND, failure.CONFLICT, failure.DAMAGED) == (3, 4, 3)
    reported = " ".join((ROOT_COMMAND.help or "").split())
    assert [code for code in codes if code not in reported or code not in text("docs/command-line.md")] == []


# --- HTTP

DOCUMENT: dict[str, Any] = Api().get("/openapi.json").json()
ROUTES = {
    (method.upper(), path): {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
BESIDES = {
    ("GET", path): set[str]()
    for path in ("/openapi.json", "/", "/v1/session/login", "/v1/session/callback")  # for browsers alone
}


def route_of(method: str, path: str) -> set[str] | None:
    """Query parameters of what answers, if anything does."""
    for (known, pattern), parameters in (ROUTES | BESIDES).items():
        if known == method and re.fullmatch(re.sub(r"\\\{\w+\\\}", r"[^/?]+?", re.escape(pattern)), path):
            return parameters
    return None


def requests() -> Iterator[tuple[str, str, str]]:
    """Page, method and target of the requests that pages show."""
    for page in pages():
        joined = re.sub(r"\$(?!url)\w+", "x", text(page).replace("\\\n", " "))
        for line in re.findall(r"curl (-[^\n|]*)", joined):
            for target in re.findall(r"\$url(/[^\s'\"$]*)", line):
                found = re.search(r"-X ([A-Z]+)", line)
                posts = re.search(r"--json|(?:^| )-d ", line)
                yield page, found[1] if found else "POST" if posts else "GET", target
        for method, target in re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/(?:v1|healthz|readyz)[^` ]*)", text(page)):
            yield page, method, target


def wrong_with(method: str, target: str) -> str | None:
    path, _, query = target.partition("?")
    parameters = route_of(method, path)
    if parameters is None:
        return f"{method} {path} is no route"
    asked = {part.partition("=")[0] for part in query.split("&") if part}
    return f"{target} has no such parameter" if asked - parameters else None


def test_every_request_that_a_page_shows_has_a_route_with_such_parameters() -> None:
    shown = list(requests())
    assert len(shown) > 50
    assert [(page, wrong) for page, method, target in shown if (wrong := wrong_with(method, target))] == []


@pytest.mark.parametrize(
    ("method", "target"), [("PUT", "/v1/topics/orders"), ("GET", "/v1/topic"), ("GET", "/v1/messages?keys=1")]
)
def test_what_is_no_request_is_found(method: str, target: str) -> None:
    assert wrong_with(method, target) is not None


def test_the_page_shows_every_route() -> None:
    shown = {(method, target.partition("?")[0]) for page, method, target in requests() if page == "docs/http-api.md"}
    shown |= {("POST", "/v1/topics/orders:resume"), ("GET", "/metrics")}  # in words, beside `:pause`; in a table
    matching = {
        (method, pattern)
        for method, pattern in ROUTES
        for known, path in shown
        if known == method and re.fullmatch(re.sub(r"\\\{\w+\\\}", r"[^/?]+?", re.escape(pattern)), path)
    }
    assert set(ROUTES) - matching == set()
    assert "`GET /metrics`" in text("docs/http-api.md")
    assert "`:resume`" in text("docs/http-api.md")


BEFORE_A_REQUEST = {"head-too-large": 431, "head-too-slow": 408, "malformed-request": 400}
NO_PLACE = {"too-many-connections": 503, "too-many-of-address": 429}


def test_the_page_has_every_problem_with_its_status() -> None:
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| (\d{3}(?:, \d{3})*) \|", _section("## Problems"), re.M)
    named = {
        name: {int(status) for status in statuses.split(", ")}
        for names, statuses in rows
        for name in names.strip("`").split("`, `")
    }
    kinds = {one.name: one.status for one in vars(problems).values() if isinstance(one, problems.Kind)}
    kinds |= BEFORE_A_REQUEST | NO_PLACE
    assert set(named) == set(kinds)
    assert {name for name, status in kinds.items() if status not in named[name]} == set()
    assert set(BEFORE_A_REQUEST) | set(NO_PLACE) <= literals(r"^[a-z-]+$")


def _section(heading: str, page: str = "docs/http-api.md") -> str:
    return text(page).partition(f"{heading}\n")[2].partition("\n## ")[0]


def test_the_limits_on_the_page_are_the_defaults_of_their_settings() -> None:
    defaults = {key: value for key, value, _ in describe(Settings())}
    rows = re.findall(r"^\| (.+) \| (.+) \| (`.+`) \|$", _section("## Limits"), re.M)
    assert len(rows) > 7
    for what, limits, setters in rows:
        if setters == "`api.address_share_percent`":
            assert (limits, defaults["api.address_share_percent"]) == ("half", "50")
            continue
        for setter in re.findall(r"`([\w.]+)`", setters):
            default = defaults[setter]
            if setter.endswith("_timeout"):
                default = f"{parse_duration_ms(default) // 1000}s"
            assert re.search(rf"(?<![\d.]){default}(?![\d.])", limits.replace(" ", "")), (what, setter, default)
