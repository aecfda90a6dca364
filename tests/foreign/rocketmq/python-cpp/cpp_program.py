"""RocketMQ's client for C++, by its binding for Python; see programs.py. Runs in an environment of its own."""

import sys
import threading
import time

from rocketmq.exceptions import RocketMQException

from rocketmq.client import Message, Producer, PushConsumer


def started(servers):
    producer = Producer("producers", timeout=20_000)
    producer.set_namesrv_addr(servers)
    producer.start()
    return producer


def message_of(topic, value, properties):
    message = Message(topic)
    message.set_tags("t")
    message.set_body(value)
    for name, text in properties.items():
        message.set_property(name, text)
    return message


def send(producer, value, message):
    try:
        sent = producer.send_sync(message)
        print("acked" if int(sent.status) == 0 else "failed", value, sent.msg_id)
    except RocketMQException as error:
        print("failed", value, str(error).replace("\n", " "))


def produce(servers, topic, count):
    producer = started(servers)
    for n in range(int(count)):
        properties = [
            {},
            {},
            {"TIMER_DELAY_MS": "700"},
            {"delay": "900ms"},
            {"__STARTDELIVERTIME": str(round(time.time() * 1000) + 800)},
        ]
        message = message_of(topic, str(n), properties[n % 5])
        if n % 5 == 1:
            message.set_delay_time_level(1)
        send(producer, str(n), message)
    producer.shutdown()


def refused(servers, topic):
    producer = started(servers)
    for value, delay in (("0", "soon"), ("1", "1s")):
        send(producer, value, message_of(topic, value, {"delay": delay}))
    producer.shutdown()


def consume(servers, topic, group, count):
    """Nothing is sent back: the binding reports success when a callback raises."""
    left, done, lock = [int(count)], threading.Event(), threading.Lock()

    def take(message):
        value = message.body.decode()
        with lock:
            print("read", message.queue_id, message.queue_offset, value, flush=True)
            left[0] -= 1
            if left[0] <= 0:
                done.set()

    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(servers)
    consumer.subscribe(topic, take)
    consumer.start()
    done.wait(60)
    consumer.shutdown()


mode, *words = sys.argv[1:]
{"produce": produce, "refused": refused, "consume": consume}[mode](*words)
