"""The short form of `make wire-faults`, with every kind of fault a few times."""

from random import SystemRandom
from typing import TYPE_CHECKING

from tests.fault.wire.storm import storm

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

CYCLES = 30
RATE = 0.3
SEED = SystemRandom().randrange(1 << 31)


def test_a_worker_behind_a_broker_that_does_what_it_likes_delivers_everything_once(kafka: "KafkaAt") -> None:
    print(f"seed {SEED}")
    done = storm(kafka, SEED, CYCLES, RATE)
    print(done)
    for deed in ("cut before", "cut after", "garbled", "late", "refused"):
        assert sum(count for name, count in done.items() if name.startswith(deed)) > 0, deed
    assert done["the worker met CommitAborted"] > 0
    assert done["messages delivered once"] > CYCLES
