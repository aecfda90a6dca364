"""RocketMQ as Delayline's queue: the adapter behind `mq.contract`.

    queue       what users open; `cluster` and `buffers` know and make topics
    appends     the Client's appends
    membership  which worker has which shard, a `broker_member` for each broker; `session` fences, `ownership` takes
                over, and `journal` has the records of owners
    source      reads shards; `sink` commits: `batches` decides what goes into which queue, `parts` sends it, `rows`
                stores rows of the audit a moment later
    body        records as messages; `naming` and `trouble` are names and codes

Its guarantees are in docs/rocketmq.md, the reasons for its design in docs/adr/0023.
"""

from mq.rocketmq.queue import RocketmqQueue
from mq.rocketmq.settings import RocketmqSettings

__all__ = ["RocketmqQueue", "RocketmqSettings"]
