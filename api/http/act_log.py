"""Who changed what: a line of JSON for each request that cancels, reschedules, controls or makes and deletes topics.

An act is written down twice: `asked` before it is tried, and `answered` with the status and the body. An act whose
first line cannot be written is refused (503), as Vault refuses without an audit device. So every act that was carried
out is in the file, also where the process died in it. Sends are left out: they are in the topic.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter
from starlette.types import Scope

from api.http.answers import BODY
from api.http.caller import CALLER
from api.http.problems import NOT_READY, Refusal, refusal_of
from delayline.access.acts import Act
from delayline.clock import Clock
from delayline.errors import ConfigError
from delayline.times import format_moment

_log = structlog.get_logger("access")

LOGGED = frozenset({Act.CANCEL, Act.RESCHEDULE, Act.CONTROL, Act.TOPICS})
BODY_BYTES_MAX = 4096
"""Of a body that are written down: a filter, a time, the ids of letters. No message is among them."""

ACT_LOG = "delayline.act_log"
"""Where a request's scope has it."""


class Answered:
    """How an act ends; `status` is set where it is carried out."""

    status = 500


class ActLog:
    """Appends to the file of that name, opened anew for each line: it may be moved away to begin another one."""

    def __init__(self, path: Path, clock: Clock, registry: CollectorRegistry) -> None:
        """Raises ConfigError where nothing can be written there."""
        self._path = path
        self._clock = clock
        self._unwritten = Counter(
            "delayline_access_acts_unwritten", "Lines that the log of acts could not take", registry=registry
        )
        try:
            os.close(self._open())
        except OSError as error:
            raise ConfigError(f"access.act_log: cannot write {path}: {error.strerror}.") from error

    @contextmanager
    def logging(self, scope: Scope, endpoint_id: str) -> Iterator[Answered]:
        """Around an act. Raises Refusal: 401 where the caller is unknown, 503 where the first line cannot be
        written."""
        about = self._about(scope, endpoint_id)
        if not self._append({"event": "asked", **about}):
            raise Refusal(NOT_READY, "the log of acts cannot be written, so nothing is done")
        answered = Answered()
        try:
            yield answered
        except BaseException as error:
            answered.status = refusal_of(error).status if isinstance(error, Exception) else 503
            raise
        finally:
            body = scope.get(BODY, b"")[:BODY_BYTES_MAX].decode(errors="replace")
            self._append({"event": "answered", **about, "body": body, "status": answered.status})

    @staticmethod
    def _about(scope: Scope, endpoint_id: str) -> Mapping[str, Any]:
        return {
            "principal": scope[CALLER].principal,
            "operation": endpoint_id,
            "path": scope["raw_path"].decode("latin-1"),
            "query": scope["query_string"].decode("latin-1"),
            "address": scope["delayline.address"],
            "request_id": scope["delayline.request_id"],
        }

    def _append(self, line: Mapping[str, Any]) -> bool:
        """Whether it is written: whole, in one call, behind what others have written."""
        data = msgspec.json.encode({"at": format_moment(self._clock.now_ms()), **line}) + b"\n"
        try:
            descriptor = self._open()
            try:
                written = os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            return self._failed(error.strerror or str(error))
        return True if written == len(data) else self._failed("the disk is full")

    def _failed(self, why: str) -> bool:
        self._unwritten.inc()
        _log.error("the log of acts cannot be written", file=str(self._path), error=why)
        return False

    def _open(self) -> int:
        """Raises OSError."""
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
