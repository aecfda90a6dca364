"""GET / and /console/...: the operators' console, static files that ask this very API.

The files travel inside the package, are read once, and answered from memory. What a page of ours may load or run is
what is there: its Content-Security-Policy lets in nothing else, so that whatever a message holds stays text.
"""

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.http.answers import Answer, RawHeaders
from api.http.caller import Open
from api.http.endpoint import Endpoint
from api.http.problems import NOT_FOUND, Refusal
from api.http.requests import Query

_FOLDER = "console"
_PAGE = "index.html"
_TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
_POLICY = (
    b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_GUARDS: RawHeaders = (
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),  # kept, but asked for every time: a new version is there at once
)


_FILE = Endpoint(id="getConsole", summary="A file of the console", act=Open.TO_ALL, replies=[])


class File(NamedTuple):
    """A file of the console; `etag` is a strong one (RFC 9110, 8.8.3)."""

    content_type: bytes
    body: bytes
    etag: bytes


class ConsoleRoutes:
    """The console's page and everything it loads. Not in the OpenAPI document: it is for people."""

    def __init__(self) -> None:
        self._files = read_files(files("api") / _FOLDER)

    def register(self, router: APIRouter) -> None:
        for path in ("/", "/console/{name:path}"):
            extra = {"endpoint": _FILE}
            router.add_api_route(
                path, self.get, methods=["GET"], include_in_schema=False, response_model=None, openapi_extra=extra
            )

    async def get(self, request: Request) -> Response:
        Query(request)
        found = self._files.get(request.path_params.get("name", _PAGE))
        if found is None:
            raise Refusal(NOT_FOUND, "the console has no such file")
        headers = [*_GUARDS, (b"etag", found.etag)]
        if _is_known(request.scope["delayline.headers"].get(b"if-none-match"), found.etag):
            return _not_modified(headers)
        return Answer(200, found.body, found.content_type, headers)


def _not_modified(headers: list[tuple[bytes, bytes]]) -> Response:
    """Without a length: that would be the length of a file that is not there (RFC 9110, 8.6)."""
    answer = Answer(304)
    answer.raw_headers = headers
    return answer


def read_files(folder: Traversable) -> Mapping[str, File]:
    """Every file below `folder` by its name there, with slashes. Those of other types are left out."""
    return dict(_walk(folder, ""))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, File]]:
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            yield from _walk(entry, f"{name}/")
        elif (content_type := _TYPES.get(name.rpartition(".")[2])) is not None:
            body = entry.read_bytes()
            yield name, File(content_type, body, b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode())


def _is_known(if_none_match: bytes | None, etag: bytes) -> bool:
    """Whether the client has this very file; a proxy on the way may have made the tag a weak one."""
    given = (if_none_match or b"").split(b",")
    return any(tag.strip().removeprefix(b"W/") in (etag, b"*") for tag in given)
