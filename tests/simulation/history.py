"""What happened in a run, as plain facts: the input of `checker.check`. Standard library only.

A history is a sequence of facts in the order in which they became true. The simulation writes one while it runs; a
test against a real queue can write one afterwards from client logs and topics: first what was appended, then what was
delivered. What such a test cannot know stays None, and the rules that need it are not judged: without `after` no rule
about cursors, without `rows` none about outcomes, without `clock_ms` none about being early.

Times are epoch milliseconds of the broker's clock. A key is `(due_ms, offset of the record that carries the
message)`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

Key = tuple[int, int]

MESSAGE = "message"  # as a client sent it
REAPPEND = "re-append"  # carries a message on
OPERATION = "operation"  # as a client sent it: cancels a message, or reschedules it
DECISION = "decision"  # names records that ended other than by the cursor
RULES = "rules"  # rules in force behind it


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
    replaces: Key | None = None  # re-append
    names: tuple[Key, ...] = ()  # decision
    rules_number: int | None = None  # rules
    target: str | None = None  # operation: a message id; `due_ms` is the new due time, None for a cancel


class Cursor(NamedTuple):
    """O, D, L, the owner's epoch and name, and the number of the rules said to be in force at L."""

    next_offset: int
    delivered_key: Key
    low_offset: int
    epoch: int
    writer: str | None = None
    rules_number: int | None = None


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


class Committed(NamedTuple):
    """One shard's part of one commit that was applied. `rows` are outcome rows with the names of the audit format
    (off id due acc out suc), `low_water` marks are (next offset, due time). `taken_ms` is what the broker's clock
    showed when the batch was taken, `clock_ms` its latest reading from then to the commit. `before` and `after` are
    the stored cursors around it; before the first claim there is none."""

    shard: str
    before: Cursor | None = None
    after: Cursor | None = None
    deliveries: Sequence[Delivered] = ()
    dead: Sequence[Dead] = ()
    appended: Sequence[Appended] = ()
    rows: Sequence[dict[str, Any]] | None = None
    clock_ms: int | None = None
    taken_ms: int | None = None
    low_water: Sequence[tuple[int, int]] = ()


class Limited(NamedTuple):
    """What is taken later than this after its due time must expire, and nothing else may."""

    shard: str
    late_max_ms: int


class Moved(NamedTuple):
    """The stored cursor, as somebody saw it change who cannot tell with which deliveries."""

    shard: str
    before: Cursor | None
    after: Cursor


class Trimmed(NamedTuple):
    """The buffer was given back below `low_offset`."""

    shard: str
    low_offset: int


class Failed(NamedTuple):
    """The service stopped or threw where it had to go on."""

    shard: str
    text: str


class Ended(NamedTuple):
    """The run is over. `drained`: everything was due, read and dispatched, as far as the service would go."""

    drained: bool


Fact = Appended | Committed | Limited | Moved | Trimmed | Failed | Ended
