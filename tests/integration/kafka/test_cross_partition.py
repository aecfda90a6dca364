"""What a commit writes into consumer groups' topics and other partitions of the buffer."""

from typing import Any

import pytest

from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import HEADER_ROOM_BYTES, Append, Delivery
from mq.errors import DeliveryRefused, Fenced
from tests.integration.kafka.conftest import Place, Worker, body, soon


def owner(place: Place, **settings: Any) -> Worker:
    """Of both shards of the topic."""
    queue = place.queue(**settings)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    worker = place.worker(queue)
    for shard in worker.assigned(2):
        worker.claim(shard)
    return worker


def retry(place: Place) -> str:
    return f"{place.namespace}.retry.billing"


def read(worker: Worker, topic: str, partition: str) -> list[bytes]:
    return [record.body for record in worker.queue.read(topic, partition, 0, 100)]


def test_the_topics_of_a_group_take_what_the_target_takes_and_keep_the_dead(place: Place) -> None:
    place.make_topic(2, max_message_bytes="5000")
    worker = owner(place)
    dlq = f"{place.namespace}.dlq.billing"
    worker.commit(
        place.shard,
        cross_partition=[Append(retry(place), "1", body(b"a" * 4000)), Append(dlq, "1", body(b"b" * 4000))],
    )
    configs = {topic: worker.queue.cluster.config(topic) for topic in (retry(place), dlq)}
    sizes = {int(config["max.message.bytes"]) for config in configs.values()}
    assert sizes == {5000 + HEADER_ROOM_BYTES}
    assert configs[retry(place)]["retention.ms"] != configs[dlq]["retention.ms"] == "-1"
    assert soon(lambda: read(worker, dlq, "1")) == [body(b"b" * 4000)]


def test_where_topics_may_not_be_made_the_record_is_refused_and_others_go_on(place: Place) -> None:
    place.make_topic()
    owner(place).close()  # makes our own topics
    worker = owner(place, topics_create=False)
    with pytest.raises(DeliveryRefused, match="topics_create") as refused:
        worker.commit(place.shard, cross_partition=[Append(retry(place), "0", body(b"a"))])
    assert (refused.value.shard, refused.value.of_record) == (place.shard, True)
    worker.commit(place.shard, deliveries=[Delivery(body(b"d"))])
    assert soon(lambda: read(worker, place.topic, "0")) == [body(b"d")]


def test_a_groups_topic_that_somebody_deletes_is_made_again(place: Place) -> None:
    place.make_topic()
    worker = owner(place)
    worker.commit(place.shard, cross_partition=[Append(retry(place), "0", body(b"a"))])
    place.admin.delete_topics([retry(place)])[retry(place)].result()

    blamed: list[bool] = []

    def committed() -> bool:
        """A transaction that the deletion has cut off may cost the claim."""
        try:
            worker.commit(place.shard, cross_partition=[Append(retry(place), "0", body(b"b"))])
        except DeliveryRefused as refused:
            blamed.append(refused.of_record)
        except Fenced:
            worker.claim(place.shard)
        else:
            return True
        return False

    soon(committed)
    assert soon(lambda: read(worker, retry(place), "0")) == [body(b"b")]
    assert not any(blamed)  # nothing must be buried for it


def test_an_aborted_commit_leaves_nothing_elsewhere(place: Place) -> None:
    place.make_topic(max_message_bytes="1000")
    worker = owner(place)
    too_large = Delivery(body(b"x" * 2000))
    appends = [Append(retry(place), "0", body(b"a")), Append(place.buffer, "1", body(b"b"))]
    with pytest.raises(DeliveryRefused):
        worker.commit(place.shard, deliveries=[too_large], cross_partition=appends)
    worker.commit(place.shard, cross_partition=[append._replace(body=body(b"c")) for append in appends])
    assert soon(lambda: read(worker, retry(place), "0")) == [body(b"c")]
    assert soon(lambda: read(worker, place.buffer, "1")) == [body(b"c")]
