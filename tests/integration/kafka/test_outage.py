"""A broker that is gone for longer than anybody waits for it."""

from contextlib import ExitStack

import pytest

from delayline.buffer.cursor import Cursor
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Assigned, Delivery
from mq.errors import CommitAborted, QueueUnavailable
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import PATIENCE_S, Place, Worker, body, soon

LONG_S = 60.0
"""More than a broker on a busy machine takes to come back to itself."""


def claimed(worker: Worker, shard: Shard) -> Cursor | None:
    """None while the coordinators are still loading what they knew."""
    try:
        return worker.claim(shard)
    except (QueueUnavailable, CommitAborted):
        return None


@pytest.mark.outage
def test_a_worker_whose_commit_was_cut_off_claims_again_and_goes_on() -> None:
    """The commit before was just answered when the broker was killed: it may come back without that commit's
    markers."""
    with started(Kafka) as kafka, ExitStack() as stack:
        place = Place(kafka, stack)
        place.make_topic()
        queue = place.queue(transaction_timeout_s=3.0, request_timeout_s=3.0)
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
        worker = place.worker(queue)
        worker.assigned(2)
        worker.claim(place.shard)
        worker.commit(place.shard, deliveries=[Delivery(body(b"before"))])
        kafka.nodes[0].kill()
        with pytest.raises(CommitAborted):
            worker.commit(place.shard, deliveries=[Delivery(body(b"cut off"))])
        with pytest.raises(QueueUnavailable):
            queue.takeover(place.shard)
        with pytest.raises(QueueUnavailable):
            queue.append([Append(place.topic, "1", body(b"x"))]).result(PATIENCE_S)
        kafka.nodes[0].start()
        kafka.wait_ready()
        soon(lambda: sum(isinstance(event, Assigned) for event in (worker.poll(), worker.events)[1]) > 1, LONG_S)
        assert soon(lambda: claimed(worker, place.shard), LONG_S).owner_epoch == 2
        worker.commit(place.shard, deliveries=[Delivery(body(b"after"))])
        found = soon(lambda: seen if len(seen := queue.read(place.topic, "0", 0, 9)) > 1 else None, LONG_S)
        assert [record.body for record in found] == [body(b"before"), body(b"after")]
