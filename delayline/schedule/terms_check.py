"""Whether the terms of a re-append can be kept: what was read from directives always can
(`delayline.schedule.verdict`), a record that was written into a buffer by hand may end a process that tries, or keep
it busy for ever.
"""

import re
from contextlib import suppress

from delayline.errors import Foreign, MalformedDirective, MalformedMessageId, UnknownFormat
from delayline.names import is_topic_name
from delayline.records.message import MessageId
from delayline.schedule.directives import GROUP_CHARS_MAX, KEPT_MAX, OWN_ID_BYTES_MAX
from delayline.schedule.recurrence import PERIOD_MIN_MS, check_cron, check_time_zone
from delayline.schedule.terms import Retry, Series, Terms
from delayline.times import MOMENT_MAX_MS

BACKOFF_END = 10_000
"""Directives have four digits before the point."""

KEY_BYTES_MAX = 4096
"""Of an idempotency key. The HTTP API takes shorter ones."""

_ZONE = re.compile(r"(?=.{1,64}\Z)[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
"""What the name of one looks like (IANA's theory.html), known or not."""

MISSED = ("all", "latest", "none")


def check_terms(terms: Terms) -> Terms:
    """The terms. Raises Foreign, and UnknownFormat for a time zone that a later version may know."""
    own_id, idempotency = terms.own_id, terms.idempotency
    sound = terms.expire_at_ms is None or 0 <= terms.expire_at_ms <= MOMENT_MAX_MS
    sound = sound and (terms.ttl_ms is None or 0 <= terms.ttl_ms <= KEPT_MAX)
    sound = sound and (own_id is None or _is_own_id(own_id))
    sound = sound and (idempotency is None or _fits(idempotency.key + idempotency.digest, KEY_BYTES_MAX))
    sound = sound and (terms.retry is None or _is_retry(terms.retry))
    if not sound or (terms.series is not None and not _repeats(terms.series)):
        raise Foreign("terms with a name, a time or a count that cannot be")
    return terms


def _is_own_id(text: str) -> bool:
    with suppress(MalformedMessageId):
        MessageId.parse(text)
        return False
    return _fits(text, OWN_ID_BYTES_MAX)


def _fits(text: str, bytes_max: int) -> bool:
    return len(text.encode("utf-8", "replace")) <= bytes_max


def _is_retry(retry: Retry) -> bool:
    return is_topic_name(retry.group) and len(retry.group) <= GROUP_CHARS_MAX and 0 <= retry.attempt <= KEPT_MAX


def _repeats(series: Series) -> bool:
    left, factor = series.times_left, series.backoff
    sound = (left is None or 1 <= left <= KEPT_MAX) and 1 <= series.occurrence <= KEPT_MAX
    sound = sound and series.missed in MISSED and (factor is None or 1 < factor < BACKOFF_END)
    if series.every_ms is not None:
        return sound and series.cron is None and PERIOD_MIN_MS <= series.every_ms <= KEPT_MAX
    return sound and factor is None and _is_calendar(series)


def _is_calendar(series: Series) -> bool:
    try:
        check_cron(series.cron or "")
    except MalformedDirective:
        return False
    if not _ZONE.fullmatch(series.zone):
        return False
    try:
        check_time_zone(series.zone)
    except MalformedDirective as error:
        raise UnknownFormat(f"the time zone {series.zone[:100]!r}, which this program does not know") from error
    return True
