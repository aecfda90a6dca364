"""Logins of people by an identity provider: a browser is sent there, and comes back with a code.

Both paths are for browsers, as the console's files are, and not in the OpenAPI document. A browser that comes back is
sent on to the console, which is found from here and from nothing in the request. The session's cookie is `Strict`, so
that first request for the page goes without it, which needs none; what the page asks then carries it.
"""

import structlog
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.access.attempts import Attempts
from api.access.cookies import LOGIN, SESSION
from api.access.oidc.claims import Identity
from api.access.oidc.logins import PENDING_MS, Logins, Returned
from api.access.sessions import Sessions
from api.http.answers import Answer, RawHeader
from api.http.caller import Open, unauthenticated
from api.http.endpoint import Endpoint
from api.http.problems import Refusal
from api.http.requests import Query

_CONSOLE = b"../../"
"""From the callback's path to the console's page."""
_FAILED = _CONSOLE + b"#/login-failed"
_GUARDS: tuple[RawHeader, ...] = ((b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer"))
"""The callback's URL has a code in it."""

_LOGIN = Endpoint(id="login", act=Open.TO_ALL, summary="To the identity provider", replies=[])
_CALLBACK = Endpoint(id="loginCallback", act=Open.TO_ALL, summary="Back from it", replies=[])

_log = structlog.get_logger("access")


class LoginRoutes:
    """The way of a browser to the provider and back."""

    def __init__(self, logins: Logins, sessions: Sessions, marks_sessions: str, attempts: Attempts) -> None:
        """`marks_sessions` are the settings with which sessions end."""
        self._logins = logins
        self._sessions = sessions
        self._marks_sessions = marks_sessions
        self._attempts = attempts

    def register(self, router: APIRouter) -> None:
        for path, handler, endpoint in (
            ("/v1/session/login", self.login, _LOGIN),
            ("/v1/session/callback", self.callback, _CALLBACK),
        ):
            extra = {"endpoint": endpoint}
            router.add_api_route(
                path, handler, methods=["GET"], include_in_schema=False, response_model=None, openapi_extra=extra
            )

    async def login(self, request: Request) -> Response:
        Query(request)
        url, cookie = await self._logins.begin()
        return _to(url.encode(), LOGIN.set(request.scope, cookie, PENDING_MS // 1000))

    async def callback(self, request: Request) -> Response:
        """Each login that was begun here may ask the provider: an address has as few tries as with keys that are
        wrong. Many may log in at once behind one address, so a try is spent when it has failed; `EXCHANGES_MAX`
        bounds those under way. What never began here asks nothing, and costs no try: a page of another site could
        use them up."""
        query = Query(request, others=True)
        returned = Returned(*map(query.text, Returned._fields))
        address: str = request.scope["delayline.address"]
        try:
            pending = self._logins.begun(self._pending(request), returned.state)
        except Refusal as refusal:
            return self._failed(request, refusal)
        try:
            self._attempts.check(address)
            return self._begun(request, await self._logins.finish(pending, returned))
        except Refusal as refusal:
            if refusal.status == 401:
                self._attempts.spend(address)
            return self._failed(request, refusal, LOGIN.cleared(request.scope))

    def _failed(self, request: Request, refusal: Refusal, *more: RawHeader) -> Response:
        """People get back to the page on which to log in; the log has the reason. The cookie of another login, as of
        another tab, stays. Raises the refusal for programs."""
        _log.info("login refused", error=refusal.detail, request_id=request.scope["delayline.request_id"])
        if b"text/html" in request.scope["delayline.headers"].get(b"accept", b""):
            return _to(_FAILED, *more)
        refusal.headers = (*refusal.headers, *_GUARDS, *more)
        raise refusal

    def _begun(self, request: Request, identity: Identity) -> Response:
        session = self._sessions.begin_for(identity.names, self._marks_sessions)
        if session is None:
            raise unauthenticated(
                "you have more groups than a cookie can hold: fewer of them must be in the ID token"
            )
        _log.info("session begun", principal=session.owner, session=session.nonce)
        seconds = (session.end_ms - session.begun_ms) // 1000
        cookie = SESSION.set(request.scope, self._sessions.cookie(session), seconds)
        return _to(_CONSOLE, cookie, LOGIN.cleared(request.scope))

    @staticmethod
    def _pending(request: Request) -> list[bytes]:
        return LOGIN.shown(request.scope, request.scope["delayline.headers"].get(b"cookie", b""))


def _to(url: bytes, *headers: RawHeader) -> Response:
    """303: the method is GET whatever it was (RFC 9110, 15.4.4)."""
    return Answer(303, headers=[(b"location", url), *_GUARDS, *headers])
