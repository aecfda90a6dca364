"""Whatever brokers answer during a commit: it is called committed only where they have confirmed all of it, and
anything else is an outcome that callers know. A record is blamed, and dead-lettered for it, only where they have
answered that it is at fault."""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafkawire.protocol.message import Message
from kafkawire.protocol.messages.offsets import CommittedPartition, CommittedTopic, TxnOffsetCommitResponse
from kafkawire.protocol.messages.produce import ProducedPartition, ProducedTopic, ProduceResponse
from kafkawire.protocol.messages.transactions import (
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    TxnPartitionResult,
    TxnTopicResult,
)
from mq.errors import CommitUnknown
from mq.kafka.data_path.sends import Aborted, Send
from mq.kafka.librdkafka import trouble
from tests.unit.mq.kafka.made_up_brokers import Brokers
from tests.unit.mq.kafka.worker.test_wire_transactions import BODY, METADATA, Scene

SEEDS = 400
STRANGE = 0.3
"""Of answers."""

STRANGE_ENDS = 0.6
OF_RECORD = (10, 18, 32, 87)
"""The codes for it: too large for the topic or a segment, a time or a record that the topic does not take."""

ENDS = (14, 15, 16, 47, 48, 51, 90, -1)
CODES = (*range(-1, 125), 200, 32_767, -32_768)
AT = [TopicPartition("buffer", row, 77, metadata="cursor.") for row in (3, 4)]
PLACES = [("orders", 0), ("orders", 1), ("audit", 2)]


class AnyBrokers(Brokers):
    """`answered` is what was answered for each place, for the offsets and for the end, in the transaction under way,
    `blamed` the places with an error that is about a record."""

    def __init__(self, random: Random, level: int) -> None:
        super().__init__(level)
        self.random = random
        self.answered: dict[object, int] = {}
        self.blamed: set[tuple[str, int]] = set()

    def answer(self, request: Any, version: int, code: int, of: Callable[[str, int], bool]) -> Message:
        answer = super().answer(request, version, code, of)
        if self.random.random() < (STRANGE_ENDS if isinstance(answer, EndTxnResponse) else STRANGE):
            self._make_strange(answer)
        self._note(answer)
        return answer

    def _make_strange(self, answer: Any) -> None:
        match answer:
            case ProduceResponse():
                parts = [topic.partition_responses for topic in answer.responses]
                self._twist(answer.responses, parts, ProducedTopic("strange", [ProducedPartition(7, 0, 1)]))
            case TxnOffsetCommitResponse():
                parts = [topic.partitions for topic in answer.topics]
                self._twist(answer.topics, parts, CommittedTopic("strange", [CommittedPartition(1, 0)]))
            case AddPartitionsToTxnResponse():
                parts = [topic.results_by_partition for topic in answer.results_by_topic]
                stranger = TxnTopicResult("strange", [TxnPartitionResult(1, 3)])
                self._twist(answer.results_by_topic, parts, stranger, "partition_error_code")
            case InitProducerIdResponse() | EndTxnResponse():
                if self.random.random() < 0.5:
                    answer.error_code = self.random.choice(ENDS if isinstance(answer, EndTxnResponse) else CODES)
                else:
                    answer.producer_id = self.random.choice((-1, 0, -(1 << 63), (1 << 63) - 1))
                    answer.producer_epoch = self.random.choice((-1, 0, -(1 << 15), (1 << 15) - 1))
            case _:
                answer.error_code = self.random.choice(CODES)

    def _twist(self, topics: list[Any], parts: list[list[Any]], stranger: Any, code: str = "error_code") -> None:
        match self.random.randrange(5):
            case 0:
                topics.pop()
            case 1:
                self.random.choice(parts).pop()
            case 2:
                topics.append(stranger)
            case 3:
                topics.clear()
            case _:
                setattr(self.random.choice(self.random.choice(parts)), code, self.random.choice(CODES))

    def _note(self, answer: Any) -> None:
        match answer:
            case InitProducerIdResponse():
                self.answered.clear()
            case ProduceResponse():
                for topic in answer.responses:
                    self._blame((topic.name, one.index, one.error_code) for one in topic.partition_responses)
                    self.answered |= {(topic.name, one.index): one.error_code for one in topic.partition_responses}
            case AddPartitionsToTxnResponse():
                for added in answer.results_by_topic:
                    parts = added.results_by_partition
                    self._blame((added.name, one.partition_index, one.partition_error_code) for one in parts)
            case TxnOffsetCommitResponse():
                for committed in answer.topics:
                    self.answered |= {("offset", one.partition_index): one.error_code for one in committed.partitions}
            case EndTxnResponse():
                self.answered["end"] = answer.error_code

    def _blame(self, places: Iterable[tuple[str, int, int]]) -> None:
        self.blamed |= {(name, row) for name, row, code in places if code in OF_RECORD}

    @property
    def has_answered_all(self) -> bool:
        wanted = [*PLACES, *(("offset", one.partition) for one in AT), "end"]
        return all(self.answered.get(one) == 0 for one in wanted)


def outcome(scene: Scene, brokers: AnyBrokers) -> str:
    brokers.answered.clear()
    brokers.blamed.clear()
    try:
        scene.writer.run([Send(*place, BODY) for place in PLACES], AT, METADATA)
    except Aborted as aborted:
        failures = aborted.failures
    except CommitUnknown:
        return "unknown"
    else:
        assert brokers.has_answered_all, brokers.answered
        return "committed"
    blamed = {failure[:2] for failure in failures if trouble.of_record(failure.error)}
    assert blamed <= brokers.blamed, failures
    return "blamed" if blamed else "aborted"


@pytest.mark.slow
@pytest.mark.parametrize("level", [2, 0])
def test_a_commit_that_brokers_have_not_confirmed_in_full_is_none(level: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(SEEDS):
        scene = Scene(level)
        scene.brokers = brokers = AnyBrokers(Random(seed), level)
        nodes: Any = brokers
        scene.writer._nodes = nodes
        for _ in range(3):
            outcomes[outcome(scene, brokers)] += 1
    print(outcomes)
    assert min(outcomes[name] for name in ("committed", "aborted")) > 100
    assert min(outcomes["unknown"], outcomes["blamed"]) > 0
