"""Logins of people by the code flow with PKCE (RFC 6749, 4.1; RFC 7636; OpenID Connect Core, 3.1).

A login under way is a cookie of the browser that has begun it:

    1.<seed>.<begun, ms>.<signature>

`state`, `nonce` and PKCE's verifier are digests of the seed under the secret of sessions: neither the browser nor the
provider's redirects carry what would be needed to make one of the others, and the server keeps nothing but that a
login was used. docs/adr/0027-oidc.md has the reasons.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import NamedTuple
from urllib.parse import quote_plus, urlencode

from api.access.oidc.claims import Identity, OidcClient, of_id_token
from api.access.oidc.exchange import ProviderAnswer, ProviderUnavailable
from api.access.oidc.provider import Endpoints, Provider
from api.access.oidc.strict import NotAccepted, read_object, take_apart
from api.access.oidc.tokens import signed_by
from api.access.sessions import EndedOnes, Sessions
from api.http.caller import unauthenticated
from api.http.problems import LIMIT_EXCEEDED, NOT_READY, Refusal
from delayline.clock import Clock

PENDING_MS = 600_000
"""From the beginning of a login to its end."""
USED_MAX = 10_000
EXCHANGES_MAX = 64
"""Codes that are being exchanged at once."""

_PENDING = re.compile(rb"(1\.([A-Za-z0-9_-]{22})\.([0-9]{1,15}))\.([A-Za-z0-9_-]{43})")
_ERROR = re.compile(r"[a-z_]{1,64}")
_AGAIN = "this login is over, or was begun in another browser: log in again"


class Returned(NamedTuple):
    """What a browser comes back with, as the query of the callback has it."""

    state: str | None
    code: str | None
    iss: str | None
    error: str | None


class Pending(NamedTuple):
    """A login under way."""

    seed: str
    begun_ms: int


class Logins:
    """Begins and finishes logins. For the event loop's thread; the provider is asked in `threads`."""

    def __init__(
        self, provider: Provider, client: OidcClient, sessions: Sessions, clock: Clock, threads: Executor
    ) -> None:
        self._provider = provider
        self._client = client
        self._sessions = sessions
        self._clock = clock
        self._threads = threads
        self._used = EndedOnes(USED_MAX)
        self._exchanges = 0

    @property
    def issuer(self) -> str:
        return self._provider.settings.issuer

    async def begin(self) -> tuple[str, str]:
        """(the provider's URL to send the browser to, the value of its cookie). Raises Refusal (503)."""
        endpoints = await self._provider.endpoints()
        pending = Pending(secrets.token_urlsafe(16), self._clock.now_ms())
        challenge = hashlib.sha256(self._digest("verifier", pending).encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": self._client.redirect_url,
            "scope": " ".join(self._client.scopes),
            "state": self._digest("state", pending),
            "nonce": self._digest("nonce", pending),
            "code_challenge": urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in endpoints.authorization else "?"
        return f"{endpoints.authorization}{joint}{urlencode(query)}", self._cookie(pending)

    async def finish(self, pending: Pending, returned: Returned) -> Identity:
        """Who has logged in; the login is over with that. Raises Refusal (401, 503)."""
        self._used.add(pending.seed, pending.begun_ms + PENDING_MS, self._clock.now_ms())
        endpoints = await self._provider.endpoints()
        if returned.iss != self.issuer and (returned.iss is not None or endpoints.answers_with_iss):
            raise unauthenticated("another identity provider has sent this browser back")
        if returned.error is not None:
            known = returned.error if _ERROR.fullmatch(returned.error) else "an error"
            raise unauthenticated(f"the identity provider did not log you in: {known}")
        if not returned.code:
            raise unauthenticated("the identity provider has sent no code")
        return await self._exchanged(endpoints, returned.code, pending)

    def begun(self, cookies: Sequence[bytes], state: str | None) -> Pending:
        """The login that this very browser has begun, and that was not used. Raises Refusal (401)."""
        pending = self._read(cookies[0]) if len(cookies) == 1 else None
        if pending is None or state is None:
            raise unauthenticated(_AGAIN)
        if not hmac.compare_digest(state.encode(), self._digest("state", pending).encode()):
            raise unauthenticated(_AGAIN)
        if self._used.has(pending.seed, pending.begun_ms):
            raise unauthenticated(_AGAIN)
        return pending

    async def _exchanged(self, endpoints: Endpoints, code: str, pending: Pending) -> Identity:
        """Raises Refusal (401, 503)."""
        if self._exchanges >= EXCHANGES_MAX:
            raise Refusal(LIMIT_EXCEEDED, "too many people log in at once", status=503)
        self._exchanges += 1
        try:
            answer = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._ask, endpoints, code, self._digest("verifier", pending)
            )
            return await self._identity(answer, self._digest("nonce", pending))
        except ProviderUnavailable:
            raise Refusal(NOT_READY, "the identity provider does not answer: log in again later") from None
        except NotAccepted as error:
            raise unauthenticated(f"the identity provider's ID token is refused: {error}") from None
        finally:
            self._exchanges -= 1

    def _ask(self, endpoints: Endpoints, code: str, verifier: str) -> ProviderAnswer:
        """Raises ProviderUnavailable."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._client.redirect_url,
            "client_id": self._client.id,
            "code_verifier": verifier,
        }
        if not self._client.secret:
            return self._provider.http.post(endpoints.token, form, {})
        if not endpoints.takes_basic:
            return self._provider.http.post(endpoints.token, {**form, "client_secret": self._client.secret}, {})
        return self._provider.http.post(endpoints.token, form, _basic(self._client.id, self._client.secret))

    async def _identity(self, answer: ProviderAnswer, nonce: str) -> Identity:
        """Raises NotAccepted, Refusal (401, 503)."""
        if answer.status >= 500:
            raise Refusal(NOT_READY, "the identity provider does not answer: log in again later")
        if answer.status != 200:
            raise unauthenticated("the identity provider does not take the code: log in again")
        token = read_object(answer.body).get("id_token")
        if not isinstance(token, str) or not token.isascii():
            raise NotAccepted("there is none")
        parts = take_apart(token.encode())
        await signed_by(self._provider, token.encode(), parts.header)
        return of_id_token(parts.claims, self._provider.settings, self._client, nonce, self._clock.now_ms())

    def _cookie(self, pending: Pending) -> str:
        text = f"1.{pending.seed}.{pending.begun_ms}"
        return f"{text}.{self._sessions.digest('login', text)}"

    def _read(self, cookie: bytes) -> Pending | None:
        """None where we have not signed it, or it is too old."""
        found = _PENDING.fullmatch(cookie)
        if found is None:
            return None
        text, seed, begun, signature = (part.decode() for part in found.groups())
        if not hmac.compare_digest(signature, self._sessions.digest("login", text)):
            return None
        is_old = self._clock.now_ms() >= int(begun) + PENDING_MS
        return None if is_old else Pending(seed, int(begun))

    def _digest(self, purpose: str, pending: Pending) -> str:
        return self._sessions.digest(f"login {purpose}", pending.seed)


def _basic(name: str, secret: str) -> Mapping[str, str]:
    """RFC 6749, 2.3.1: both are encoded as in a form first."""
    pair = f"{quote_plus(name)}:{quote_plus(secret)}"
    return {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}
