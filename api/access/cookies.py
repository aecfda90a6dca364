"""The cookie of a session: how it is set, cleared and found in a request (RFC 6265).

Over https its name begins with `__Host-`: browsers take such a cookie from this very host alone, and only over https
(RFC 6265bis, 4.1.3). No other name counts there, so neither another host of the domain nor a page over plain http can
put a cookie of its own in its place.
"""

import re

from starlette.types import Scope

from api.http.answers import RawHeader

NAME = "delayline-session"
SECURE_NAME = f"__Host-{NAME}"

_VALUE, _SECURE_VALUE = (re.compile(rb"(?:^|;)[ \t]*%b=([^;]*)" % name.encode()) for name in (NAME, SECURE_NAME))
"""A stranger's header may have 64 KiB: searched so, it costs a fifth of what it costs to take it apart."""

_ATTRIBUTES = "Path=/; HttpOnly; SameSite=Strict"


def set_cookie(scope: Scope, value: str, max_age_s: int) -> RawHeader:
    """The browser that sent the request keeps it for so long."""
    name, secure = (SECURE_NAME, "; Secure") if _is_secure(scope) else (NAME, "")
    return b"set-cookie", f"{name}={value}; Max-Age={max_age_s}; {_ATTRIBUTES}{secure}".encode()


def cleared(scope: Scope) -> RawHeader:
    """The browser drops it."""
    return set_cookie(scope, "", 0)


def shown(scope: Scope, header: bytes) -> list[bytes]:
    """The values of our cookie in a `Cookie` header; more than one where another site has set one, too."""
    values: list[bytes] = (_SECURE_VALUE if _is_secure(scope) else _VALUE).findall(header)
    return values


def _is_secure(scope: Scope) -> bool:
    return bool(scope["scheme"] == "https")
