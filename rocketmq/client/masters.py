"""Requests to the master of a broker, over whatever connection there is to it."""

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Protocol, TypeVar

from rocketmq.client.connection import BrokerConnection
from rocketmq.client.nameservers import NameServers
from rocketmq.client.refusals import check
from rocketmq.client.settings import ClientSettings
from rocketmq.errors import AnswerLost, Unreachable
from rocketmq.wire.bodies import Queue
from rocketmq.wire.codes import Answer
from rocketmq.wire.command import Command

T = TypeVar("T")


class Connections(Protocol):
    """Where requests go."""

    def to(self, address: str) -> BrokerConnection:
        """An open connection. Raises Unreachable."""


class Masters:
    """For any number of threads."""

    def __init__(self, settings: ClientSettings, links: Connections, names: NameServers) -> None:
        self._settings = settings
        self._links = links
        self._names = names

    def ask(self, queue: Queue, command: Command, success: Collection[int] = (Answer.SUCCESS,)) -> Command:
        return self.start(queue, command, _itself, success).result()

    def start(
        self,
        queue: Queue,
        command: Command,
        read: Callable[[Command], T],
        success: Collection[int],
        timeout_s: float | None = None,
    ) -> Future[T]:
        """To the master of the queue's broker; the answer, as `read` has it, where its code is one of `success`. The
        route is asked for anew after a failure: the broker may have moved."""
        address = self._names.master(queue.topic, queue.broker)
        timeout_s = self._settings.request_timeout_s if timeout_s is None else timeout_s
        try:
            answered = self._links.to(address).start(command, timeout_s)
        except Unreachable:
            self._names.forget(queue.topic)
            raise
        result: Future[T] = Future()
        result.set_running_or_notify_cancel()

        def finish(done: Future[Command]) -> None:
            try:
                result.set_result(read(check(done.result(), command, success)))
            except AnswerLost as error:
                self._names.forget(queue.topic)
                result.set_exception(error)
            except Exception as error:  # noqa: BLE001  # it is the asker's
                result.set_exception(error)

        answered.add_done_callback(finish)
        return result

    def send_one_way(self, queue: Queue, command: Command) -> None:
        """Raises Unreachable; what happens to it is never known."""
        self._links.to(self._names.master(queue.topic, queue.broker)).send_oneway(command)


def _itself(answer: Command) -> Command:
    return answer
