"""The queue and the index of a process with a worker, as its settings describe them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter

from cli.data_dir import IndexWitness, put_aside, stored_in
from cli.queues import open_embedded, open_queue
from delayline.clock import Clock
from delayline.config import Settings
from delayline.encryption.data_key import DataKey, open_data_key
from delayline.process import logs
from mq.contract import Queue
from mq.embedded.queue import EmbeddedQueue
from mq.embedded.retention import Expiry, Retainer, Retention
from store.rocks import RocksIndex

log = logs.get(__name__)

AnyQueue = TypeVar("AnyQueue", bound=Queue)


@contextmanager
def held(queue: AnyQueue) -> Iterator[AnyQueue]:
    try:
        yield queue
    finally:
        try:
            queue.close()
        except Exception as error:  # noqa: BLE001 - whatever the queue answers now, what was acknowledged is safe there
            log.warning("the queue was not closed cleanly", error=str(error))


@contextmanager
def stored(
    settings: Settings, registry: CollectorRegistry, clock: Clock, address: str, *, accept_loss: bool
) -> Iterator[tuple[Queue, RocksIndex]]:
    """The queue and the index; an embedded queue is compared with the index first. Raises QueueError, StoreError,
    ConfigError (a key is missing, or wrong)."""
    data_dir = settings.data_dir
    data_key = open_data_key(data_dir, *settings.store.encryption_keys, stored=stored_in(data_dir))
    if settings.mq.kind != "embedded":
        with held(open_queue(settings, clock, address)) as queue:
            yield queue, _open_index(settings, data_key)
        return
    folder = data_dir / "index"
    witness = IndexWitness(folder, accept_loss=accept_loss, data_key=data_key)
    opened = open_embedded(settings, clock, witness, accept_loss=accept_loss, data_key=data_key)
    with held(opened) as queue:
        if witness.ahead or (queue.given_up and folder.exists()):
            kept = put_aside(folder, clock.now_ms())
            log.warning("loss accepted, index put aside", folder=str(kept), shards=list(map(str, witness.ahead[:10])))
        index = _open_index(settings, data_key)
        if not (witness.ahead or queue.given_up):
            index.forget(witness.deleted)
        with Retainer(
            _expiry(settings, queue, clock), settings.topics.retention_interval / 1000, _counting(registry)
        ):
            yield queue, index


def _expiry(settings: Settings, queue: EmbeddedQueue, clock: Clock) -> Expiry:
    def retention_of(topic: str) -> Retention:
        rule = settings.retention_for(topic)
        return Retention(rule.retention, rule.retention_bytes)

    return Expiry(queue, retention_of, clock)


def _counting(registry: CollectorRegistry) -> Callable[[str, int], None]:
    counter = Counter(
        "delayline_retention_records_total", "Records that retention has deleted", ["topic"], registry=registry
    )
    return lambda topic, records: counter.labels(topic).inc(records)


def _open_index(settings: Settings, data_key: DataKey | None) -> RocksIndex:
    # Half of what the queue keeps free: what the queue has accepted must still find its place in the index.
    return RocksIndex.open(
        settings.data_dir / "index",
        memory_bytes_max=settings.store.memory_bytes_max,
        disk_free_min_bytes=settings.store.disk_free_min // 2,
        data_key=data_key,
    )
