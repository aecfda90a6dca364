"""What a message may ask for beside its due time. It stays with the message: in the index, and in its re-appends.

`Terms` are read from directives once (`delayline.schedule.verdict`) and carried in absolute figures from then on, so
that neither a level table nor a time zone's rules can change them later.
"""

import msgspec

from delayline.errors import Foreign, UnknownFormat
from delayline.times import MOMENT_MAX_MS


class Series(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How a message repeats."""

    cron: str | None = None  # else every_ms
    zone: str = "UTC"
    every_ms: int | None = None  # gap to the next tick
    backoff: float | None = None  # the gap grows by this factor after each delivery
    times_left: int | None = None  # deliveries still to come, this one included; None: for ever
    missed: str = "latest"  # all | latest | none
    occurrence: int = 1


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A consumer group that failed with a message, and how often it has before. `exhausted`: too often."""

    group: str
    attempt: int = 0
    exhausted: bool = False


class Idempotency(msgspec.Struct, frozen=True):
    """The sender's key for "this very request", and a digest of the request, to distinguish a repetition from a
    mix-up."""

    key: str
    digest: str


class Terms(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """See the module docstring. Times are epoch ms UTC, durations milliseconds."""

    own_id: str | None = None
    replaces: bool = False  # what to do where a pending message has this own id: end that one, else this one
    idempotency: Idempotency | None = None
    expire_at_ms: int | None = None
    ttl_ms: int | None = None  # the same from the due time on, whatever that becomes
    series: Series | None = None
    retry: Retry | None = None

    @property
    def names(self) -> list[bytes]:
        """What the message is found by beside its message id; unique among the pending ones of its shard."""
        names = [] if self.own_id is None else [own_name(self.own_id)]
        return names if self.idempotency is None else [*names, key_name(self.idempotency.key)]

    def expires_ms(self, due_ms: int) -> int | None:
        """The last moment at which a message that is due then may be delivered."""
        return self.expire_at_ms if self.ttl_ms is None else min(due_ms + self.ttl_ms, MOMENT_MAX_MS)

    @property
    def encoded(self) -> bytes:
        """JSON, as it is in re-appends."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Terms":
        """Raises UnknownFormat: what a later version has added, this one cannot keep; and Foreign for what none has
        written. Whether a value can be is looked at by `terms_check`."""
        try:
            return _DECODER.decode(data)
        except (ValueError, RecursionError) as error:
            if later := sorted(_names(data) - set(Terms.__struct_fields__)):
                raise UnknownFormat(
                    f"terms with {', '.join(later)[:100]}, which this program does not know"
                ) from error
            raise Foreign(f"the terms of a re-append cannot be read: {error}") from error


def _names(data: bytes) -> set[str]:
    """Of the fields of an object; none where it is no object."""
    try:
        return set(_OBJECT.decode(data))
    except (ValueError, RecursionError):
        return set()


_DECODER = msgspec.json.Decoder(Terms)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OWN_ID, _IDEMPOTENCY = b"\x01", b"\x02"
"""Before names in the index. Message ids are there as they are, and begin with a character of a topic's name."""


def own_name(own_id: str) -> bytes:
    """What the index calls a message with this own id."""
    return _OWN_ID + own_id.encode()


def key_name(idempotency_key: str) -> bytes:
    """What the index calls a message with this idempotency key."""
    return _IDEMPOTENCY + idempotency_key.encode()
