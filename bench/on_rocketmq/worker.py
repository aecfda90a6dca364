"""The worker on RocketMQ; see `bench.processes.working`."""

from bench.on_rocketmq.place import Place
from bench.processes.child import answer_questions, arguments
from bench.processes.working import running
from delayline.clock import SystemClock
from mq.rocketmq import RocketmqQueue, RocketmqSettings


def main(servers: str, namespace: str, topic: str, folder: str) -> None:
    """Work on `topic` until standard input ends. `folder` holds the index."""
    queue = RocketmqQueue(RocketmqSettings(name_servers=servers, namespace=namespace), SystemClock())
    with running(queue, namespace, Place(servers, namespace, topic).shards, folder):
        answer_questions()


if __name__ == "__main__":
    main(**arguments())
