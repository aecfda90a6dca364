"""Tokens from an OpenID Connect endpoint, by client credentials (RFC 6749, section 4.4; KIP-768)."""

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from delayline.errors import ConfigError
from kafkawire.protocol.errors import NoToken
from kafkawire.security.oauth.token import Token, of_answer
from kafkawire.security.tls import authorities

URL = "sasl.oauthbearer.token.endpoint.url"
FETCH_S = 10.0
"""For everything: name, connection, question, answer. As long as a request to a broker may take."""
ANSWER_BYTES_MAX = 256 << 10
_CODE = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]{1,100}")
"""RFC 6749, section 5.2: what `error` may hold, and no more of it."""


@dataclass(frozen=True, slots=True)
class Oidc:
    """Asks the endpoint each time. `trust` are the properties `https.ca.*`."""

    url: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    trust: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, now_ms: int) -> Token:
        """Raises NoToken."""
        try:
            status, body = asyncio.run(self._asked())
        except TimeoutError:
            raise NoToken(f"mq.properties: {URL}: no answer within {FETCH_S:g} s.") from None
        except ConfigError as error:  # what could be read at the start, and cannot now
            raise NoToken(str(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            # no cause: a traceback's text must not hold what was sent
            raise NoToken(f"mq.properties: {URL}: {type(error).__name__}: {error}.") from None
        if status != httpx.codes.OK:
            raise NoToken(f"mq.properties: {URL}: the endpoint answers {status}{_reason(body)}.")
        return of_answer(URL, body, now_ms, self.extensions)

    async def _asked(self) -> tuple[int, bytes]:
        """Status and body of the answer."""
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        async with asyncio.timeout(FETCH_S):
            async with (
                httpx.AsyncClient(verify=self._context(), timeout=None, trust_env=self._is_secure) as client,
                client.stream(
                    "POST", self.url, data=form, headers=headers, auth=(self.client_id, self.client_secret)
                ) as answer,
            ):
                body = bytearray()
                async for piece in answer.aiter_raw():
                    body += piece
                    if len(body) > ANSWER_BYTES_MAX:
                        raise ValueError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
                return answer.status_code, bytes(body)

    @property
    def _is_secure(self) -> bool:
        """Else it goes to this machine, and no proxy of the environment may see it."""
        return self.url.lower().startswith("https:")

    def _context(self) -> ssl.SSLContext | bool:
        return authorities(self.trust, "https.ca") if self._is_secure else False


def _reason(body: bytes) -> str:
    """The endpoint's code, and nothing else of an answer that may repeat a secret."""
    found = re.search(rb'"error"\s*:\s*"([^"]*)"', body)
    text = found[1].decode("ascii", "replace") if found else ""
    return f" ({text})" if _CODE.fullmatch(text) else ""
