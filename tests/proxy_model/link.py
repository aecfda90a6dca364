"""A client connection with its proxy, as a part of the model's state."""

import copy
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from proxy.kafka.produce.sequencer import (
    Answer,
    Ask,
    Batch,
    Event,
    ProbeTarget,
    SendBuffer,
    SendTarget,
    TargetAnswered,
)


@dataclass(slots=True)
class Link:
    """One client connection and its proxy. `gate` is None when the proxy is dead, `heard` False when the client has
    left. `unsent` are requests that have not left the client yet; `to_target` is the upstream connection; on B's side
    one thing at a time is under way."""

    gate: Any  # a Gate, also a mutant's
    heard: bool = True
    unsent: tuple[Batch, ...] = ()
    unanswered: tuple[Batch, ...] = ()
    answers: dict[Batch, Answer] = field(default_factory=dict)
    to_target: tuple[SendTarget | ProbeTarget, ...] = ()
    from_target: tuple[TargetAnswered, ...] = ()
    to_side: SendBuffer | Ask | None = None
    from_side: Event | None = None

    def copied(self) -> "Link":
        return replace(self, gate=copied_gate(self.gate), answers=dict(self.answers))

    def die(self) -> None:
        self.gate, self.heard, self.unsent = None, False, ()
        self.unanswered, self.answers, self.from_target, self.from_side = (), {}, (), None
        if isinstance(self.to_side, Ask):
            self.to_side = None
        self.to_target = tuple(one for one in self.to_target if isinstance(one, SendTarget))

    def rewrite(self, new: dict[int, Batch]) -> None:
        """The client numbers anew what it has not sent yet."""
        self.unanswered = tuple(_rewritten(one, new) if one in self.unsent else one for one in self.unanswered)
        self.unsent = tuple(_rewritten(one, new) for one in self.unsent)

    @property
    def gone(self) -> bool:
        return self.gate is None and not self.to_target and self.to_side is None


def _rewritten(batch: Batch, new: dict[int, Batch]) -> Batch:
    assert isinstance(batch.tag, int)
    return new.get(batch.tag, batch)


def copied_gate(gate: Any) -> Any:
    """Batches are shared, everything that changes is not."""
    if gate is None:
        return None
    new = object.__new__(type(gate))
    for name, value in vars(gate).items():
        changes = type(value) in (list, dict, deque) or type(value).__name__ == "Known"
        setattr(new, name, copy.copy(value) if changes else value)
    return new


def key_of(value: Any) -> Hashable:
    """Equal for equal states: a batch is the same as its repetition, only one of them is under way at a time."""
    if isinstance(value, Batch):
        return value.tag, value.epoch
    if isinstance(value, dict):
        return tuple((key_of(one), key_of(value[one])) for one in value)
    if isinstance(value, tuple | list | deque):
        return tuple(map(key_of, value))
    if type(value).__name__ == "Known" or hasattr(type(value), "__dataclass_fields__"):
        return type(value).__name__, *(key_of(getattr(value, name)) for name in value.__dataclass_fields__)
    if hasattr(value, "__dict__") and type(value).__name__ == "Gate":
        return tuple(map(key_of, vars(value).values()))
    return value if isinstance(value, int | str | None) else str(value)
