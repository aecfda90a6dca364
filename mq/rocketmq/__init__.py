"""RocketMQ as Delayline's queue: the adapter behind `mq.contract`.

    queue       what users open; `cluster` and `buffers` know and make topics
    appends     the Client's appends
    membership  who has which shard, a `broker_member` for each broker; `session` fences, `ownership` takes over,
                and `journal` is what owners write down
    source      reads shards; `sink` commits, `batches` says what is written where
    body        records as messages; `naming` and `trouble` are names and codes

docs/rocketmq.md says what it promises, docs/adr/0023 why it is done so.
"""

from mq.rocketmq.queue import RocketmqQueue
from mq.rocketmq.settings import RocketmqSettings

__all__ = ["RocketmqQueue", "RocketmqSettings"]
