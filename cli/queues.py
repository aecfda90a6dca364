"""The message queue that the settings name, and a watch over whether it answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from delayline.clock import Clock
from delayline.config import Settings
from delayline.errors import ConfigError
from delayline.process import threads
from mq.broker_settings import BrokerSettings
from mq.contract import Admin, Queue
from mq.errors import QueueError

if TYPE_CHECKING:
    from delayline.encryption.data_key import DataKey
    from mq.embedded.queue import EmbeddedQueue
    from mq.embedded.verify import Witness
    from mq.kafka.queue import KafkaQueue
    from mq.rocketmq.queue import RocketmqQueue
    from mq.rocketmq.settings import RocketmqSettings

OfBrokers = TypeVar("OfBrokers", bound=BrokerSettings)
WATCH_S = 2.0


def open_queue(settings: Settings, clock: Clock, address: str = "") -> Queue:
    """`address` is where this process answers questions about its worker's shards. Raises QueueError, ConfigError."""
    match settings.mq.kind:
        case "kafka":
            return open_kafka(settings, clock, address)
        case "rocketmq":
            return open_rocketmq(settings, clock, address)
        case "embedded":
            return open_embedded(settings, clock, data_key=data_key_of(settings))


def data_key_of(settings: Settings) -> "DataKey | None":
    """What the data of this installation is encrypted with; nothing is made or changed. Raises ConfigError, as a
    start does."""
    from cli.data_dir import stored_in
    from delayline.encryption.data_key import find_data_key

    return find_data_key(settings.data_dir, *settings.store.encryption_keys, stored_in(settings.data_dir))


def check_data_key(settings: Settings) -> "DataKey | None":
    """The same, compared with what the embedded queue was written with. Raises ConfigError, QueueFormat."""
    from mq.embedded.folder import refuse_other_keys

    data_key = data_key_of(settings)
    if settings.mq.kind == "embedded":
        refuse_other_keys(settings.data_dir / "queue", data_key)
    return data_key


def open_embedded(
    settings: Settings,
    clock: Clock,
    witness: "Witness" = lambda ends, vouched: None,
    *,
    accept_loss: bool = False,
    data_key: "DataKey | None" = None,
) -> "EmbeddedQueue":
    """See `EmbeddedQueue.open`. Raises QueueError, ConfigError."""
    from cli.data_dir import SECOND_MARK
    from mq.embedded.queue import EmbeddedQueue

    return EmbeddedQueue.open(
        settings.data_dir / "queue",
        namespace=settings.namespace,
        clock=clock,
        partitions=settings.topics.partitions,
        topics_max=settings.topics.max,
        disk_free_min_bytes=settings.store.disk_free_min,
        group_topics_max=settings.retry.topics_made_max,
        accept_loss=accept_loss,
        witness=witness,
        second_mark=settings.data_dir / SECOND_MARK,
        data_key=data_key,
    )


def open_kafka(settings: Settings, clock: Clock, address: str = "") -> "KafkaQueue":
    """Connects to nothing yet. Raises ConfigError."""
    with _packages("Kafka", "kafka-client"):
        from mq.kafka.queue import KafkaQueue
        from mq.kafka.settings import KafkaSettings
    own = {"bootstrap_servers": settings.mq.bootstrap_servers, "set_aside_bytes_max": settings.mq.set_aside_bytes_max}
    return KafkaQueue(_of_brokers(KafkaSettings, settings, address, **own), clock)


def open_rocketmq(settings: Settings, clock: Clock, address: str = "") -> "RocketmqQueue":
    """Sends no request yet. Raises ConfigError."""
    with _packages("RocketMQ", "rocketmq-client"):
        from mq.rocketmq.queue import RocketmqQueue
    return RocketmqQueue(rocketmq_settings(settings, address), clock)


def rocketmq_settings(settings: Settings, address: str = "") -> "RocketmqSettings":
    """Raises ConfigError."""
    with _packages("RocketMQ", "rocketmq-client"):
        from mq.rocketmq.settings import RocketmqSettings
    name_servers = settings.mq.bootstrap_servers
    return _of_brokers(RocketmqSettings, settings, address, name_servers=name_servers)


@contextmanager
def _packages(queue: str, target: str) -> Iterator[None]:
    """For imports of what `make run` does not install, and `make TARGET` does. Raises ConfigError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"mq.kind: {queue} needs the package {error.name}; `make {target}` installs it.") from error


def _of_brokers(kind: Callable[..., OfBrokers], settings: Settings, address: str, **own: Any) -> OfBrokers:
    """What every kind of brokers has in common, and what is the kind's `own`. Raises ConfigError."""
    return kind(
        namespace=settings.namespace,
        topics_create=settings.mq.topics_create,
        group_topics_max=settings.retry.topics_made_max,
        properties=settings.mq.client_properties(),
        address=address,
        discovery_interval_s=settings.delay.discovery_interval / 1000,
        **own,
    )


def refuse_rocketmq(settings: Settings, command: str) -> None:
    """Raises ConfigError where the queue is one for which the command is not there."""
    if settings.mq.kind == "rocketmq":
        raise ConfigError(f"mq.kind: `{command}` is not built for RocketMQ yet.")


class Watch:
    """Asks the queue every two seconds whether it is there, so that a health check need not wait for an answer."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._trouble: str | None = "the queue has not answered yet"
        self._closing = Event()
        self._thread = Thread(target=self._run, name="watch", daemon=True)

    def readiness(self) -> tuple[bool, str]:
        trouble = self._trouble
        return trouble is None, trouble or "ready"

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._admin.reach()
                self._trouble = self._admin.trouble()
            except QueueError as error:
                self._trouble = str(error)
            except Exception as error:  # noqa: BLE001 - without this thread the last answer would stand for ever
                threads.noted("watch", error)
                self._trouble = repr(error)
            self._closing.wait(WATCH_S)
