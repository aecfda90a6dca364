"""Messages between the commit that carries them on and the moment at which their new record is read."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from delay_service.core.pending_reappends import PendingReappend, PendingReappends
from delayline.buffer.record import Meta, encode_value
from delayline.records.message import Key
from delayline.schedule.terms import Series, Terms

IDS = st.sampled_from(["orders.0.1.50", "orders.0.2.50", "orders.0.3.50"])
PLAIN = encode_value(None, b"x")
REPEAT = encode_value(Meta(terms=Terms(series=Series(every_ms=1000))), b"x")


class Moving(RuleBasedStateMachine):
    """In step with a dict. Each message has names of its own, as claims see to."""

    def __init__(self) -> None:
        super().__init__()
        self.moving = PendingReappends()
        self.model: dict[str, PendingReappend] = {}

    @rule(message_id=IDS, due_ms=st.integers(0, 99), repeats=st.booleans(), count=st.integers(0, 2))
    def add(self, message_id: str, due_ms: int, repeats: bool, count: int) -> None:
        if message_id in self.model:
            return
        names = tuple(f"{message_id}/{number}".encode() for number in range(count))
        moved = PendingReappend(Key(due_ms, 9), REPEAT if repeats else PLAIN, names)
        self.moving.add(message_id, moved)
        self.model[message_id] = moved

    @rule(message_id=IDS)
    def read_back(self, message_id: str) -> None:
        self.moving.pop(message_id)
        self.model.pop(message_id, None)

    @invariant()
    def it_knows_what_the_model_knows(self) -> None:
        assert len(self.moving) == len(self.model)
        assert self.moving.all() == {one: (moved.key, moved.value) for one, moved in self.model.items()}
        assert self.moving.repeats() == sum(moved.value == REPEAT for moved in self.model.values())

    @invariant()
    def a_message_is_found_by_its_id_and_by_each_of_its_names_while_it_moves(self) -> None:
        for message_id in ("orders.0.1.50", "orders.0.2.50", "orders.0.3.50"):
            moved = self.model.get(message_id)
            assert self.moving.get(message_id) == moved
            assert (message_id.encode() in self.moving) is (moved is not None)
            for name in (f"{message_id}/{number}".encode() for number in range(2)):
                has_it = moved is not None and name in moved.names
                assert (name in self.moving) is has_it
                assert self.moving.holder(name) == ((message_id, moved) if has_it else None)


TestMoving = pytest.mark.slow(Moving.TestCase)


def test_a_name_that_is_no_text_names_nobody() -> None:
    moving = PendingReappends()
    moving.add("orders.0.1.50", PendingReappend(Key(50, 9), PLAIN, ()))
    assert b"\xff" not in moving
