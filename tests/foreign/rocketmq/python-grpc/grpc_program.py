"""RocketMQ's client of version 5 for Python, over gRPC; see programs.py. Runs in an environment of its own."""

import logging
import sys
import time

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

logging.disable(logging.CRITICAL)


def settings(servers):
    return ClientConfiguration(servers, Credentials("", ""), request_timeout=20)


def started(servers, topic):
    producer = Producer(settings(servers), (topic,))
    producer.startup()
    return producer


def message_of(topic, value, delay=None, deliver_s=None):
    message = Message()
    message.topic, message.tag, message.keys, message.body = topic, "t", f"k{value}", value.encode()
    if delay is not None:
        message.add_property("delay", delay)
    if deliver_s is not None:
        message.delivery_timestamp = deliver_s
    return message


def send(producer, value, message):
    try:
        print("acked", value, producer.send(message).message_id)
    except Exception as error:  # noqa: BLE001, its own and gRPC's have no common parent
        print("failed", value, str(error).replace("\n", " "))


def produce(servers, topic, count):
    producer = started(servers, topic)
    for n in range(int(count)):
        deliver_s = round(time.time()) + (0, 1, 2, 1, -1)[n % 5]
        send(producer, str(n), message_of(topic, str(n), deliver_s=deliver_s))
    producer.shutdown()


def refused(servers, topic):
    producer = started(servers, topic)
    for value, delay in (("0", "soon"), ("1", "1s")):
        send(producer, value, message_of(topic, value, delay=delay))
    producer.shutdown()


def recall(servers, topic):
    """Two that are due in three seconds; the first is recalled."""
    producer = started(servers, topic)
    deliver_s = round(time.time()) + 3
    first = producer.send(message_of(topic, "0", deliver_s=deliver_s))
    producer.send(message_of(topic, "1", deliver_s=deliver_s))
    producer.recall_message(topic, first.recall_handle)
    print("recalled", "0", first.message_id)
    producer.shutdown()


def simple(servers, topic, group, count):
    consumer = SimpleConsumer(settings(servers), group, {topic: FilterExpression()}, await_duration=5)
    consumer.startup()
    time.sleep(3)  # it starts before the server has its settings, and fails until then
    seen, until = 0, time.monotonic() + 60
    while seen < int(count) and time.monotonic() < until:
        for message in consumer.receive(16, 20) or ():
            print("read", 0, 0, message.body.decode(), flush=True)
            consumer.ack(message)
            seen += 1
    consumer.shutdown()


mode, *words = sys.argv[1:]
{"produce": produce, "refused": refused, "recall": recall, "simple": simple}[mode](*words)
