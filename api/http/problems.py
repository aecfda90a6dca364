"""Every way in which the API refuses, as a problem document (RFC 9457), and the only place that builds one.

    Refusal       raised wherever the API finds something wrong; carries the content of the document
    refusal_of    any other exception as a Refusal: errors of the queue, of owners, of the framework, and ours
    Problems      writes the document, counts it, and logs what only an operator can mend

The `type` is a promise to programs, the `title` to people; `detail` may change from one version to the next.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any, NamedTuple

import msgspec
import structlog
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException

from api.http.answers import PROBLEM_JSON, Answer, LastAnswer, RawHeaders
from api.metrics import Metrics
from delayline.access.ledger import OverQuota
from delayline.access.quotas import WAITED_FOR
from delayline.errors import DelaylineError, MalformedMessageId
from delayline.questions.inquiry import OwnerUnavailable
from delayline.schedule.verdict import Invalid, Reason
from mq.errors import (
    NotDoneHere,
    OffsetOutOfRange,
    PartitionUnknown,
    QueueUnavailable,
    RecordTooLarge,
    TooManyTopics,
    TopicBusy,
    TopicExists,
    TopicUnknown,
)

_log = structlog.get_logger("api")


class Kind(NamedTuple):
    """A problem type: the last part of its URI, what it is called, and its usual status."""

    name: str
    title: str
    status: int = 400


INVALID_REQUEST = Kind("invalid-request", "Path, query or header is not valid")
INVALID_BODY = Kind("invalid-body", "The body is not valid")
INVALID_SCHEDULE = Kind("invalid-schedule", "The schedule is not valid")
CONTRADICTORY_SCHEDULE = Kind("contradictory-schedule", "Two times given")
BEYOND_HORIZON = Kind("beyond-horizon", "Due later than this installation allows")
NOT_SUPPORTED = Kind("not-supported", "Not supported here")
TOPIC_NOT_ENABLED = Kind("topic-not-enabled", "Delays are not enabled for this topic")
LIMIT_EXCEEDED = Kind("limit-exceeded", "A limit of this installation is exceeded")
UNAUTHENTICATED = Kind("unauthenticated", "The caller is not known", 401)
NOT_ALLOWED = Kind("not-allowed", "No rule allows it", 403)
FORBIDDEN = Kind("forbidden", "Not for clients", 403)
TOPIC_UNKNOWN = Kind("topic-unknown", "No such topic", 404)
NOT_FOUND = Kind("not-found", "Not found", 404)
METHOD_NOT_ALLOWED = Kind("method-not-allowed", "The path does not take this method", 405)
REQUEST_TIMEOUT = Kind("request-timeout", "The body did not arrive in time", 408)
AMBIGUOUS = Kind("ambiguous", "Several messages have this own id", 409)
TOPIC_EXISTS = Kind("topic-exists", "There is such a topic already", 409)
TOPIC_BUSY = Kind("topic-busy", "The topic is in use", 409)
NOT_SKIPPED = Kind("not-skipped", "The shard was not made to go on", 409)
QUOTA_EXCEEDED = Kind("quota-exceeded", "A quota of the caller is exceeded", 429)
IDEMPOTENCY_IN_FLIGHT = Kind("idempotency-in-flight", "A request with this key is not answered yet", 409)
ALREADY_TERMINAL = Kind("already-terminal", "The message has ended", 410)
UNDO_OVER = Kind("undo-over", "It cannot be undone any more", 410)
VERSION_MISMATCH = Kind("version-mismatch", "The message has another version", 412)
TOO_LARGE = Kind("too-large", "Too large", 413)
MISDIRECTED = Kind("misdirected-request", "Not a name of this server", 421)
UNSUPPORTED_MEDIA_TYPE = Kind("unsupported-media-type", "The body must be JSON", 415)
IDEMPOTENCY_REUSED = Kind("idempotency-reused", "Another request had this key", 422)
INTERNAL = Kind("internal-error", "An error of the server", 500)
QUEUE_UNAVAILABLE = Kind("queue-unavailable", "The queue did not take it, or it is unknown whether it did", 503)
OWNER_UNAVAILABLE = Kind("owner-unavailable", "The owner of this shard does not answer right now", 503)
NOT_READY = Kind("not-ready", "Not ready", 503)

_KIND_OF_REASON = {
    Reason.INVALID: INVALID_SCHEDULE,
    Reason.CONTRADICTORY: CONTRADICTORY_SCHEDULE,
    Reason.BEYOND_HORIZON: BEYOND_HORIZON,
    Reason.NOT_SUPPORTED: NOT_SUPPORTED,
}

RETRY_AFTER_S = 1


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong. `pointer` is a JSON pointer (RFC 6901) into the body, or `?name` for a query
    parameter; `code` is for programs."""

    pointer: str
    code: str
    detail: str


class Refusal(DelaylineError):
    """A request, or a member of a batch, is refused.

    `status` replaces the kind's usual one; `allow` lists the methods of a 405; `close` ends the connection, because
    the rest of the body will not be read; `headers` are more of the answer's; `results` has the result of each member
    of a batch; `outcome` is how a message has ended; `quota` is the limit of a quota; `retry_after_s` is for 429 and
    503.
    """

    def __init__(
        self,
        kind: Kind,
        detail: str,
        faults: Sequence[Fault] = (),
        *,
        status: int | None = None,
        allow: str | None = None,
        close: bool = False,
        headers: RawHeaders = (),
        results: Sequence[object] | None = None,
        outcome: object = None,
        quota: str | None = None,
        retry_after_s: int = RETRY_AFTER_S,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status = status or kind.status
        self.detail = detail
        self.faults = tuple(faults)
        self.allow = allow
        self.close = close
        self.headers = headers
        self.results = results
        self.outcome = outcome
        self.quota = quota
        self.retry_after_s = retry_after_s

    def under(self, prefix: str) -> "Refusal":
        """The same about the member of the body at the JSON pointer `prefix`."""
        faults = [Fault(prefix + fault.pointer, fault.code, fault.detail) for fault in self.faults]
        return Refusal(self.kind, self.detail, faults, status=self.status, quota=self.quota)


def refused(kind: Kind, pointer: str, code: str, detail: str) -> Refusal:
    """A refusal because of one thing."""
    return Refusal(kind, detail, [Fault(pointer, code, detail)])


def refusal_of_schedule(invalid: Invalid, pointer: str) -> Refusal:
    """What the reader of directives found in the part of the body at `pointer`."""
    return refused(_KIND_OF_REASON[invalid.reason], pointer, invalid.reason, invalid.detail)


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """RFC 9457, with our members `errors`, `request_id`, for batches `results`, `outcome` for what has ended, and
    `quota`: the limit of a quota that refuses it."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | UnsetType = UNSET
    errors: tuple[Fault, ...] = ()
    results: Sequence[Any] | UnsetType = UNSET
    outcome: Any | UnsetType = UNSET
    quota: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET


def member_problem(refusal: Refusal) -> Problem:
    """The problem of one member of a batch: the document around it has the id of the request."""
    quota = UNSET if refusal.quota is None else refusal.quota
    return Problem(
        _uri(refusal.kind), refusal.kind.title, refusal.status, refusal.detail, errors=refusal.faults, quota=quota
    )


def _uri(kind: Kind) -> str:
    return f"/problems/{kind.name}"


def refusal_of(error: Exception) -> Refusal:
    """What an exception means to the client. What is not known here is our fault: an internal error."""
    match error:
        case Refusal():
            return error
        case HTTPException():
            return _refusal_of_framework(error)
        case OverQuota():
            return refusal_over_quota(error)
        case TooManyTopics():
            return Refusal(LIMIT_EXCEEDED, str(error), status=429)
        case TopicUnknown():
            return Refusal(TOPIC_UNKNOWN, str(error))
        case TopicExists():
            return Refusal(TOPIC_EXISTS, str(error))
        case TopicBusy():
            return Refusal(TOPIC_BUSY, str(error))
        case NotDoneHere():
            return Refusal(NOT_SUPPORTED, str(error))
        case PartitionUnknown():
            return refused(INVALID_REQUEST, "", "partition-unknown", str(error))
        case OffsetOutOfRange():
            return refused(INVALID_REQUEST, "?offset", "out-of-range", str(error))
        case RecordTooLarge():
            return Refusal(TOO_LARGE, str(error))
        case QueueUnavailable():
            return Refusal(QUEUE_UNAVAILABLE, str(error))
        case OwnerUnavailable():
            return Refusal(OWNER_UNAVAILABLE, str(error) or "no worker owns the message's shard; ask again")
        case MalformedMessageId():
            return Refusal(NOT_FOUND, f"not a message id: {error}")
    return Refusal(INTERNAL, "an error of the server; its log has the details under this request id")


def refusal_over_quota(error: OverQuota, pointer: str | None = None) -> Refusal:
    """429 where waiting helps. `pointer`: what of the body the quota is about."""
    faults = [] if pointer is None else [Fault(pointer, QUOTA_EXCEEDED.name, str(error))]
    status = 429 if error.limit in WAITED_FOR else 400
    retry_after_s = RETRY_AFTER_S if error.wait_s is None else max(RETRY_AFTER_S, ceil(error.wait_s))
    return Refusal(QUOTA_EXCEEDED, str(error), faults, status=status, quota=error.limit, retry_after_s=retry_after_s)


def _refusal_of_framework(error: HTTPException) -> Refusal:
    if error.status_code == 404:
        return Refusal(NOT_FOUND, "there is nothing at this path")
    if error.status_code == 405:
        allow = (error.headers or {}).get("Allow")
        return Refusal(METHOD_NOT_ALLOWED, f"this path takes {allow}", allow=allow)
    return Refusal(INVALID_REQUEST, error.detail, status=error.status_code)


class Problems:
    """Turns what went wrong into an answer."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def answer(self, scope: Any, error: Exception) -> Answer:
        """The problem document for the request of this ASGI scope."""
        refusal = refusal_of(error)
        body = self.document(scope, error, refusal)
        kind = LastAnswer if refusal.close else Answer
        return kind(refusal.status, body, PROBLEM_JSON, _headers(refusal))

    def document(self, scope: Any, error: Exception, refusal: Refusal | None = None) -> bytes:
        """The document alone, for a stream that cannot change its status any more."""
        refusal = refusal or refusal_of(error)
        self._metrics.problems.labels(refusal.kind.name).inc()
        request_id = scope["delayline.request_id"]
        if refusal.kind is INTERNAL:
            _log.error("internal error", request_id=request_id, path=scope["path"], exc_info=error)
        problem = msgspec.structs.replace(
            member_problem(refusal),
            instance=scope["raw_path"].decode("ascii", "replace"),
            request_id=request_id,
            results=UNSET if refusal.results is None else refusal.results,
            outcome=UNSET if refusal.outcome is None else refusal.outcome,
        )
        return msgspec.json.encode(problem)


def _headers(refusal: Refusal) -> list[tuple[bytes, bytes]]:
    headers = list(refusal.headers)
    if refusal.status in (429, 503):
        headers.append((b"retry-after", b"%d" % refusal.retry_after_s))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="delayline"'))  # RFC 9110, 11.6.1
    if refusal.allow is not None:
        headers.append((b"allow", refusal.allow.encode()))
    if refusal.close:
        headers.append((b"connection", b"close"))
    return headers
