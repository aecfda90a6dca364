"""What all connections of one proxy share."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from delayline.clock import Clock
from delayline.questions.inquiry import Owners
from delayline.questions.pending import Full
from mq.contract import Queue
from proxy.limits import Budget
from proxy.rocketmq.accounts import Accounts
from proxy.rocketmq.brokers import Brokers
from proxy.rocketmq.metrics import RocketmqProxyMetrics
from proxy.rocketmq.recall import Recalls
from proxy.rocketmq.sends.buffers import Buffers
from proxy.rocketmq.sends.screen import SendScreen
from proxy.rocketmq.sends.split import SendSplitter
from proxy.rocketmq.sends.topics import KindOf, kinds
from proxy.rocketmq.settings import RocketmqProxySettings
from proxy.rocketmq.view.checks import TopicOf
from rocketmq.clock import MachineClock
from rocketmq.wire.ids import UniqueKeys


@dataclass(frozen=True, slots=True)
class RocketmqHub:
    """Belongs to one event loop. Made by `open_hub`."""

    settings: RocketmqProxySettings
    clock: Clock
    metrics: RocketmqProxyMetrics
    brokers: Brokers
    screen: SendScreen
    splitter: SendSplitter
    buffers: Buffers
    recalls: Recalls
    accounts: Accounts
    budget: Budget
    full: Full
    kind_of: KindOf
    buffer_of: Callable[[str], str]  # its name in RocketMQ
    retry_of: Callable[[str], str]  # the topic of a consumer group, as settings name it
    topic_of: TopicOf

    @property
    def relayed_tls(self) -> ssl.SSLContext | None:
        """Of clients' connections to servers."""
        return self.settings.client.tls

    def close(self) -> None:
        self.buffers.close()
        self.brokers.close()


def open_hub(
    settings: RocketmqProxySettings,
    queue: Queue,
    owners: Owners,
    metrics: RocketmqProxyMetrics,
    clock: Clock,
    full: Full,
) -> RocketmqHub:
    """Raises ConfigError."""
    wire_names = settings.wire_names
    names = wire_names.names

    @lru_cache(1000)
    def buffer_of(topic: str) -> str:
        return wire_names.out(names.buffer(topic))

    def topic_of(buffer: str) -> str | None:
        return names.target(wire_names.back(buffer))

    screen = SendScreen(
        settings.rules_for,
        settings.horizon_max_ms,
        unheeded=metrics.unheeded,
        refuse_unknown=settings.refuse_unknown,
    )
    unique = UniqueKeys(MachineClock())
    return RocketmqHub(
        settings,
        clock,
        metrics,
        Brokers(settings),
        screen,
        SendSplitter(screen, buffer_of, settings.record_bytes_max, unique.next),
        Buffers(queue, settings.rules_for, clock),
        Recalls(settings, names, queue, owners),
        Accounts(settings.client.credentials, settings.accounts),
        Budget(settings.limits.held_bytes_max, metrics.held_bytes),
        full,
        kinds(wire_names, settings.is_delay_enabled),
        buffer_of,
        names.retry,
        topic_of,
    )
