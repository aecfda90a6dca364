"""Our cookies: how each is set, cleared and found in a request (RFC 6265).

Over https a name begins with `__Host-`: browsers take such a cookie from this very host alone, and only over https
(RFC 6265bis, 4.1.3). No other name counts there, so neither another host of the domain nor a page over plain http can
put a cookie of its own in its place.
"""

import re

from starlette.types import Scope

from api.http.answers import RawHeader


class Cookie:
    """A cookie by its name. `same_site` is when a browser sends it: `Strict`, only with what a page of ours begins;
    `Lax`, also where a link or a redirect of another site leads here."""

    def __init__(self, name: str, same_site: str) -> None:
        self.name = name
        self.secure_name = f"__Host-{name}"
        self._attributes = f"Path=/; HttpOnly; SameSite={same_site}"
        # a stranger's header may have 64 KiB: searched so, it costs a fifth of what it costs to take it apart
        self._value, self._secure_value = (
            re.compile(rb"(?:^|;)[ \t]*%b=([^;]*)" % one.encode()) for one in (self.name, self.secure_name)
        )

    def set(self, scope: Scope, value: str, max_age_s: int) -> RawHeader:
        """The browser that sent the request keeps it for so long."""
        name, secure = (self.secure_name, "; Secure") if _is_secure(scope) else (self.name, "")
        return b"set-cookie", f"{name}={value}; Max-Age={max_age_s}; {self._attributes}{secure}".encode()

    def cleared(self, scope: Scope) -> RawHeader:
        """The browser drops it."""
        return self.set(scope, "", 0)

    def shown(self, scope: Scope, header: bytes) -> list[bytes]:
        """Its values in a `Cookie` header; more than one where another site has set one, too."""
        values: list[bytes] = (self._secure_value if _is_secure(scope) else self._value).findall(header)
        return values


SESSION = Cookie("delayline-session", "Strict")
LOGIN = Cookie("delayline-login", "Lax")
"""Of a login by the identity provider under way: it must come back with the provider's redirect."""


def _is_secure(scope: Scope) -> bool:
    return bool(scope["scheme"] == "https")
