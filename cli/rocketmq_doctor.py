"""What can be wrong with a RocketMQ cluster, and with what waits there."""

from collections.abc import Iterator, Mapping

from cli.findings import TOPICS_MAX, Finding, left_out, no_answer
from delayline.clock import Clock
from delayline.config import Settings
from delayline.records.message import Shard
from mq.errors import QueueError, TopicUnknown
from mq.rocketmq.body import BATCH_BYTES_MAX
from mq.rocketmq.queue import RocketmqQueue
from mq.rocketmq.retention import SHARE_MAX


def examine_rocketmq(settings: Settings, queue: RocketmqQueue, clock: Clock) -> Iterator[Finding]:
    servers = settings.mq.bootstrap_servers
    try:
        topics = queue.topics()
        brokers = queue.masters()
    except QueueError as error:
        yield no_answer("RocketMQ", servers, "name server", error)
        return
    if not brokers:
        detail = f"RocketMQ at {servers}: no broker is registered with the name servers"
        yield Finding("fail", "queue", detail, "start brokers; their namesrvAddr names these servers")
        return
    yield Finding("ok", "queue", f"RocketMQ at {servers}, {len(brokers)} brokers, {len(topics)} topics of users")
    for name in brokers:
        yield from _broker(queue, name)
    enabled = [topic for topic in topics if settings.is_delay_enabled(topic)]
    for topic in enabled[:TOPICS_MAX]:
        yield from _rights(queue, topic)
        yield from _waiting(queue, topic, clock.now_ms())
    yield from left_out(enabled)


def _broker(queue: RocketmqQueue, name: str) -> Iterator[Finding]:
    try:
        yield from broker(name, queue.broker_settings(name))
    except QueueError as error:
        yield Finding("fail", name, f"it does not answer: {error}", "its shards stall until it does")


def broker(name: str, found: Mapping[str, str]) -> Iterator[Finding]:
    """Whether a broker's settings are what Delayline needs."""
    bytes_max = int(found.get("maxMessageSize", BATCH_BYTES_MAX))
    if bytes_max < BATCH_BYTES_MAX:
        detail = f"maxMessageSize is {bytes_max}, {BATCH_BYTES_MAX} are needed"
        yield Finding("fail", name, detail, "raise it, or commits of many messages are refused")
    if found.get("flushDiskType") == "ASYNC_FLUSH":
        advice = "flushDiskType = SYNC_FLUSH, and a replica that confirms, keep what is acknowledged"
        yield Finding("warn", name, "ASYNC_FLUSH: what it acknowledged last may be lost with its machine", advice)
    if found.get("cleanFileForciblyEnable") == "true":
        percent = found.get("diskSpaceCleanForciblyRatio", "85")
        detail = (
            f"cleanFileForciblyEnable: at {percent}% of the disk it deletes the oldest messages, pending ones too"
        )
        yield Finding("warn", name, detail, "cleanFileForciblyEnable = false: it refuses new messages instead")
    if _confirms_alone(found):
        detail = "SYNC_MASTER with inSyncReplicas = 1: it waits for no replica, for it counts itself"
        yield Finding("warn", name, detail, "inSyncReplicas = 2, or a new master may lack what is acknowledged")
    yield Finding("ok", name, f"it keeps records for {found.get('fileReservedTime', 'an unknown number of')} h")


def _confirms_alone(found: Mapping[str, str]) -> bool:
    """So it is since RocketMQ 5, which has the setting; a master that a controller has elected is a SYNC_MASTER."""
    is_counting = found.get("allAckInSyncStateSet") != "true" and found.get("inSyncReplicas") == "1"
    return found.get("brokerRole") == "SYNC_MASTER" and is_counting


def _rights(queue: RocketmqQueue, topic: str) -> Iterator[Finding]:
    try:
        missing = queue.rights_missing(topic)
    except QueueError as error:
        yield Finding("fail", topic, str(error))
        return
    if missing is not None:
        yield Finding("fail", topic, missing, "its messages are accepted, and wait: docs/rocketmq.md has the rights")


def _waiting(queue: RocketmqQueue, topic: str, now_ms: int) -> Iterator[Finding]:
    try:
        partitions = queue.buffer_of(topic).partitions
    except TopicUnknown:
        yield Finding("ok", topic, "its buffer is made at the first delayed message")
        return
    except QueueError as error:
        yield Finding("fail", topic, str(error))
        return
    for name in partitions:
        shard = Shard(topic, name)
        try:
            yield from waiting(shard, queue.oldest_age_s(shard, now_ms), queue.kept_s(shard))
        except QueueError as error:
            yield Finding("warn", f"{topic} {name}", f"how long its messages wait is not known: {error}")


def waiting(shard: Shard, age_s: float, kept_s: float | None) -> Iterator[Finding]:
    """Whether a shard's messages wait nearly as long as their broker keeps them."""
    if kept_s is not None and age_s > kept_s * SHARE_MAX:
        detail = f"messages wait for {age_s / 3600:.1f} h, and their broker keeps them for {kept_s / 3600:.0f} h"
        yield Finding(
            "warn", f"{shard.topic} {shard.partition}", detail, "raise fileReservedTime before they are gone"
        )
