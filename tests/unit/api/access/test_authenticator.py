"""Keys that are right, wrong, ended, and tried again and again."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.access import attempts
from api.access.authenticator import WAITING_MAX, Authenticator
from api.access.sessions import Sessions
from api.http.problems import Refusal
from delayline.access.acts import Act
from delayline.access.hashing import Hasher
from delayline.access.keys import AccessKeys, new_token
from delayline.clock import ManualClock
from tests.unit.api.access.held import HeldAccess, allowing
from tests.unit.api.in_memory import NOW_MS, Api, problem

ORDERS = "/v1/topics/orders"
RIGHTS = allowing("ann", "read", "send") + allowing("bob", "read")


class Counting(Hasher):
    def __init__(self) -> None:
        super().__init__()
        self.compared = 0

    def matches(self, secret: str, known: str | None) -> bool:
        self.compared += 1
        return super().matches(secret, known)


class Scene:
    """An authenticator, and what it is asked."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.access = HeldAccess(RIGHTS, "ann", "bob")
        self.clock = ManualClock(NOW_MS)
        self.hasher = Counting()
        self.registry = CollectorRegistry()
        sessions = Sessions(b"", 43_200_000, self.clock)
        self.authenticator = Authenticator(self.access, self.hasher, sessions, self.clock, threads, self.registry)

    async def status(self, header: str | None, address: str = "10.0.0.1") -> int:
        """200 where the caller is known."""
        headers = {} if header is None else {b"authorization": header.encode()}
        try:
            caller = await self.authenticator.caller({"delayline.headers": headers, "delayline.address": address})
            assert caller.may(Act.READ, "orders")
        except Refusal as refusal:
            return refusal.status
        return 200

    def ask(self, *headers: str | None, address: str = "10.0.0.1") -> list[int]:
        """At once."""

        async def all_of_them() -> list[int]:
            return await asyncio.gather(*(self.status(header, address) for header in headers))

        return asyncio.run(all_of_them())

    @property
    def refused(self) -> float:
        return self.registry.get_sample_value("delayline_access_keys_refused_total") or 0.0


@pytest.fixture
def scene() -> Iterator[Scene]:
    with ThreadPoolExecutor(1) as threads:
        yield Scene(threads)


def wrong() -> str:
    return f"Bearer {new_token()}"


def test_a_key_is_compared_once_however_often_it_is_shown(scene: Scene) -> None:
    ann = scene.access.header("ann")
    assert scene.ask(*[ann] * 100) == [200] * 100
    assert scene.ask(*[ann] * 100) == [200] * 100
    assert scene.hasher.compared == 1


@pytest.mark.parametrize("change", ["wrong secret", "another's secret", "unknown id"])
def test_a_key_that_is_none_is_refused_after_a_comparison(scene: Scene, change: str) -> None:
    ann, bob = scene.access.tokens["ann"], scene.access.tokens["bob"]
    shown = {
        "wrong secret": ann._replace(secret="x" * 43),
        "another's secret": ann._replace(secret=bob.secret),
        "unknown id": ann._replace(key_id="a" * 16),
    }[change]
    assert scene.ask(f"Bearer {shown}") == [401]
    assert scene.hasher.compared == 1, "as long as for a key that there is"
    assert scene.refused == 1


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YW5uOnB3", "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer dlk_" + "x" * 5000],
)
def test_what_is_no_key_is_refused_without_a_comparison(scene: Scene, header: str) -> None:
    assert scene.ask(header) == [401]
    assert scene.hasher.compared == 0


def test_the_scheme_has_any_case(scene: Scene) -> None:
    assert scene.ask(scene.access.header("ann").replace("Bearer", "BEARER")) == [200]


def test_a_key_ends_while_it_is_in_use(scene: Scene) -> None:
    ann = scene.access.header("ann")
    assert scene.ask(ann) == [200]
    scene.access.end("ann", NOW_MS + 1000)
    assert scene.ask(ann) == [200]
    scene.clock.advance(1000)
    assert scene.ask(ann) == [401]
    scene.access.keys = AccessKeys([])
    assert scene.ask(ann, scene.access.header("bob")) == [401, 401]


def test_a_key_with_another_hash_is_another_key(scene: Scene) -> None:
    """Its id was used again: who was recognised before is not."""
    ann = scene.access.header("ann")
    assert scene.ask(ann) == [200]
    other = scene.access.add("bob")
    token = scene.access.tokens["ann"]
    scene.access.keys = AccessKeys([type(other)(token.key_id, "ann", other.hash, 0)])
    assert scene.ask(ann) == [401]


def test_a_caller_that_is_held_ends_with_its_key(scene: Scene) -> None:
    async def main() -> Any:
        headers = {b"authorization": scene.access.header("ann").encode()}
        return await scene.authenticator.caller({"delayline.headers": headers, "delayline.address": ""})

    caller = asyncio.run(main())
    assert caller.may(Act.READ, "orders")
    scene.access.allow("")
    assert not caller.may(Act.READ, "orders")
    scene.access.keys = AccessKeys([])
    with pytest.raises(Refusal):
        caller.may(Act.READ, "orders")


def test_an_address_with_many_wrong_keys_has_to_wait_and_no_other(scene: Scene) -> None:
    assert scene.ask(scene.access.header("ann")) == [200]
    tried = [scene.ask(wrong())[0] for _ in range(1000)]
    assert tried == [401] * attempts.BURST + [429] * (1000 - attempts.BURST)
    assert scene.hasher.compared == 1 + attempts.BURST
    assert scene.ask(scene.access.header("ann")) == [200], "it is known already"
    assert scene.ask(scene.access.header("bob")) == [429], "it is not, and may be a guess"
    assert scene.ask(scene.access.header("bob"), address="10.0.0.2") == [200]
    scene.clock.advance(int(attempts.EVERY_S * 1000))
    assert [scene.ask(wrong())[0] for _ in range(2)] == [401, 429]


def test_right_keys_use_nothing_up(scene: Scene) -> None:
    for number in range(3 * attempts.BURST):
        scene.access.add(f"p{number}")
    scene.access.allow(allowing("*", "read"))
    for number in range(3 * attempts.BURST):
        assert scene.ask(scene.access.header(f"p{number}")) == [200]


def test_addresses_that_are_remembered_are_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "ADDRESSES_MAX", 3)
    found = attempts.Attempts(scene.clock)
    for _ in range(attempts.BURST):
        found.take("10.0.0.1")
    with pytest.raises(Refusal):
        found.take("10.0.0.1")
    for number in (2, 3, 4):
        found.take(f"10.0.0.{number}")
    found.take("10.0.0.1")  # forgotten: it begins anew


def test_keys_at_once_are_bounded(scene: Scene) -> None:
    """From many addresses, of which none has tried often."""

    async def main() -> list[int]:
        asked = (scene.status(wrong(), f"10.0.0.{number}") for number in range(2 * WAITING_MAX))
        return await asyncio.gather(*asked)

    statuses = asyncio.run(main())
    assert statuses.count(503) == WAITING_MAX
    assert statuses.count(401) == WAITING_MAX


def test_a_header_that_stands_twice_is_refused() -> None:
    access = HeldAccess(RIGHTS, "ann", "bob")
    twice = [("authorization", access.header("ann")), ("authorization", access.header("bob"))]
    assert problem(Api(access=access).get(ORDERS, headers=httpx.Headers(twice))) == (400, "invalid-request")


def test_a_wrong_key_is_refused_also_where_none_is_needed() -> None:
    """A client that sends a key expects the server to check it."""
    answer = Api(access=HeldAccess(RIGHTS)).get("/metrics", headers={"authorization": wrong()})
    assert problem(answer) == (401, "unauthenticated")
