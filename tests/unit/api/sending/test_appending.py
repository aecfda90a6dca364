"""Appends of one turn of the event loop."""

import asyncio
from collections.abc import Sequence
from typing import Any

from api.bridge import Bridge
from api.sending.appending import Appends, Outcome
from mq.contract import Append, AppendRequest, Position
from mq.errors import QueueUnavailable

ONE, OTHER = Append("orders", "0", b"one"), Append("orders", "1", b"other")


class Client:
    """Refuses one body, and stores the others."""

    def __init__(self) -> None:
        self.groups: list[list[Sequence[Append]]] = []

    def append_each(self, requests: Sequence[AppendRequest]) -> None:
        self.groups.append([request.records for request in requests])
        for (record,), ended in requests:
            ended(QueueUnavailable("no") if record is OTHER else [Position(record.topic, record.partition, 7, 1)])


def _appends() -> tuple[Client, Appends]:
    client: Any = Client()
    return client, Appends(client, Bridge())


def test_appends_of_one_turn_are_handed_over_together_in_their_order_and_each_has_its_own_end() -> None:
    client, appends = _appends()

    async def main() -> list[Any]:
        asked = [appends.store([record], 5) for record in (ONE, OTHER, ONE)]
        return list(await asyncio.gather(*asked, return_exceptions=True))

    stored, refused, again = asyncio.run(main())
    assert client.groups == [[[ONE], [OTHER], [ONE]]]
    assert stored == again == [Position("orders", "0", 7, 1)]
    assert isinstance(refused, QueueUnavailable)


def test_appends_of_another_turn_are_another_group() -> None:
    client, appends = _appends()

    async def main() -> None:
        await appends.store([ONE], 5)
        await appends.store([ONE], 5)

    asyncio.run(main())
    assert client.groups == [[[ONE]], [[ONE]]]


def test_where_the_queue_has_a_bug_every_append_of_the_turn_gets_its_error() -> None:
    client, appends = _appends()

    def broken(_: Any) -> None:
        raise ZeroDivisionError

    client.append_each = broken  # type: ignore[assignment]

    async def main() -> list[Any]:
        return list(await asyncio.gather(appends.store([ONE], 5), appends.store([ONE], 5), return_exceptions=True))

    assert list(map(type, asyncio.run(main()))) == [ZeroDivisionError, ZeroDivisionError]


def test_the_end_of_what_is_only_handed_over_is_heard_on_the_loop() -> None:
    _, appends = _appends()
    heard: list[Outcome] = []

    async def main() -> None:
        appends.hand_over([ONE], heard.append)
        assert heard == []
        while not heard:  # noqa: ASYNC110 - until the loop comes to it
            await asyncio.sleep(0)

    asyncio.run(main())
    assert heard == [[Position("orders", "0", 7, 1)]]
