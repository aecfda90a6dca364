"""The command line's side of the HTTP API."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cli.failure import CONFLICT, FAILED, NOT_FOUND, USAGE, Failure, NotAllowed

if TYPE_CHECKING:
    import ssl

    import httpx

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 15.0
LONG_S = 3600.0
"""For what is done to very many messages in one request."""

PAGE_SIZE = 1000
"""The most that a server gives at once."""

ACT = {"delayline-request": "1"}
"""Shows that the request is not from a form of a web page; for requests without a body (docs/http-api.md)."""

_EXIT_CODES = {404: NOT_FOUND, 410: NOT_FOUND, 409: CONFLICT, 412: CONFLICT, 422: CONFLICT}


def topic_path(topic: str, what: str = "") -> str:
    """`/v1/topics/orders/dead`."""
    return f"/v1/topics/{quote(topic, safe='')}{what}"


def message_path(message_id: str, what: str = "") -> str:
    return f"/v1/messages/{quote(message_id, safe='')}{what}"


def own_path(topic: str, own_id: str) -> str:
    return topic_path(topic, f"/own/{quote(own_id, safe='')}")


class HttpClient:
    """One Delayline server. Problems (RFC 9457) and refused connections become `Failure`."""

    def __init__(self, url: str) -> None:
        import httpx  # here: commands that ask no server would wait 60 ms for it

        self._url = url.rstrip("/")
        verify = False if self._url.startswith("http://") else _tls()  # to read authorities takes 30 ms
        self._http = httpx.Client(base_url=self._url, timeout=TIMEOUT_S, headers=ACT | _key(), verify=verify)

    def get(self, path: str, **params: Any) -> Any:
        return self._ask("GET", path, params=_given(params))

    def pages(self, path: str, rows: str, limit: int | None = None, **params: Any) -> dict[str, Any]:
        """A list whose pages lead on by `next_before`, as one answer: its `rows` are `limit` at most, or all. A page
        may be short, or empty, and not the last."""
        found: list[Any] = []
        before = None
        while True:
            size = PAGE_SIZE if limit is None else min(limit - len(found), PAGE_SIZE)
            page = self.get(path, limit=size, before=before, **params)
            found += page[rows]
            before = page["next_before"]
            if before is None or (limit is not None and len(found) >= limit):
                return {**page, rows: found}

    def post(self, path: str, body: Any, timeout_s: float = TIMEOUT_S, **headers: str | None) -> Any:
        """`if_match="3"` is a header's name and value; None is left out. None where the answer is empty."""
        return self._ask("POST", path, json=body, headers=_headers(headers), timeout=timeout_s)

    def patch(self, path: str, body: Any, **headers: str | None) -> Any:
        return self._ask("PATCH", path, json=body, headers=_headers(headers))

    def delete(self, path: str, timeout_s: float = TIMEOUT_S, **headers: str | None) -> Any:
        return self._ask("DELETE", path, headers=_headers(headers), timeout=timeout_s)

    def events(self, path: str, **params: Any) -> Iterator[Any]:
        """The data of server-sent events (WHATWG HTML 9.2), until the server ends the stream. An event called
        `problem` is its last one, and raised."""
        import httpx

        headers = {"accept": "text/event-stream"}
        timeout = httpx.Timeout(TIMEOUT_S, read=None)
        with (
            self._failing(),
            self._http.stream("GET", path, params=_given(params), headers=headers, timeout=timeout) as answer,
        ):
            if answer.is_error:
                answer.read()
                raise _failure(answer)
            event = "message"
            for line in answer.iter_lines():
                name, _, value = line.partition(":")
                if name == "event":
                    event = value.strip()
                elif name == "data" and event == "problem":
                    raise Failure(sentence(json.loads(value)))
                elif name == "data":
                    yield json.loads(value)

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        with self._failing():
            answer = self._http.request(method, path, **options)
        if answer.is_error:
            raise _failure(answer)
        return answer.json() if answer.content else None

    @contextmanager
    def _failing(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Failure(f"{self._url} is no URL of a server, such as {DEFAULT_URL}", USAGE) from error
        except httpx.TransportError as error:
            raise Failure(
                f"no answer from {self._url} ({error or type(error).__name__}); is `delayline serve` up?"
            ) from error


def _tls() -> "ssl.SSLContext":
    """With the authorities of `$SSL_CERT_FILE`, or the usual ones, and the certificate of `$DELAYLINE_CERTFILE`, if
    that is set. Raises Failure."""
    import httpx

    context = httpx.create_ssl_context()
    certificate, key = os.environ.get("DELAYLINE_CERTFILE", ""), os.environ.get("DELAYLINE_KEYFILE", "")
    if certificate:
        try:
            context.load_cert_chain(certificate, key or None, "")  # else OpenSSL asks at the terminal
        except OSError as error:  # ssl.SSLError is one
            raise Failure(
                f"cannot use the certificate in {certificate} (DELAYLINE_CERTFILE): {error}", USAGE
            ) from error
    return context


def _key() -> dict[str, str]:
    """The key of `$DELAYLINE_KEY`, or in the file `$DELAYLINE_KEY_FILE`: an option would show it in `ps`. Raises
    Failure."""
    key, file = os.environ.get("DELAYLINE_KEY", ""), os.environ.get("DELAYLINE_KEY_FILE", "")
    if not key and file:
        try:
            key = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"cannot read the key in {file} (DELAYLINE_KEY_FILE)", USAGE) from error
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise Failure("what DELAYLINE_KEY has is no key", USAGE)
    return {"authorization": f"Bearer {key}"}


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _headers(headers: dict[str, str | None]) -> dict[str, str]:
    try:
        given = _given(headers)
        return {name.replace("_", "-"): str(value).encode("ascii").decode() for name, value in given.items()}
    except UnicodeEncodeError as error:
        raise Failure(f"{error.object!r} is not ASCII, and HTTP headers are", USAGE) from error


def _failure(answer: "httpx.Response") -> Failure:
    """A problem document in one sentence."""
    code = _EXIT_CODES.get(answer.status_code, FAILED)
    kind = NotAllowed if answer.status_code == 403 else Failure
    try:
        return kind(sentence(answer.json()), code)
    except (ValueError, KeyError, TypeError):
        return Failure(f"the server answered {answer.status_code}", code)


def sentence(problem: dict[str, Any]) -> str:
    if not problem.get("detail"):
        return str(problem["title"])
    pointers = [fault["pointer"] for fault in problem.get("errors", ())]
    is_options = any(pointer.startswith(("/schedule", "/filter", "/partition", "?")) for pointer in pointers)
    detail = _FIELD.sub(_as_option, problem["detail"]) if is_options else problem["detail"]
    return f"{problem['title']}: {detail}"


_FIELD = re.compile(r"`([a-z][a-z_]+)`")
_OPTIONS = {"deliver_at": "--at", "page_size": "--limit"}
_FIELDS = {
    *("delay", "deliver_at", "level", "cron", "time_zone", "every", "times", "backoff", "missed", "ttl", "expire_at"),
    *("own_id", "on_conflict", "key", "partition", "state", "due_after", "due_before", "topic", "page_size"),
    *("page_token", "partitions", "bucket", "from", "to"),
}
"""Of requests that options stand for; other words in quotes are what they are."""


def _as_option(field: re.Match[str]) -> str:
    """What was typed: the server speaks of fields of JSON."""
    name = field[1]
    return f"`{_OPTIONS.get(name, '--' + name.replace('_', '-'))}`" if name in _FIELDS else field[0]
