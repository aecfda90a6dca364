"""What happened in a run, as plain facts: the input of `checker.check`. Standard library only.

A history is a sequence of facts in the order in which they became true. The simulation writes one while it runs; a
test against a real queue can write one afterwards from client logs and topics: first what was appended, then what was
delivered. What such a test cannot know stays None, and the rules that need it are not judged: without `after` no rule
about cursors, without `rows` none about outcomes, without `clock_ms` none about being early.

Times are epoch milliseconds of the broker's clock. A key is `(due_ms, offset of the record that carries the
message)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Key = tuple[int, int]

MESSAGE = "message"  # as a client sent it
REAPPEND = "re-append"  # carries a message on
OPERATION = "operation"  # as a client sent it: cancels a message, or reschedules it
CONTROL = "control"  # as an operator sent it: pauses, resumes or purges the shard
DECISION = "decision"  # names records that ended other than by the cursor
RULES = "rules"  # rules in force behind it
LATER = "later"  # of a version that this program does not know: it stalls, until an operator has it skipped


Name = tuple[str, str]
"""An own id or an idempotency key: what at most one pending message of a shard has."""


class Terms(NamedTuple):
    """What a message asks for beside its time. It repeats by a gap, or by a calendar whose ticks are the multiples of
    `calendar_ms`; `cron` is how that was written. Both are None for a message that comes once."""

    own_id: str | None = None
    replaces: bool = False  # whoever has that own id
    idempotency: tuple[str, str] | None = None  # key, digest
    expire_at_ms: int | None = None
    ttl_ms: int | None = None
    gap_ms: int | None = None
    backoff: float | None = None
    cron: str | None = None
    calendar_ms: int | None = None
    times_left: int | None = None
    missed: str = "latest"
    occurrence: int = 1

    @property
    def repeats(self) -> bool:
        return self.gap_ms is not None or self.calendar_ms is not None

    @property
    def names(self) -> list[Name]:
        names = [] if self.own_id is None else [("own id", self.own_id)]
        return names if self.idempotency is None else [*names, ("key", self.idempotency[0])]

    @property
    def is_conditional(self) -> bool:
        """Whether a message that asks for this takes its place only when its turn in the log has come."""
        return bool(self.names) or self.calendar_ms is not None


NO_TERMS = Terms()


class Appended(NamedTuple):
    """A record of the buffer that readers can see: for a client's transaction, at the moment of its commit.

    `due_ms`, `id`, `payload` and `undeliverable` are what the writer of the test knows to be right, never what the
    service computed; for a re-append they are what stands in the record, and are judged.
    """

    shard: str
    offset: int
    kind: str
    at_ms: int
    id: str | None = None
    due_ms: int | None = None
    accepted_at_ms: int | None = None  # of the first acceptance
    payload: Any = None  # key, value and headers that must arrive, directives removed
    undeliverable: bool = False  # it must end as a dead letter
    refused: bool = False  # as one, but only by its target: until then it is a message like any other
    terms: Terms = NO_TERMS
    version: int = 0  # re-append: how often the message has been carried on
    replaces: Key | None = None  # re-append
    names: tuple[Key, ...] = ()  # decision
    rules_number: int | None = None  # rules
    target: str | None = None  # operation: an id, an own id or an occurrence; `due_ms` is None for a cancel
    if_version: int | None = None  # operation: only where the message has been carried on so often
    control: str | None = None  # pause, resume or purge
    undo: str | None = None  # operation, control: what it ends is kept for the undo with this id

    @property
    def name(self) -> str:
        """What deliveries and outcome rows call the message: of one that repeats, the occurrence."""
        return f"{self.id}~{self.terms.occurrence}" if self.terms.repeats else self.id or ""

    @property
    def is_conditional(self) -> bool:
        return self.kind == MESSAGE and self.terms.is_conditional

    @property
    def is_dead(self) -> bool:
        """Whether nobody could read it as a message: nothing can be done with it."""
        return self.undeliverable and not self.refused


class Cursor(NamedTuple):
    """O, D, L, the owner's epoch and name, and the number of the rules in force at L by the cursor."""

    next_offset: int
    delivered_key: Key
    low_offset: int
    epoch: int
    writer: str | None = None
    rules_number: int | None = None
    paused: bool = False
    skipped: tuple[tuple[int, int], ...] = ()


class Delivered(NamedTuple):
    """A record of the target topic."""

    id: str
    due_ms: int
    accepted_at_ms: int | None = None
    payload: Any = None


class Dead(NamedTuple):
    """A record of the dead-letter topic."""

    id: str
    due_ms: int | None = None
    offset: int | None = None
    payload: Any = None


class Copy(NamedTuple):
    """Of a message that a commit has ended, from the topic of what was purged: for an undo."""

    id: str
    undo: str
    due_ms: int
    payload: Any
    terms: Terms


class Committed(NamedTuple):
    """One shard's part of one commit that was applied. `rows` are outcome rows with the names of the audit format
    (off id due acc out suc), `low_water` marks are (next offset, due time, pending), `skips` what was skipped
    according to the audit. `taken_ms` is what the broker's clock showed when the batch was taken, `clock_ms` its
    latest reading from then to the commit. `before` and `after` are the stored cursors around it; before the first
    claim there is none."""

    shard: str
    before: Cursor | None = None
    after: Cursor | None = None
    deliveries: Sequence[Delivered] = ()
    dead: Sequence[Dead] = ()
    appended: Sequence[Appended] = ()
    rows: Sequence[dict[str, Any]] | None = None
    clock_ms: int | None = None
    taken_ms: int | None = None
    low_water: Sequence[tuple[int, int, int]] = ()
    skips: Sequence[tuple[int, int]] = ()
    copies: Sequence[Copy] = ()


class SkipAsked(NamedTuple):
    """An operator has asked the owner to pass over these offsets; the end is not among them."""

    shard: str
    first: int
    end: int


class Limited(NamedTuple):
    """What is taken later than this after its due time must expire, and nothing else may."""

    shard: str
    late_max_ms: int


class Moved(NamedTuple):
    """The stored cursor, as it was seen to change, without the deliveries of the change."""

    shard: str
    before: Cursor | None
    after: Cursor


class Trimmed(NamedTuple):
    """The buffer was given back below `low_offset`."""

    shard: str
    low_offset: int


class NamesAnswered(NamedTuple):
    """What the shard's owner answered, asked who has these names: the message's id, or None. `unheard`: its latest
    commit had been applied, and it did not know yet."""

    shard: str
    holders: Mapping[Name, str | None]
    unheard: bool = False


class Failed(NamedTuple):
    """The service stopped or threw where it had to go on."""

    shard: str
    text: str


class Ended(NamedTuple):
    """The run is over. `drained`: everything was due, read and dispatched, as far as the service would go."""

    drained: bool


Fact = Appended | Committed | SkipAsked | NamesAnswered | Limited | Moved | Trimmed | Failed | Ended
