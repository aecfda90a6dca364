"""Messages that are recalled around their due instants, through the proxies."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Protocol

from delayline.clock import SystemClock
from rocketmq.client.client import Client
from rocketmq.client.settings import ClientSettings
from rocketmq.errors import Refused, RocketmqError
from rocketmq.wire.codes import Answer
from rocketmq.wire.ids import decode_recall_handle
from tests.acceptance.java_client import JavaClient, Thrown
from tests.acceptance.racing import CERTAIN_S, aside_s
from tests.fault.rocketmq_proxy.judge import Answered, Note, Recall

THREADS = 150
"""Each has one message under way."""
CLIENTS = 6
"""Connections, of which a proxy that is killed takes some with it."""
LEAD_MS = 3000, 5000
assert LEAD_MS[0] > -1000 * CERTAIN_S[0]
ASKS_MAX, AGAIN_S = 4, 1.0
"""How often a recall that was not decided is asked for, and after which pause."""
AFTER_FAILURE_S = 0.2
CLOCK = SystemClock()


class Through(Protocol):
    """A client of the proxies."""

    def send(self, tag: str, delay_ms: int) -> str:
        """The handle. Raises RocketmqError or Thrown."""

    def recall(self, handle: str) -> Answered: ...


class OwnClient:
    """For any number of threads."""

    def __init__(self, client: Client, topic: str, random: Random) -> None:
        self._client = client
        self._topic = topic
        self._random = random

    def send(self, tag: str, delay_ms: int) -> str:
        queues = self._client.names.route(self._topic).writable_queues(self._topic)
        sent = self._client.broker.send(
            self._random.choice(list(queues)), tag.encode(), {"TIMER_DELAY_MS": str(delay_ms)}
        )
        assert sent.answer.recall_handle is not None, f"{tag} has no handle"
        return sent.answer.recall_handle

    def recall(self, handle: str) -> Answered:
        try:
            self._client.broker.recall(handle)
        except Refused as error:
            return _answered(error.code, str(error))
        except RocketmqError:
            return Answered.NONE
        return Answered.OK


class JavasClient:
    """One message at a time."""

    def __init__(self, java: JavaClient, topic: str, broker: str, queues: int, random: Random) -> None:
        self._java = java
        self._topic = topic
        self._broker = broker
        self._queues = queues
        self._random = random

    def send(self, tag: str, delay_ms: int) -> str:
        queue = self._random.randrange(self._queues)
        sent = self._java.sent(
            self._topic, tag.encode(), properties={}, broker=self._broker, queue=queue, delay_ms=delay_ms
        )
        return str(sent["handle"])

    def recall(self, handle: str) -> Answered:
        try:
            self._java.recall(self._topic, handle)
        except Thrown as error:
            text = str(error)
            code = text.partition("CODE: ")[2].partition(" ")[0]
            return _answered(int(code), text) if code else Answered.NONE
        return Answered.OK


def _answered(code: int, text: str) -> Answered:
    if code == Answer.ILLEGAL_OPERATION:
        return Answered.TOO_LATE
    assert code == Answer.SERVICE_NOT_AVAILABLE, text
    return Answered.UNDECIDED


class Recalling:
    """`count` messages by our client; Java's sends and recalls beside it until they are through. `failures` are
    answers that may not be, and whatever else went wrong."""

    def __init__(self, name_server: str, topic: str, java: JavasClient, count: int, seed: int) -> None:
        self._clients = [Client(ClientSettings((name_server,))) for _ in range(CLIENTS)]
        self._own = [
            OwnClient(client, topic, Random(f"{seed} {index}")) for index, client in enumerate(self._clients)
        ]
        self._java = java
        self._count = count
        self._seed = seed
        self.notes: list[Note] = []
        self.recalls: list[Recall] = []
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._beside = threading.Thread(target=self._run_beside, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._beside.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()
        self._beside.join()
        for client in self._clients:
            client.close()

    def _run(self) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            own = [
                pool.submit(self._race, self._own[number % CLIENTS], f"own-{number}") for number in range(self._count)
            ]
        self._note_failures(own)

    def _run_beside(self) -> None:
        number = 0
        with ThreadPoolExecutor(1) as pool:
            while self.running:
                own = pool.submit(self._race, self._java, f"java-{number}")
                self._note_failures([own])
                number += 1

    def _note_failures(self, races: Sequence[Future[None]]) -> None:
        self.failures += [repr(error) for race in races if (error := race.exception()) is not None]

    def _race(self, through: Through, tag: str) -> None:
        """Raises AssertionError for an answer that may not be."""
        random = Random(f"{self._seed} {tag}")
        delay_ms = random.randint(*LEAD_MS)
        try:
            handle = through.send(tag, delay_ms)
        except (RocketmqError, Thrown) as error:
            self.notes.append(Note(tag, "ms", 1, repr(error), delay_ms))
            time.sleep(AFTER_FAILURE_S)
            return
        self.notes.append(Note(tag, "ms", 1, "", delay_ms))
        due_s = (decode_recall_handle(handle).timestamp_ms - 1) / 1000
        time.sleep(max(0.0, due_s + aside_s(random) - CLOCK.now_ms() / 1000))
        self.recalls.append(_recalled(tag, lambda: through.recall(handle)))


def _recalled(tag: str, ask: Callable[[], Answered]) -> Recall:
    """Raises AssertionError."""
    asks = 0
    while True:
        asks += 1
        answer = ask()
        if asks == ASKS_MAX or answer in (Answered.OK, Answered.TOO_LATE):
            return Recall(tag, answer, asks, CLOCK.now_ms())
        time.sleep(AGAIN_S)
