"""The gates of one client connection."""

from collections import OrderedDict

from proxy.kafka.produce.sequencer.events import Batch, Event, Output
from proxy.kafka.produce.sequencer.gate import Gate

GATES_MAX = 4096
"""Per connection. An idle gate beyond it is dropped: its next batch asks the brokers, as on a new connection."""


class Sequencer:
    """The gates of one client connection. After a `Close` it is to be forgotten, with the connection."""

    def __init__(self, gates_max: int = GATES_MAX) -> None:
        self._gates: OrderedDict[tuple[str, int, int], Gate] = OrderedDict()
        self._gates_max = gates_max

    def handle(self, event: Event) -> list[Output]:
        """What is to be done now, in this order. Raises Bug on an answer to no question."""
        batch = event if isinstance(event, Batch) else event.batch
        key = batch.topic, batch.partition, batch.producer_id
        gate = self._gates.get(key)
        if gate is None:
            self._make_room()
            gate = self._gates[key] = Gate()
        self._gates.move_to_end(key)
        return gate.handle(event)

    def _make_room(self) -> None:
        """Where none is idle all are bounded by what the client has in flight."""
        if len(self._gates) >= self._gates_max:
            idle = next((key for key, gate in self._gates.items() if gate.idle), None)
            if idle is not None:
                del self._gates[idle]
