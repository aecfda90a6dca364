"""What a web page must not make its reader's browser do here.

    Host     is ours: an IP address, localhost, or a name of `api.hosts`. A page whose own name is made to point here
             (DNS rebinding) is of the same origin as we are for the browser; only the name gives it away
    Origin   where it is given, names the host of this very request: browsers give it with every POST of a page
    POST     declares its body as JSON, or has the header Delayline-Request: a form can do neither, in no browser

Other methods that change something (PATCH, DELETE) no form has, and a script of another origin has to ask for them
first (CORS), which is never answered with yes. docs/adr/0017-pages-of-other-sites.md has the reasons.
"""

import ipaddress
import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

from starlette.types import Scope

from api.http.problems import FORBIDDEN, INVALID_REQUEST, MISDIRECTED, Refusal

ACT = b"delayline-request"
"""Request header of a POST without a body; its value is ignored."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
_OWN_SITE = frozenset({None, b"same-origin", b"none"})
HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_USUAL_PORTS = {b"http": b":80", b"https": b":443"}


class Hosts:
    """`names` are names under which clients reach this installation; `*` and `?` stand for others."""

    def __init__(self, names: Sequence[str]) -> None:
        ours = ("localhost", *(name.lower() for name in names))
        self._ours = re.compile("|".join(map(translate, ours)))
        self._is_ours = lru_cache(256)(self._check)

    def check(self, scope: Scope) -> None:
        """Raises Refusal (400, 403, 421)."""
        headers = scope["delayline.headers"]
        host: bytes | None = headers.get(b"host")
        if host is None:
            if scope["http_version"] == "1.1":
                raise Refusal(INVALID_REQUEST, "HTTP/1.1 needs a Host header")
        elif len(headers) < len(scope["headers"]) and _is_twice(scope):
            raise Refusal(INVALID_REQUEST, "the Host header stands twice")
        elif not self._is_ours(host):
            name = host.decode("latin-1")[:200]
            raise Refusal(MISDIRECTED, f"this server is not called {name!r}; api.hosts lists its other names")
        if (origin := headers.get(b"origin")) is not None and not is_same(origin, host):
            raise Refusal(FORBIDDEN, "a page of another origin asks for this")
        if headers.get(b"sec-fetch-site") not in _OWN_SITE and scope["method"] not in HARMLESS:
            raise Refusal(FORBIDDEN, "a page of another site asks for this")

    def _check(self, host: bytes) -> bool:
        found = _HOST.fullmatch(host.decode("latin-1"))
        return found is not None and (_is_address(found[1]) or self._ours.match(found[1].lower()) is not None)


def _is_twice(scope: Scope) -> bool:
    """The Host header."""
    given = [name for name, _ in scope["headers"]]
    return given.count(b"host") > 1


def _is_address(host: str) -> bool:
    """DNS cannot make an address point elsewhere, as it can a name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def is_same(origin: bytes, host: bytes | None) -> bool:
    """Whether an Origin (RFC 6454) names this host and port. Whether it was http or https cannot be seen behind a
    proxy that ends TLS."""
    scheme, _, authority = origin.lower().partition(b"://")
    usual = _USUAL_PORTS.get(scheme)
    if usual is None or host is None:
        return False
    return authority.removesuffix(usual) == host.lower().removesuffix(usual)
