"""What a shard does, without logs, cursors and indexes: a dictionary of what waits, and the rules in words.

Everything here happens at once and one thing after the other; the service does the same in commits. What a user can
distinguish must not differ: what is delivered and under which id, what each message and request comes to.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Waiting:
    """A message that waits. `id` is that of its first acceptance, `times` the deliveries that are left."""

    id: str
    due_ms: int
    order: int
    own_id: str | None = None
    request: tuple[str, str] | None = None  # idempotency key and digest
    ttl_ms: int | None = None
    every_ms: int | None = None
    times: int = 1
    missed: str = "latest"
    occurrence: int = 1

    @property
    def name(self) -> str:
        return self.id if self.every_ms is None else f"{self.id}~{self.occurrence}"


class Model:
    """`delivered` holds the names of deliveries, `ended` what each message or occurrence has come to, by name."""

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self.delivered: list[str] = []
        self.ended: dict[str, str] = {}
        self.requests: dict[str, str] = {}  # idempotency key -> digest, of what was accepted
        self.paused = False
        self._order = 0

    def next_order(self) -> int:
        self._order += 1
        return self._order

    # --- what clients do; each returns what comes of it

    def send(self, message: Waiting, *, replaces: bool = False) -> str:
        if message.request is not None and message.request[0] in self.requests:
            same = self.requests[message.request[0]] == message.request[1]
            return self._end(message, "duplicate: idempotency" if same else "duplicate: idempotency-reused")
        holder = self.find_own(message.own_id)
        if holder is not None and not replaces:
            return self._end(message, "duplicate: own-id")
        if holder is not None:
            self._end(holder, "superseded: replaced")
        if message.request is not None:
            self.requests[message.request[0]] = message.request[1]
        self.waiting[message.id] = message
        return "accepted"

    def find_own(self, own_id: str | None) -> Waiting | None:
        found = (message for message in self.waiting.values() if own_id is not None and message.own_id == own_id)
        return next(found, None)

    def cancel(self, found: Waiting | None, *, occurrence: int | None = None) -> str:
        if found is None or occurrence not in (None, found.occurrence):
            return "unmatched: not-pending"
        self._end(found, "cancelled: cancelled")
        if occurrence is not None and found.every_ms is not None:
            self._go_on(found, found.due_ms + found.every_ms)
        return "applied: cancelled"

    def reschedule(self, found: Waiting | None, due_ms: int) -> str:
        if found is None:
            return "unmatched: not-pending"
        self.waiting[found.id] = replace(found, due_ms=due_ms, order=self.next_order())
        return "applied: rescheduled"

    def purge(self) -> str:
        for message in list(self.waiting.values()):
            self._end(message, "cancelled: purged")
        return "applied: purged"

    # --- time

    def pass_time(self, now_ms: int) -> None:
        """Deliver what is due, in order, until nothing is."""
        while not self.paused and (due := sorted(self._due(now_ms), key=lambda each: (each.due_ms, each.order))):
            for message in due:
                self._fire(message, now_ms)

    def _due(self, now_ms: int) -> Iterator[Waiting]:
        return (message for message in self.waiting.values() if message.due_ms <= now_ms)

    def _fire(self, message: Waiting, now_ms: int) -> None:
        tick_ms, next_ms = message.due_ms, message.due_ms + (message.every_ms or 0)
        if message.every_ms is not None and next_ms <= now_ms and message.missed != "all":
            tick_ms += (now_ms - tick_ms) // message.every_ms * message.every_ms
            next_ms = tick_ms + message.every_ms
            if message.missed == "none":
                self.waiting[message.id] = replace(message, due_ms=next_ms, order=self.next_order())
                return
        if message.ttl_ms is not None and now_ms > tick_ms + message.ttl_ms:
            self._end(message, "expired: deadline")
        else:
            self.delivered.append(message.name)
            self._end(message, "delivered: None")
        if message.every_ms is not None and message.times > 1:
            self._go_on(replace(message, times=message.times - 1), next_ms)

    def _go_on(self, message: Waiting, due_ms: int) -> None:
        after = replace(message, due_ms=due_ms, order=self.next_order(), occurrence=message.occurrence + 1)
        self.waiting[message.id] = after

    def _end(self, message: Waiting, outcome: str) -> str:
        self.waiting.pop(message.id, None)
        self.ended[message.name] = outcome
        return outcome
