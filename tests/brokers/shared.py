"""One broker of each kind for all processes of a run.

The process that distributes the tests starts it when one of the others first asks for it, and ends it at its own end:
a test that ends its process ends no broker that other tests are using. Who asks gets an address and nothing to kill,
freeze or configure: a test that does such things starts a broker of its own.
"""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from multiprocessing.connection import Client, Connection, Listener
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt
    from tests.brokers.rocketmq import RocketMqAt

Start = Callable[[ExitStack], Any]
"""Starts a broker, has the stack close it, and returns where it answers. Raises Unavailable."""


def start_kafka(stack: ExitStack) -> "KafkaAt":
    """Raises Unavailable."""
    from tests.brokers.kafka import Kafka, KafkaAt

    broker = stack.enter_context(closing(Kafka()))
    broker.start()
    return KafkaAt(broker.bootstrap_servers, broker.sasl_servers)


def start_rocketmq(stack: ExitStack) -> "RocketMqAt":
    """Raises Unavailable."""
    from tests.brokers.rocketmq import RocketMq, RocketMqAt

    broker = stack.enter_context(closing(RocketMq()))
    broker.start()
    return RocketMqAt(broker.settings, tuple(broker.brokers))


KINDS: Mapping[str, Start] = {"kafka": start_kafka, "rocketmq": start_rocketmq}


class Lender:
    """Answers at `address`, in threads, until it is closed."""

    def __init__(self, kinds: Mapping[str, Start] = KINDS) -> None:
        self.address = f"\0delayline-brokers-{os.getpid()}-{uuid4().hex}"  # Linux: a name, and no file
        self._kinds = kinds
        self._brokers = ExitStack()
        self._starting = ThreadPoolExecutor(len(kinds))
        self._started: dict[str, Future[Any]] = {}
        self._lock = Lock()
        self._closing = Event()
        self._listener = Listener(self.address)
        self._accepting = Thread(target=self._accept, name="lender", daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            connection = self._listener.accept()
            if self._closing.is_set():
                return connection.close()
            Thread(target=self._answer, args=(connection,), name="lender-answer", daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection, suppress(EOFError, OSError):  # who asked may have ended
            started = self._start_once(connection.recv_bytes().decode())
            connection.send(started.exception() or started.result())

    def _start_once(self, kind: str) -> Future[Any]:
        with self._lock:
            if kind not in self._started:
                self._started[kind] = self._starting.submit(self._kinds[kind], self._brokers)
            return self._started[kind]

    def close(self) -> None:
        """End the brokers. One that is starting is waited for."""
        self._closing.set()
        Client(self.address).close()
        self._accepting.join()
        self._listener.close()
        self._starting.shutdown()
        self._brokers.close()


def borrowed(address: str, kind: str) -> Any:
    """Where the broker of this kind answers. Raises what its start has raised: Unavailable, mostly."""
    with Client(address) as connection:
        connection.send_bytes(kind.encode())
        answer = connection.recv()
    if isinstance(answer, BaseException):
        raise answer
    return answer


LENDER = pytest.StashKey[Lender]()


def lender_of(config: pytest.Config) -> Lender:
    """The run's, which ends with it."""
    if LENDER not in config.stash:
        config.stash[LENDER] = lender = Lender()
        config.add_cleanup(lender.close)
    return config.stash[LENDER]
