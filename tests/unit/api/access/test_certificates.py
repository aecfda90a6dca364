"""Callers by the certificate of their connection: their names, what they may, what counts before it, when it ends."""

import re
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.certificates import Naming, name_of
from delayline.access.keys import is_principal
from delayline.http.protocol import PEER
from delayline.process.peer import PeerCertificate, parse_peer, rfc4514
from tests.tiers import examples
from tests.unit.api.access.held import SESSION, HeldAccess, allowing, log_in
from tests.unit.api.in_memory import MESSAGES, NOW_MS, RECORDS, Api, problem
from tests.unit.api.stream import Stream

ORDERS = "x509:CN=orders,O=Acme"
LATER = {"value": 1, "schedule": {"delay": "1h"}}
HOUR_MS = 3_600_000
CERTIFICATE = PeerCertificate("CN=orders,O=Acme", ("spiffe://acme/orders",), NOW_MS + HOUR_MS)


class Shows:
    """What the protocol does, over sockets: the scope has the certificate of the connection."""

    shown: PeerCertificate | None = CERTIFICATE

    def __init__(self, app: ASGIApp, of: "Certified") -> None:
        self._app = app
        self._of = of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        added: MutableMapping[str, Any] = {} if self._of.shown is None else {PEER: self._of.shown}
        await self._app({**scope, **added}, receive, send)


class Certified(Api):
    """All of its clients show `shown`."""

    def __init__(self, naming: Naming = "subject", rules: str = allowing(ORDERS, "read", "send", "payload")) -> None:
        self.access = HeldAccess(rules + allowing("ann", "read", "cancel"), "ann")
        super().__init__(access=self.access, client_names=naming)
        self.shown: PeerCertificate | None = CERTIFICATE
        self.app.add_middleware(Shows, of=self)
        self.queue.ensure_topic("orders")

    def who(self, **headers: str) -> str | tuple[int, str]:
        answer = self.get(SESSION, headers=headers)
        principal: str = answer.json().get("principal", "")
        return principal if answer.status_code == 200 else problem(answer)

    def without_header(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The request, without Delayline-Request."""

        async def ask(http: httpx.AsyncClient) -> httpx.Response:
            request = http.build_request(method, path, **options)
            del request.headers["delayline-request"]
            return await http.send(request)

        return self.run(ask)


@pytest.fixture
def api() -> Certified:
    return Certified()


UNKNOWN = (401, "unauthenticated")


def test_a_certificate_is_a_principal_and_rules_decide(api: Certified) -> None:
    assert api.who() == ORDERS
    assert api.send(LATER).status_code == 201
    assert problem(api.request("POST", "/v1/topics/orders:pause")) == (403, "not-allowed")
    api.access.allow(allowing("another", "send"))
    assert problem(api.send(LATER)) == (403, "not-allowed")


def test_without_a_certificate_or_where_none_is_asked_for_there_is_no_principal(api: Certified) -> None:
    api.shown = None
    assert api.who() == UNKNOWN


def test_the_name_may_be_the_uri(api: Certified) -> None:
    by_uri = Certified("uri", allowing("uri:spiffe://acme/*", "send"))
    assert by_uri.who() == "uri:spiffe://acme/orders"
    assert by_uri.send(LATER).status_code == 201


@pytest.mark.parametrize(
    ("naming", "changed"),
    [
        ("subject", {"subject": ""}),
        ("subject", {"subject": "CN=" + "x" * 300}),
        ("uri", {"uris": ()}),
        ("uri", {"uris": ("spiffe://acme/orders", "spiffe://acme/ops")}),
        ("uri", {"uris": ("spiffe://acme/\n",)}),
    ],
)
def test_a_certificate_without_one_name_is_nobodys(naming: Naming, changed: Mapping[str, Any]) -> None:
    api = Certified(naming, allowing("*", "send"))
    api.shown = CERTIFICATE._replace(**changed)
    assert api.who() == UNKNOWN
    assert api.metric("delayline_access_certificates_refused_total") == 1


# --- names


_VALUES = st.text() | st.text(alphabet=',+="\\<>;# a0\n\x00é')
_PAIRS = st.tuples(st.sampled_from(["commonName", "organizationName", "emailAddress", "2.5.4.65"]), _VALUES)
Subjects = st.lists(st.lists(_PAIRS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=4).map(tuple)


def parsed(text: str) -> Any:
    """What `rfc4514` has written, read back by the rules of RFC 4514, 3."""
    tokens = re.findall(r"\\[0-9a-f]{2}|\\.|.", text, re.DOTALL)
    parts: list[list[tuple[str, str]]] = [[]]
    kind, value = None, bytearray()
    for token in (*tokens, ","):
        if kind is None:
            kind, value = (value.decode(), bytearray()) if token == "=" else (None, value + token.encode())
        elif token in ("+", ","):
            parts[-1].append((_LONG.get(kind, kind), value.decode()))
            kind, value = None, bytearray()
            parts += [[]] if token == "," else []
        else:
            value += bytes.fromhex(token[1:]) if re.fullmatch(r"\\[0-9a-f]{2}", token) else token[-1].encode()
    return tuple(map(tuple, parts[-2::-1]))


_LONG = {"CN": "commonName", "O": "organizationName"}


@given(Subjects)
@settings(max_examples=examples(800))
@example(((("commonName", 'a,O="Acme"\\+ #;<>\x00 '),),))
def test_what_a_subject_is_can_be_read_from_its_name_so_no_two_have_the_same(subject: Any) -> None:
    assert parsed(rfc4514(subject)) == subject


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (
            [[("countryName", "DE")], [("organizationName", "Acme")], [("commonName", "orders")]],
            "CN=orders,O=Acme,C=DE",
        ),
        ([[("organizationName", "Acme")], [("commonName", "orders,O=Other")]], r"CN=orders\2cO=Other,O=Acme"),
        ([[("commonName", 'a"b+c;d<e>f\\g=h')]], r"CN=a\22b\2bc\3bd\3ce\3ef\5cg=h"),
        ([[("commonName", " #x ")]], r"CN=\20#x\20"),
        ([[("commonName", "#x")]], r"CN=\23x"),
        ([[("commonName", " ")]], r"CN=\20"),
        ([[("commonName", "a\0b\n")]], r"CN=a\00b\0a"),
        ([[("commonName", "a"), ("userId", "7")]], "CN=a+UID=7"),
        ([[("commonName", "Müller")]], "CN=Müller"),
    ],
)
def test_a_subject_is_written_as_rfc_4514_has_it(subject: Any, text: str) -> None:
    assert rfc4514(subject) == text


@given(Subjects)
@settings(max_examples=examples(400))
@example(((("organizationName", "Evil,O=Acme"),), (("commonName", "x"),)))
@example(((("commonName", "orders,O=Acme"),),))
def test_the_end_of_a_pattern_matches_whole_parts_of_a_subject_alone(subject: Any) -> None:
    ends_so = f",{rfc4514(subject)}".endswith(",O=Acme")
    assert ends_so is (subject[0] == (("organizationName", "Acme"),))


@pytest.mark.parametrize("naming", ["subject", "uri"])
def test_no_key_can_have_the_name_of_a_certificate(naming: Naming) -> None:
    name = name_of(CERTIFICATE, naming)
    assert name is not None
    assert not is_principal(name)


def test_a_certificate_is_read_as_pythons_ssl_module_hands_it_over() -> None:
    shown = {
        "subject": ((("organizationName", "Acme"),), (("commonName", "orders"),)),
        "notAfter": "Jan  1 01:00:00 2026 GMT",
        "subjectAltName": (("DNS", "orders"), ("URI", "spiffe://acme/orders")),
    }
    assert parse_peer(shown) == CERTIFICATE
    assert datetime.fromtimestamp(parse_peer(shown).ends_ms / 1000, UTC).isoformat() == "2026-01-01T01:00:00+00:00"


# --- what counts before it


def test_a_key_counts_before_the_certificate_also_one_that_is_wrong(api: Certified) -> None:
    assert api.who(authorization=api.access.header("ann")) == "ann"
    assert api.who(authorization="Bearer dlk_no") == UNKNOWN


def test_a_session_counts_before_the_certificate_until_its_cookie_is_cleared(api: Certified) -> None:
    ann = log_in(api, api.access, "ann")
    assert api.who(cookie=ann.cookie) == "ann"
    api.access.end("ann", 0)
    answer = api.get(SESSION, headers={"cookie": ann.cookie})
    assert problem(answer) == UNKNOWN
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert api.who(cookie="theme=dark") == ORDERS


def test_no_session_begins_with_a_certificate(api: Certified) -> None:
    assert problem(api.request("POST", SESSION)) == UNKNOWN


# --- pages of other sites


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", MESSAGES, LATER),
        ("POST", "/v1/topics/orders:pause", None),
        ("DELETE", "/v1/topics/orders", None),
        ("PATCH", "/v1/messages/orders.0.1.1767225600000", {"delay": "1s"}),
    ],
)
def test_nothing_is_changed_by_a_certificate_alone_without_the_header(method: str, path: str, body: Any) -> None:
    """Whatever type of content a browser of any age may send to another site."""
    api = Certified(rules=allowing(ORDERS, "send", "control", "topics", "reschedule", "cancel"))
    for options in ({"json": body},) if body else ({}, {"content": b"{}", "headers": {"content-type": "text/plain"}}):
        assert problem(api.without_header(method, path, **options)) == (403, "forbidden")
    assert api.all_records("orders") == []
    assert api.queue.topics() == ["orders"]


@pytest.mark.parametrize("header", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_a_page_that_gives_itself_away_changes_nothing_even_with_the_header(
    api: Certified, header: Mapping[str, str]
) -> None:
    assert problem(api.send(LATER, headers=header)) == (403, "forbidden")


def test_a_key_beside_the_certificate_needs_no_header(api: Certified) -> None:
    api.access.allow(allowing("ann", "send"))
    headers = {"authorization": api.access.header("ann")}
    assert api.without_header("POST", MESSAGES, json=LATER, headers=headers).status_code == 201


# --- its end


def test_a_certificate_that_expires_while_its_connection_is_open_is_over(api: Certified) -> None:
    answer = api.get(SESSION)
    assert answer.json()["expires_at"] == "2026-01-01T01:00:00.000Z"
    api.clock.advance(HOUR_MS)
    assert api.who() == UNKNOWN


def test_a_stream_ends_with_the_certificate(api: Certified) -> None:
    async def work(_: httpx.AsyncClient) -> tuple[int, bytes]:
        stream = Stream(api.app, RECORDS, "follow=sse")
        await stream.block()
        api.clock.advance(HOUR_MS)
        return stream.status, await stream.rest()

    status, rest = api.run(work)
    assert status == 200
    assert b"has expired" in rest
