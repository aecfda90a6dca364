"""Calls of other threads that run in the worker's thread, between two turns."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class Questions:
    """`ask` is for any thread, `answer` for the worker's, which `wake` wakes."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def ask(self, question: Callable[[], T]) -> "Future[T]":
        answer: Future[T] = Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(question())
            except Exception as error:  # noqa: BLE001 - handed to the one who asked
                answer.set_exception(error)

        self._waiting.put(run)
        self._wake()
        return answer

    def answer(self) -> None:
        """All that wait."""
        while True:
            try:
                question = self._waiting.get_nowait()
            except Empty:
                return
            question()
