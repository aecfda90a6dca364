"""What an identity provider is asked over HTTP: bounded in time and size, and never led elsewhere."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import httpx

from delayline.clock import Clock
from delayline.errors import ConfigError
from delayline.http.urls import is_safe_url
from delayline.process.links import refuse_irregular

READ_S = 5.0
"""For a connection, and between two parts of an answer."""
ANSWER_S = 10.0
"""For a whole answer."""
ANSWER_BYTES_MAX = 512 << 10


class ProviderUnavailable(Exception):
    """No answer that can be used. The text is for an operator: nothing of what was sent."""


class ProviderAnswer(NamedTuple):
    """Its status, and its body."""

    status: int
    body: bytes


class ProviderHttp(Protocol):
    """Asks an identity provider. Blocks: not for an event loop's thread."""

    def get(self, url: str) -> bytes:
        """The body of a 200. Raises ProviderUnavailable."""
        ...

    def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> ProviderAnswer:
        """Raises ProviderUnavailable."""
        ...


class HttpxProvider:
    """By httpx, with a connection for each question: there are a few in five minutes. A redirect is no answer: it
    could lead into the network of this machine, or to keys of another server."""

    def __init__(self, cafile: Path | None, clock: Clock) -> None:
        """`cafile` has the authorities that are trusted, else the system's are. Raises ConfigError."""
        try:
            if cafile is not None:
                refuse_irregular(cafile)
            self._trust = ssl.create_default_context(cafile=None if cafile is None else str(cafile))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"access.oidc.cafile: cannot use {cafile}: {error}.") from error
        self._clock = clock

    def get(self, url: str) -> bytes:
        answer = self._asked("GET", url, None, {})
        if answer.status != httpx.codes.OK:
            raise ProviderUnavailable(f"{url} answers {answer.status}")
        return answer.body

    def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> ProviderAnswer:
        return self._asked("POST", url, form, headers)

    def _asked(
        self, method: str, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> ProviderAnswer:
        """Raises ProviderUnavailable."""
        if not is_safe_url(url, with_query=True):
            raise ProviderUnavailable("a URL of the provider is neither https nor of this machine")
        all_headers = {"accept": "application/json", "accept-encoding": "identity", **headers}
        is_secure = url.startswith("https:")
        try:
            with (
                # a proxy of the environment never sees what stays on this machine
                httpx.Client(verify=self._trust, timeout=READ_S, trust_env=is_secure) as client,
                client.stream(method, url, data=form, headers=all_headers) as answer,
            ):
                return ProviderAnswer(answer.status_code, self._body(url, answer))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            # no cause: a traceback's text must not hold what was sent
            raise ProviderUnavailable(f"{url}: {type(error).__name__}: {error}") from None

    def _body(self, url: str, answer: httpx.Response) -> bytes:
        """As it came: a small body could unpack to a large one. Raises ProviderUnavailable."""
        until_s = self._clock.monotonic_s() + ANSWER_S
        body = bytearray()
        for chunk in answer.iter_raw():
            body += chunk
            if len(body) > ANSWER_BYTES_MAX:
                raise ProviderUnavailable(f"{url} answers with more than {ANSWER_BYTES_MAX} bytes")
            if self._clock.monotonic_s() > until_s:
                raise ProviderUnavailable(f"{url} takes longer than {ANSWER_S:g} s to answer")
        return bytes(body)
