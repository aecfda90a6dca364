"""Records as server-sent events: the page, what follows, coming back, and the end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from delayline.records.record import encode_body
from mq.contract import Append
from mq.errors import QueueUnavailable
from tests.unit.api.in_memory import RECORDS, Api, pointers, problem
from tests.unit.api.stream import Stream

FOLLOW = "follow=sse"


def _append(api: Api, *values: str, partition: str = "0") -> None:
    for value in values:
        api.queue.append([Append("orders", partition, encode_body(None, value.encode()))]).result()
        api.clock.advance(1)


def _filled(*values: str, **settings: Any) -> Api:
    api = Api(**settings)
    api.queue.ensure_topic("orders")
    _append(api, *values)
    return api


def _follow(
    api: Api, work: Callable[[Stream], Awaitable[Any]], query: str = FOLLOW, headers: dict[str, str] | None = None
) -> Any:
    """Open one stream, work with it, and leave."""

    async def main() -> Any:
        stream = Stream(api.app, RECORDS, query, headers)
        try:
            return await work(stream)
        finally:
            await stream.leave()

    return asyncio.run(main())


def test_a_stream_starts_with_the_newest_page() -> None:
    async def work(stream: Stream) -> Any:
        values = await stream.values(2)
        return stream.status, stream.headers["content-type"], values

    expected = (200, "text/event-stream; charset=utf-8", ["b", "c"])
    assert _follow(_filled("a", "b", "c"), work, f"{FOLLOW}&limit=2") == expected


def test_what_is_appended_later_follows() -> None:
    api = _filled("a")

    async def work(stream: Stream) -> Any:
        first = await stream.values(1)
        _append(api, "b")
        _append(api, "c", partition="3")
        return first + await stream.values(2)

    assert _follow(api, work) == ["a", "b", "c"]


def test_a_limit_of_nothing_shows_only_what_comes() -> None:
    api = _filled("old")

    async def work(stream: Stream) -> Any:
        await stream.block()
        _append(api, "new")
        return await stream.values(1)

    assert _follow(api, work, f"{FOLLOW}&limit=0") == ["new"]


def test_a_stream_can_begin_at_an_offset() -> None:
    api = _filled("a", "b", "c")
    query = f"{FOLLOW}&partition=0&offset=1"
    assert _follow(api, lambda stream: stream.values(2), query) == ["b", "c"]


def test_a_limit_below_what_stands_behind_an_offset_leaves_nothing_out() -> None:
    api = _filled("a", "b", "c", "d")
    query = f"{FOLLOW}&partition=0&offset=1&limit=1"
    assert _follow(api, lambda stream: stream.values(3), query) == ["b", "c", "d"]


def test_a_client_that_comes_back_gets_the_next_record_and_none_twice() -> None:
    api = _filled("a", "b")
    _append(api, "c", partition="2")

    async def first(stream: Stream) -> str:
        await stream.values(2)
        return stream.last_id

    last_id = _follow(api, first)
    _append(api, "d", partition="2")
    assert _follow(api, lambda stream: stream.values(2), headers={"last-event-id": last_id}) == ["c", "d"]


def test_coming_back_in_the_middle_of_the_first_page_leaves_nothing_out() -> None:
    api = _filled("a")
    _append(api, "b", partition="1")
    _append(api, "c", partition="2")

    async def first(stream: Stream) -> str:
        await stream.values(1)
        return stream.last_id

    assert _follow(api, first) == "0:1,1:0,2:0,3:0"
    headers = {"last-event-id": "0:1,1:0,2:0,3:0"}
    assert _follow(api, lambda stream: stream.values(2), headers=headers) == ["b", "c"]


def test_a_partition_that_is_new_since_then_is_read_from_its_start() -> None:
    api = _filled("a")
    _append(api, "b", partition="1")
    assert _follow(api, lambda stream: stream.values(1), headers={"last-event-id": "0:1"}) == ["b"]


@pytest.mark.parametrize("event_id", ["nonsense", "0:x", "0", "9:0", "0:99", "0:1,", "0:-1"])
def test_an_event_id_that_is_not_of_this_stream_is_refused(event_id: str) -> None:
    answer = _filled("a").get(RECORDS, params={"follow": "sse"}, headers={"last-event-id": event_id})
    assert problem(answer) == (400, "invalid-request")


def test_an_offset_outside_the_log_is_refused_before_the_stream_begins() -> None:
    answer = _filled("a").get(f"{RECORDS}?follow=sse&partition=0&offset=9")
    assert problem(answer) == (400, "invalid-request")
    assert pointers(answer) == [("?offset", "out-of-range")]


def test_an_idle_stream_sends_comments() -> None:
    api = _filled(heartbeat_s=0.0)

    async def work(stream: Stream) -> Any:
        return [await stream.block(), await stream.block()]

    assert _follow(api, work) == [{"retry": "1000"}, {"": ": still here"}]


def test_a_stream_ends_when_the_server_stops() -> None:
    api = _filled("a")

    async def work(stream: Stream) -> Any:
        await stream.values(1)
        api.app.closing.begin()
        block = await stream.block()
        await asyncio.wait_for(stream.task, 5)
        return block

    assert _follow(api, work) is None


def test_a_client_that_leaves_frees_its_place() -> None:
    api = _filled("a", followers_max=1)

    async def main() -> list[int]:
        statuses = []
        for _ in range(3):
            stream = Stream(api.app, RECORDS, FOLLOW)
            await stream.values(1)
            statuses.append(stream.status)
            await stream.leave()
        return statuses

    assert asyncio.run(main()) == [200, 200, 200]


def test_streams_are_bounded() -> None:
    api = _filled("a", followers_max=1)

    async def main() -> int:
        first = Stream(api.app, RECORDS, FOLLOW)
        await first.values(1)
        second = Stream(api.app, RECORDS, FOLLOW)
        await second.rest()
        await first.leave()
        return second.status

    assert asyncio.run(main()) == 503


def test_what_goes_wrong_in_a_stream_is_its_last_event() -> None:
    api = _filled("a")

    async def work(stream: Stream) -> bytes:
        await stream.values(1)
        api.queue.close()
        return await stream.rest()

    rest = _follow(api, work)
    assert rest.startswith(b"event: problem\ndata: ")
    assert b'"type":"/problems/queue-unavailable"' in rest


def test_head_of_a_stream_ends_at_once() -> None:
    answer = _filled("a").request("HEAD", RECORDS, params={"follow": "sse"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


def test_a_queue_that_has_something_new_that_nobody_may_see_is_not_asked_without_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("api.reading.follow.EMPTY_PAUSE_S", 0.01)
    api = _filled()
    asked = 0

    def always(*_: Any, **__: Any) -> bool:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise QueueUnavailable("enough")
        return True

    api.queue.wait = always
    assert b"queue-unavailable" in _follow(api, lambda stream: stream.rest())
