"""What the records of a client's Produce hold, before anything is sent: which of them ask for a delay.

Small batches are looked at in the event loop. Compressed ones, and large ones, in a thread: a few kilobytes may stand
for megabytes. While that is under way no other request of the connection is taken up, so their order stays.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkawire.batch.compression import Allowance
from kafkawire.batch.head import Batch as Records
from kafkawire.batch.head import Kind, kind_of, read_batch
from kafkawire.protocol.errors import BatchError, ErrorCode
from kafkawire.protocol.messages.metadata import MetadataResponse
from kafkawire.protocol.primitives import Buffer
from proxy.kafka.limits import INLINE_BYTES, INLINE_PLAIN_BYTES
from proxy.kafka.produce.produces import PartitionBatch
from proxy.kafka.produce.rights import Denied, Rights, RightsAsked
from proxy.kafka.produce.screen import Refusal, Seen, check_compression, compressed_bytes, refusal_of

if TYPE_CHECKING:
    from proxy.kafka.hub import Hub
    from proxy.kafka.produce.unnamed import Unnamed
    from proxy.kafka.produce.upstream import Upstream


Looks = dict[PartitionBatch, tuple[Records, Seen | None]]
"""What was found in each batch that can be read; None where its records cannot be taken apart."""


class Inspection:
    """Of one connection. `inspected` is called with the batches and what was found, once nothing about them is
    unknown."""

    def __init__(
        self,
        hub: "Hub",
        upstream: "Upstream",
        unnamed: "Unnamed",
        inspected: Callable[[list[PartitionBatch], Looks], None],
    ) -> None:
        self._hub = hub
        self._upstream = upstream
        self._unnamed = unnamed
        self._inspected = inspected
        self._rights = Rights(hub.clock)
        self._closed = False
        self.is_under_way = False

    def close(self) -> None:
        self._closed = True

    def begin(self, partitions: list[PartitionBatch]) -> None:
        """Nothing is unpacked for a client that may not write to the topic."""
        topics = [
            partition.topic
            for partition in partitions
            if compressed_bytes(partition.records) and self._looks_at(partition.topic)
        ]
        if not (topics and self._asks(topics, partitions, lambda denied: self._may_look(partitions, denied))):
            self._look(partitions)

    def _looks_at(self, topic: str) -> bool:
        return self._unnamed.refuses or self._hub.settings.is_delay_enabled(topic)

    def _asks(
        self, topics: Iterable[str], partitions: list[PartitionBatch], then: Callable[[Mapping[str, Denied]], None]
    ) -> bool:
        """Whether the broker has to be asked about these topics; `then` gets its answer."""
        asked = self._rights.ask(topics, partitions[0].production.header, then)
        if asked is None:
            return False
        self.is_under_way = True
        self._upstream.ask(asked)
        return True

    def proved(self, asked: RightsAsked, response: MetadataResponse) -> None:
        """The broker's answer to `Upstream.ask`."""
        self.is_under_way = False
        asked.then(self._rights.answered(response))

    def _may_look(self, partitions: list[PartitionBatch], denied: Mapping[str, Denied]) -> None:
        for partition in partitions:
            if (found := denied.get(partition.topic)) is not None:
                partition.denied = _denial(found.code, partition.topic)
        self._look(partitions)

    def _look(self, partitions: list[PartitionBatch]) -> None:
        """Here, where that takes no time worth speaking of; else beside the event loop."""
        compressed = sum(compressed_bytes(partition.records) for partition in partitions if partition.denied is None)
        inline = Allowance(INLINE_PLAIN_BYTES)
        try:
            if compressed > INLINE_BYTES:
                raise _TooMuchInline
            seen = self._see_all(partitions, inline)
            if compressed and any(
                one.refusal and one.refusal.code == ErrorCode.MESSAGE_TOO_LARGE for one in partitions
            ):
                raise _TooMuchInline
        except _TooMuchInline:
            self.is_under_way = True
            self._upstream.run(self._look_beside(partitions))
        else:
            self._looked(partitions, seen, INLINE_PLAIN_BYTES - inline.left)

    async def _look_beside(self, partitions: list[PartitionBatch]) -> None:
        for partition in partitions:
            partition.refusal = None
        limit = self._hub.settings.kafka_limits.plain_bytes_max
        allowance = Allowance(limit)
        async with self._hub.looking:
            seen = await asyncio.to_thread(self._see_all, partitions, allowance)
        if self._closed:
            return
        if any(one.refusal and one.refusal.code == ErrorCode.MESSAGE_TOO_LARGE for one in partitions):
            self._hub.metrics.limited.labels("plain_bytes_max").inc()
        self.is_under_way = False
        self._looked(partitions, seen, limit - allowance.left)
        self._upstream.take_up()

    def _see_all(self, partitions: list[PartitionBatch], allowance: Allowance) -> Looks:
        """Perhaps in a thread: nothing but the partitions is touched."""
        seen: Looks = {}
        for partition in partitions:
            if partition.records is None:
                partition.refusal = Refusal(ErrorCode.INVALID_RECORD, "a null records field")
            elif self._hub.settings.is_delay_enabled(partition.topic):
                self._see(partition, partition.records, seen, allowance)
            elif partition.denied is not None:
                partition.refusal = partition.denied
            else:
                partition.refusal = self._unnamed.refusal(partition.topic, partition.records, allowance)
        return seen

    def _looked(
        self,
        partitions: list[PartitionBatch],
        seen: Looks,
        plain_bytes: int,
    ) -> None:
        if any(found is not None and found.scan.plain for _, found in seen.values()):
            self._upstream.grow(partitions[0].production.paid, plain_bytes)
        groups = {group for _, found in seen.values() if found is not None for group in found.groups}
        if groups:
            topics = map(self._hub.settings.names.retry, sorted(groups))
            if self._asks(topics, partitions, lambda denied: self._may_retry(partitions, seen, denied)):
                return
        self._know_buffers(partitions, seen)

    def _may_retry(self, partitions: list[PartitionBatch], seen: Looks, denied: Mapping[str, Denied]) -> None:
        """A group whose topic is missing has failed with nothing so far: a worker will make it."""
        for partition, (records, found) in tuple(seen.items()):
            topics = map(self._hub.settings.names.retry, sorted(found.groups) if found is not None else ())
            refused = next((one for one in topics if one in denied and not denied[one].is_missing), None)
            if found is not None and refused is not None:
                seen[partition] = records, replace(found, refusal=_denial(denied[refused].code, refused))
        self._know_buffers(partitions, seen)

    def _know_buffers(self, partitions: list[PartitionBatch], seen: Looks) -> None:
        delayed = {
            partition.topic for partition, (_, found) in seen.items() if found and found.delayed and not found.refusal
        }
        unknown = delayed - self._hub.buffer_topics.known if delayed else delayed
        if unknown:
            self.is_under_way = True
            self._upstream.run(self._look_again(sorted(unknown), partitions, seen))
        else:
            self._inspected(partitions, seen)

    def _see(
        self,
        partition: PartitionBatch,
        data: Buffer,
        seen: Looks,
        allowance: Allowance,
    ) -> None:
        """An empty field is for the broker to judge."""
        records = None
        try:
            kind = kind_of(data)
            if kind is Kind.LEGACY:
                partition.refusal = self._hub.screen.look_at_legacy(partition.topic)
            elif kind is Kind.BATCH:
                records = read_batch(data)
                if partition.denied is not None:
                    partition.refusal, seen[partition] = partition.denied, (records, None)
                    return
                check_compression(records.head, partition.production.header.version)
                seen[partition] = (
                    records,
                    self._hub.screen.look(
                        partition.topic,
                        records,
                        self._hub.clock.now_ms(),
                        allowance,
                        partition.production.account,
                    ),
                )
        except BatchError as error:
            partition.refusal = refusal_of(error)
            if records is not None:
                seen[partition] = records, None

    async def _look_again(
        self,
        topics: list[str],
        partitions: list[PartitionBatch],
        seen: Looks,
    ) -> None:
        for topic in topics:
            await self._hub.buffer_topics.learn(topic)
        if not self._closed:
            self.is_under_way = False
            self._inspected(partitions, seen)
            self._upstream.take_up()


def _denial(code: ErrorCode, topic: str) -> Refusal:
    return Refusal(code, f"the broker takes no records of this client for {topic}")


class _TooMuchInline(Exception):
    """Records to be looked at beside the event loop."""
