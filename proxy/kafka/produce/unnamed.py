"""Directives in topics that take no delays: seen in passing, so that they are not accepted in silence.

Such batches are relayed as they come. Looking into one costs as much as in a topic that takes delays, so it is done
for a sample of them. One that is compressed is looked at as far as `SAMPLE_BYTES` go. Where
`delay.unknown` refuses, every batch is looked at, whole: whether one is refused must follow from its bytes alone, as
it may be sent again.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from delayline.records.headers import RESERVED
from delayline.schedule.unheeded import UnheededNames, Why
from kafkawire.batch.compression import Allowance
from kafkawire.batch.head import Kind, kind_of, read_batch
from kafkawire.protocol.errors import BatchError, BatchTooLarge
from kafkawire.protocol.primitives import Buffer
from proxy.kafka.produce.scan import scan_batch
from proxy.kafka.produce.screen import Refusal, directives_of, invalid, refusal_of
from proxy.screening import Sample

SAMPLE_BYTES = 1 << 20
"""What decompressing a batch may give, on the event loop: a few milliseconds. A larger one is passed by."""


class Unnamed:
    """One for each connection."""

    def __init__(
        self, unheeded: UnheededNames, aliases: tuple[str, ...], is_watched: Callable[[str], bool], *, refuse: bool
    ) -> None:
        """`is_watched` returns whether a topic without delays is a user's."""
        self._unheeded = unheeded
        self._aliases = aliases
        self._directives = directives_of(aliases)
        self._is_watched = is_watched
        self.refuses = refuse
        self._sample = Sample()

    def pass_by(self, topic: str, batches: Iterable[Buffer | None]) -> bool:
        """Whether they must not be relayed before `refusal` has seen each."""
        if self.refuses:
            return self._is_watched(topic)
        for data in batches:
            if data is not None and self._sample.has(topic):
                with suppress(BatchTooLarge):
                    for _, name in self._found(topic, data, Allowance(SAMPLE_BYTES)):
                        self._unheeded.note(topic, name, Why.TOPIC)
        return False

    def refusal(self, topic: str, data: Buffer, allowance: Allowance) -> Refusal | None:
        """A function of topic and bytes."""
        if not self.refuses:
            return None
        text = "{}: delay.topics does not name the topic, and delay.unknown is refuse"
        try:
            found = self._found(topic, data, allowance)
        except BatchTooLarge as error:
            return refusal_of(error)
        return invalid([(place, text.format(name)) for place, name in found])

    def _found(self, topic: str, data: Buffer, allowance: Allowance) -> list[tuple[int, str]]:
        """Places and names. What cannot be read is for the broker to judge. Raises BatchTooLarge."""
        if not self._is_watched(topic):
            return []
        try:
            if kind_of(data) is not Kind.BATCH:
                return []
            found = scan_batch(read_batch(data), self._directives, allowance=allowance).found
        except BatchTooLarge:
            raise
        except BatchError:
            return []
        headers = ((one.place, name) for one in found for name, _ in one.directives if name not in RESERVED)
        return [(place, name.decode("utf-8", "replace")) for place, name in headers if name != b"delayline-attempt"]
