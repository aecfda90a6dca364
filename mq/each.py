"""Requests of many, for a queue that takes each as it comes."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from mq.contract import Append, AppendRequest, Position


def append_each(
    append: Callable[[Sequence[Append]], "Future[list[Position]]"], requests: Sequence[AppendRequest]
) -> None:
    """`mq.contract.Client.append_each` by way of `append`."""
    for records, ended in requests:
        append(records).add_done_callback(partial(_end, ended))


def _end(ended: Callable[[list[Position] | BaseException], None], future: "Future[list[Position]]") -> None:
    error = future.exception()
    ended(future.result() if error is None else error)
