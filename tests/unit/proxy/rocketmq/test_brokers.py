"""Brokers and the ports that stand for them."""

import asyncio
import json
import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from delayline.process.listening import CannotListen
from proxy.rocketmq import brokers as module
from proxy.rocketmq.brokers import Brokers, KeptPlaces
from proxy.rocketmq.settings import RocketmqProxySettings
from proxy.rocketmq.view.ports import VIP, BrokerKey, NoPort
from tests.ports import is_listening
from tests.unit.proxy.rocketmq.scene import Scene

A, B, C = (BrokerKey(name, 0) for name in ("broker-a", "broker-b", "broker-c"))


def settings_of(scene: Scene, *brokers: str) -> RocketmqProxySettings:
    return replace(scene.settings, brokers=brokers, brokers_max=3)


def admit(
    settings: RocketmqProxySettings, *turns: dict[BrokerKey, str]
) -> tuple[dict[BrokerKey, int], list[BrokerKey]]:
    """Ports by broker, after those turns; and which have moved."""
    opened: dict[BrokerKey, int] = {}
    moved: list[BrokerKey] = []

    async def opening(key: BrokerKey, port: int) -> None:
        opened[key] = port

    async def run() -> None:
        with closing(Brokers(settings)) as brokers:
            brokers.serve(opening, moved.append)
            for turn in turns:
                await brokers.admit(turn)

    asyncio.run(run())
    return opened, moved


def test_a_broker_that_appears_later_gets_the_next_ports_and_keeps_them(scene: Scene) -> None:
    settings = settings_of(scene, "broker-a")
    first, _ = admit(settings, {C: "1.1.1.1:1"}, {A: "1.1.1.2:1", B: "1.1.1.3:1"})
    again, _ = admit(settings, {B: "1.1.1.3:1"}, {A: "1.1.1.2:1"}, {C: "1.1.1.1:1"})
    port = settings.port
    assert first == again == {A: port + 4, C: port + 8, B: port + 12}
    assert json.loads(settings.kept.read_text()) == {"broker-c": 1, "broker-b": 2}


def test_a_broker_whose_place_cannot_be_kept_has_no_port(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = replace(settings_of(scene, "broker-a"), kept=tmp_path / "file" / "kept.json")
    assert admit(settings, {A: "1.1.1.1:1", B: "1.1.1.2:1"})[0] == {A: scene.port + 4}


@pytest.mark.parametrize("text", ["", "[]", '{"broker-b": "x"}', '{"broker-b": -1}', "\x00"])
def test_a_damaged_file_of_places_gives_none(scene: Scene, text: str) -> None:
    """Another broker may have had the ports that it would get."""
    settings = settings_of(scene)
    settings.kept.write_text(text)
    with pytest.raises(NoPort, match=r"not in proxy\.rocketmq\.brokers"):
        KeptPlaces(settings.kept).place_of(settings, "broker-b")


def test_only_a_broker_whose_address_changes_has_moved(scene: Scene) -> None:
    settings = settings_of(scene, "broker-a", "broker-b")
    both = {A: "1.1.1.1:1", B: "1.1.1.2:1"}
    assert admit(settings, both, both, both | {A: "1.1.1.9:1"})[1] == [A]


def test_a_broker_without_a_port_is_left_out_of_routes_and_tried_again(scene: Scene) -> None:
    failures = [CannotListen("in use")]

    async def opening(key: BrokerKey, port: int) -> None:
        if failures:
            raise failures.pop()

    async def run() -> None:
        with closing(Brokers(settings_of(scene, "broker-a"))) as brokers:
            brokers.serve(opening, lambda _: None)
            for address in (None, f"127.0.0.1:{scene.port + 4}"):
                await brokers.admit({A: "1.1.1.1:1"})
                assert brokers.advertise(A) == address
                assert brokers.are_known({A: "1.1.1.1:1"})

    asyncio.run(run())


@pytest.mark.parametrize("below", [0, VIP])
def test_a_proxy_is_not_ready_while_others_have_a_port_of_a_broker(
    scene: Scene, below: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEARN_AGAIN_S", 0.01)
    port = scene.port + 4
    with socket.socket() as other:
        other.bind(("127.0.0.1", port - below))
        other.listen()
        scene.begin()
        why = f"broker broker-a, id 0: port {port - below} on 127.0.0.1 is in use by another program"
        scene.wait_until(lambda: scene.thread.readiness()[1].startswith(why))
        assert not scene.thread.readiness()[0]
        assert below == 0 or not is_listening(port), "clients would find half a broker"
    scene.wait_until(lambda: scene.thread.readiness() == (True, "ready"))
    assert is_listening(port)


def test_a_broker_that_is_gone_does_not_keep_the_proxy_from_being_ready(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEARN_AGAIN_S", 0.01)
    with socket.socket() as other:
        other.bind(("127.0.0.1", scene.port + 4))
        other.listen()
        scene.begin()
        scene.wait_until(lambda: "in use" in scene.thread.readiness()[1])
        scene.names.addresses.clear()
        scene.wait_until(lambda: scene.thread.readiness()[0])
