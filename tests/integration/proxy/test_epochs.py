"""Where a producer's epoch begins, on a real broker: one request after the other, in the order that Java may send."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from delayline.records.message import Shard
from kafkawire.protocol.errors import ErrorCode
from tests.integration.proxy.conftest import Proxy
from tests.integration.proxy.test_split import sent
from tests.integration.proxy.test_wire import producer_id
from tests.integration.proxy.wire_client import WireClient
from tests.unit.mq.kafka.batches import Sent, batch_of, plain

NOW = ("i", "id", "d")
"""What the batches of a run consist of, over and over: immediate records, both, delayed ones."""


class Sender:
    """One producer id on one connection."""

    def __init__(self, proxy: Proxy, client: WireClient) -> None:
        self.producer_id = producer_id(client).producer_id
        self.proxy = proxy
        self.client = client

    def send(
        self, letters: str, first: int, end: int, epoch: int, client: WireClient | None = None
    ) -> tuple[int, int]:
        """Error code and offset. The records' values are their sequences."""
        records = [_record(n, letters[n % len(letters)]) for n in range(first, end)]
        batch = batch_of(records, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=first)
        answer = sent(client or self.client, self.proxy.place.topic, batch)
        return answer.error_code, answer.base_offset

    def refused(self) -> None:
        """The first batch of all: one record with an invalid directive."""
        records = [plain(0, delay_ms=b"soon")]
        batch = batch_of(records, producer_id=self.producer_id, producer_epoch=0, base_sequence=0)
        assert sent(self.client, self.proxy.place.topic, batch).error_code == ErrorCode.INVALID_RECORD

    def stored(self) -> tuple[int, int]:
        """How many records T and B hold."""
        queue, topic = self.proxy.place.queue(), self.proxy.place.topic
        has_buffer = self.proxy.place.buffer in self.proxy.place.admin.list_topics(timeout=5).topics
        buffered = queue.log_range(Shard(topic, "0"))[1] if has_buffer else 0
        return queue.offsets(topic, "0")[1], buffered


def _record(number: int, letter: str) -> Sent:
    return plain(number, delay_ms=b"600000") if letter == "d" else plain(number)


@pytest.fixture
def sender(opened: Proxy) -> Iterator[Sender]:
    opened.make_topic(1)
    with closing(WireClient(opened.address)) as client:
        yield Sender(opened, client)


@pytest.mark.parametrize("letters", NOW)
def test_a_later_batch_of_a_new_epoch_that_comes_first_makes_nobody_believe_in_the_earlier(
    sender: Sender, letters: str
) -> None:
    sender.refused()

    assert sender.send(letters, 36, 70, epoch=1)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sender.stored() == (0, 0)
    assert sender.send(letters, 0, 36, epoch=1)[0] == ErrorCode.NONE
    assert sender.send(letters, 36, 70, epoch=1)[0] == ErrorCode.NONE

    assert sender.stored() == {"i": (70, 0), "id": (35, 35), "d": (0, 70)}[letters]


@pytest.mark.parametrize("letters", NOW)
def test_a_later_batch_of_a_new_epoch_is_out_of_order_on_a_connection_that_knows_of_no_other(
    sender: Sender, letters: str
) -> None:
    assert sender.send(letters, 0, 4, epoch=0)[0] == ErrorCode.NONE

    with closing(WireClient(sender.proxy.address)) as another:
        assert sender.send(letters, 36, 70, 1, another)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert sender.send(letters, 0, 36, 1, another)[0] == ErrorCode.NONE
        assert sender.send(letters, 36, 40, 0, another)[0] == ErrorCode.INVALID_PRODUCER_EPOCH

    assert sum(sender.stored()) == 40


@pytest.mark.parametrize("letters", NOW)
def test_a_client_that_goes_on_behind_a_refused_first_batch_is_served_and_found_again(
    sender: Sender, letters: str
) -> None:
    sender.refused()

    assert sender.send(letters, 1, 5, epoch=0)[0] == ErrorCode.NONE
    with closing(WireClient(sender.proxy.address)) as another:
        assert sender.send(letters, 1, 5, 0, another)[0] == ErrorCode.NONE
        assert sender.send(letters, 5, 9, 0, another)[0] == ErrorCode.NONE

    assert sum(sender.stored()) == 8


def test_a_mixed_batch_is_answered_with_the_offset_of_its_first_immediate_record(sender: Sender) -> None:
    assert sender.send("i", 0, 3, epoch=0) == (ErrorCode.NONE, 0)
    assert sender.send("id", 3, 9, epoch=0) == (ErrorCode.NONE, 3)
    assert sender.send("id", 3, 9, epoch=0) == (ErrorCode.NONE, 3)
    assert sender.send("d", 9, 12, epoch=0) == (ErrorCode.NONE, -1)
    assert sender.send("i", 12, 13, epoch=0) == (ErrorCode.NONE, 6)
