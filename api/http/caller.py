"""The caller of a request, and what it may do: what routes know of access. `api.access` finds out who it is."""

from enum import Enum
from typing import Protocol

from starlette.requests import Request
from starlette.types import Scope

from api.http.answers import RawHeaders
from api.http.problems import NOT_ALLOWED, UNAUTHENTICATED, Refusal
from delayline.access.acts import Act


class Open(Enum):
    """For what needs no right of its own."""

    TO_ALL = "all"  # also to those who present no key
    TO_PRINCIPALS = "principals"  # to every principal


class Caller(Protocol):
    """The principal that a request is from. A change of the rules counts from the next question on."""

    @property
    def principal(self) -> str:
        """The name that rules, logs and the audit have for it. Raises Refusal (401) where it is unknown."""
        ...

    def may(self, act: Act, topic: str | None) -> bool:
        """Whether it may do this to the topic, or without one to all of them. Raises as `principal` does, also where
        its key has ended since."""
        ...


class Callers(Protocol):
    """Finds the caller of a request."""

    async def caller(self, scope: Scope) -> Caller:
        """Hot: once per request. Raises Refusal (401, 429, 503)."""
        ...


CALLER = "delayline.caller"
"""Where a request's scope has it."""

ANONYMOUS = "anonymous"


class Anyone:
    """The caller where no key is needed."""

    principal = ANONYMOUS

    def may(self, act: Act, topic: str | None) -> bool:
        return True


class NoKeys:
    """Where no key is needed, all callers are the same."""

    def __init__(self) -> None:
        self._anyone = Anyone()

    async def caller(self, scope: Scope) -> Caller:
        return self._anyone


class Unknown:
    """The caller that presents no key where one is needed, or a session that is over."""

    def __init__(self, detail: str, headers: RawHeaders = ()) -> None:
        """`headers` are more of the refusal's."""
        self._detail = detail
        self._headers = headers

    @property
    def principal(self) -> str:
        raise unauthenticated(self._detail, self._headers)

    def may(self, act: Act, topic: str | None) -> bool:
        raise unauthenticated(self._detail, self._headers)


def caller_of(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


def check_known(caller: Caller) -> None:
    """Raises Refusal (401)."""
    _ = caller.principal


def check(caller: Caller, act: Act, topic: str | None) -> None:
    """Raises Refusal (401, 403). The answer is the same whether there is such a topic or not."""
    if not caller.may(act, topic):
        about = "every topic" if topic is None else f"topic {topic!r}"
        raise Refusal(NOT_ALLOWED, f"{caller.principal} has no right to `{act}` of {about}")


def unauthenticated(detail: str, headers: RawHeaders = ()) -> Refusal:
    return Refusal(UNAUTHENTICATED, detail, headers=headers)
