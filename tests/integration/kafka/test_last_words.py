"""The last low-water mark of an idle shard, on logs that end in what no reader is given."""

from typing import Any

from delayline.buffer.outcome import decode_audit
from delayline.records.message import Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append
from tests.integration.kafka.conftest import PATIENCE_S, Place, soon
from tests.integration.kafka.whole_worker import working


def last_words(place: Place, queue: Any) -> dict[Shard, tuple[int | None, int | None]]:
    """`next` and `pending` of each shard's last mark."""
    topic, found = f"{place.namespace}.audit", {}
    for name in queue.topic(topic).partitions:
        for record in queue.read(topic, name, 0, 10_000):
            audit, _ = decode_audit(decode_body(record.body).value or b"")
            if audit.kind == "low_water":
                found[Shard(audit.topic, audit.shard)] = audit.next, audit.pending
    return found


def test_every_idle_shard_reports_that_it_is_done_up_to_the_end_of_its_log(place: Place) -> None:
    place.make_topic(2)
    queue = place.queue()
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    near = Append(place.buffer, "0", encode_body(None, b"near", [(b"delay-ms", b"10")]))
    far = Append(place.buffer, "0", encode_body(None, b"far", [(b"delay-ms", b"3600000"), (b"delay-id", b"k")]))
    cancel = Append(place.buffer, "0", encode_body(None, None, [(b"delay-op", b"cancel"), (b"delay-ref", b"k")]))
    shards = [Shard(place.topic, name) for name in "01"]
    with working(place, queue, low_water_interval_ms=200, checkpoint_interval_s=0.2):
        for records in ([near], [far], [cancel]):
            queue.append(records).result(PATIENCE_S)

        def done() -> bool:
            ends = {shard: queue.log_range(shard)[1] for shard in shards}
            return last_words(place, queue) == {shard: (end, 0) for shard, end in ends.items()}

        soon(done)
        queue.append([near, near]).result(PATIENCE_S)  # a transaction: its marker is the end of the log
        soon(done)
