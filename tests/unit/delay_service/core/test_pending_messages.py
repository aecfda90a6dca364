"""Names that could not be written when they were given, or were given before."""

from delay_service.core.batch_draft import BatchDrafter
from delay_service.core.operations import Operations
from delay_service.core.pending_messages import PendingMessages
from delayline.buffer.record import Message, read
from delayline.records.message import Key, Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from delayline.schedule.terms import own_name
from store.index import Entry
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import NAMES

ORDERS = Shard("orders", "0")
NAME = own_name("k")


def test_a_name_that_is_owed_to_a_record_that_has_gone_does_not_hide_who_has_it() -> None:
    free_bytes = [4]
    index = MemoryIndex(lambda: free_bytes[0], disk_free_min_bytes=4).shard(ORDERS)
    index.reset()
    register = PendingMessages(ORDERS, index, BatchDrafter(ORDERS, NAMES, "delivery"), lambda _: None, 1000)
    message = read(encode_body(None, b"x", [(b"delay-id", b"k"), (b"delay-ms", b"5")]), 100, DEFAULT_RULES)
    assert isinstance(message, Message)
    first, second = Key(message.due_ms, 0), Key(message.due_ms, 1)
    index.put([Entry(*first, message.value)], None)
    free_bytes[0] = 0
    register.bind({NAME: first}, ())
    assert register.owed_low() == 0
    free_bytes[0] = 4
    index.discard(first)
    index.put([Entry(*second, message.value)], None, [(NAME, second)])
    holder = register.holder(NAME)
    assert holder is not None
    assert holder.key == second


def test_a_claim_that_has_its_names_already_is_no_duplicate_of_itself() -> None:
    index = MemoryIndex().shard(ORDERS)
    index.reset()
    register = PendingMessages(ORDERS, index, BatchDrafter(ORDERS, NAMES, "delivery"), lambda _: None, 1000)
    headers = [(b"delay-id", b"k"), (b"delay-ms", b"5"), (b"delayline-idempotency", b"digest key")]
    message = read(encode_body(None, b"x", headers), 100, DEFAULT_RULES)
    assert isinstance(message, Message)
    assert message.terms is not None
    key = Key(message.due_ms, 0)
    index.put([Entry(*key, message.value)], None, [(name, key) for name in message.terms.names])
    operations = Operations()
    operations.ask(0, 100, key)

    decided = operations.decide(0, register, 1)

    assert (decided.count, decided.rows, set(decided.named.values())) == (1, [], {key})
