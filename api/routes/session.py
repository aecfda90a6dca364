"""Login for people: a key is exchanged for the cookie of a session, which a browser keeps and no script can read."""

import structlog
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.access.authenticator import Holder, SessionCaller, TokenCaller
from api.access.certificates import CertificateCaller
from api.access.cookies import SESSION
from api.access.sessions import Session, Sessions
from api.bodies.answers import LoginsOut, SessionOut
from api.http.answers import Answer, RawHeader, json_answer
from api.http.caller import Caller, Open, caller_of, unauthenticated
from api.http.endpoint import SET_COOKIE, Endpoint, Reply
from api.http.problems import NOT_FOUND, NOT_SUPPORTED, Refusal
from api.http.requests import Query, refuse_body
from api.http.routing import add_route
from delayline.times import format_moment

_BEGIN = Endpoint(
    id="beginSession",
    act=Open.TO_PRINCIPALS,
    summary="Log in: a key becomes a session, whose cookie does what the key does",
    replies=[Reply(201, "The session", [SessionOut], [SET_COOKIE])],
    refuses=[400, 503],
)
_GET = Endpoint(
    id="getSession",
    act=Open.TO_PRINCIPALS,
    summary="Who the caller is, and until when",
    replies=[Reply(200, "The session, or the key", [SessionOut])],
    refuses=[400, 503],
)
_END = Endpoint(
    id="endSession",
    act=Open.TO_PRINCIPALS,
    summary="Log out",
    replies=[Reply(204, "The session is over", headers=[SET_COOKIE])],
    refuses=[400, 403, 404, 503],
)
_LOGINS = Endpoint(
    id="getLogins",
    act=Open.TO_ALL,
    summary="How people can log in",
    replies=[Reply(200, "The ways that there are", [LoginsOut])],
    refuses=[400, 503],
)
_PATH = "/v1/session"
_UNCACHED: RawHeader = (b"cache-control", b"no-store")

_log = structlog.get_logger("access")


class SessionRoutes:
    """Begins, shows and ends sessions. `sessions` is None where no keys are needed, `issuer` where people do not log
    in by an identity provider."""

    def __init__(self, sessions: Sessions | None, issuer: str | None) -> None:
        self._sessions = sessions
        self._issuer = issuer

    def register(self, router: APIRouter) -> None:
        add_route(router, "POST", _PATH, self.begin, _BEGIN)
        add_route(router, "GET", _PATH, self.get, _GET)
        add_route(router, "DELETE", _PATH, self.end, _END)
        add_route(router, "GET", f"{_PATH}/logins", self.logins, _LOGINS)

    async def begin(self, request: Request) -> Response:
        """By a key alone: a session that could begin the next one would have no end."""
        Query(request)
        refuse_body(request)
        sessions, caller = self._needed(), caller_of(request)
        if not isinstance(caller, Holder):
            raise unauthenticated("a session begins with a key: authorization: Bearer dlk_...")
        session = sessions.begin(caller.key)
        _log.info("session begun", principal=caller.principal, key=session.key_id, session=session.nonce)
        cookie = SESSION.set(request.scope, sessions.cookie(session), _seconds(session))
        return json_answer(201, _session_out(caller.principal, session, sessions), [cookie, _UNCACHED])

    async def get(self, request: Request) -> Response:
        Query(request)
        caller = caller_of(request)
        if self._sessions is not None and isinstance(caller, SessionCaller):
            return json_answer(200, _session_out(caller.principal, caller.session, self._sessions), [_UNCACHED])
        return json_answer(200, SessionOut(caller.principal, expires_at=_moment(_end_ms(caller))), [_UNCACHED])

    async def end(self, request: Request) -> Response:
        Query(request)
        refuse_body(request)
        sessions, caller = self._needed(), caller_of(request)
        if not isinstance(caller, SessionCaller):
            raise Refusal(NOT_FOUND, "there is no session: this request shows a key, or a token")
        _log.info("session ended", principal=caller.principal, session=caller.session.nonce)
        sessions.end(caller.session)
        return Answer(204, headers=[SESSION.cleared(request.scope), _UNCACHED])

    async def logins(self, request: Request) -> Response:
        Query(request)
        return json_answer(200, LoginsOut(self._sessions is not None, self._issuer), [_UNCACHED])

    def _needed(self) -> Sessions:
        """Raises Refusal."""
        if self._sessions is None:
            raise Refusal(NOT_SUPPORTED, "this installation asks for no key, so there is nothing to log in to")
        return self._sessions


def _session_out(principal: str, session: Session, sessions: Sessions) -> SessionOut:
    return SessionOut(principal, sessions.csrf_token(session), _moment(session.end_ms))


def _end_ms(caller: Caller) -> int | None:
    """Of its key, its token, or its certificate."""
    return caller.end_ms if isinstance(caller, Holder | TokenCaller | CertificateCaller) else None


def _seconds(session: Session) -> int:
    return (session.end_ms - session.begun_ms) // 1000


def _moment(ms: int | None) -> str | None:
    return None if ms is None else format_moment(ms)
