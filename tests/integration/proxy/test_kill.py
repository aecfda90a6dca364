"""kill -9 of the proxy under load: nothing is lost, nothing is there twice, and order holds."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.integration.kafka.conftest import CLOCK
from tests.integration.proxy.child import Child
from tests.integration.proxy.conftest import Proxy, held
from tests.integration.proxy.load import DELAY, Load
from tests.tiers import sample

SEED = 20260101
COUNT = 2000
KILLS = 3


def numbers(messages: list[Any], partition: int) -> list[int]:
    return [int(one.value()) for one in messages if one.partition() == partition]


@pytest.mark.thorough
def test_idempotent_producers_lose_and_repeat_nothing_when_the_proxy_is_killed(proxy: Proxy, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    rng = Random(SEED)
    proxy.make_topic(2)
    with closing(Child(proxy, tmp_path)) as child:
        child.start()
        load = Load(proxy, rng)
        for _ in range(KILLS):
            load.send(rng.randrange(COUNT // KILLS))
            child.kill()
            child.start()
        load.send(COUNT - load.sent)
        load.finish()
    target = held(proxy.place.kafka.bootstrap_servers, proxy.place.topic)
    buffer = held(proxy.place.kafka.bootstrap_servers, proxy.place.buffer)
    seen = Counter(int(one.value()) for one in target + buffer)
    assert seen == Counter(range(COUNT))
    assert [one.headers() for one in buffer] == [DELAY] * len(buffer)
    for log in (target, buffer):
        for partition in range(2):
            assert numbers(log, partition) == sorted(numbers(log, partition))


def test_a_stop_lets_requests_under_way_have_their_answers(proxy: Proxy, tmp_path: Path) -> None:
    proxy.make_topic(2)
    with closing(Child(proxy, tmp_path)) as child:
        child.start()
        load = Load(proxy, Random(SEED))
        load.send(500)
        began_s = CLOCK.monotonic_s()
        assert child.stop() == 0
        assert CLOCK.monotonic_s() - began_s < 5
        child.start()
        load.send(500)
        load.finish()
    log = held(proxy.place.kafka.bootstrap_servers, proxy.place.topic)
    log += held(proxy.place.kafka.bootstrap_servers, proxy.place.buffer)
    assert Counter(int(one.value()) for one in log) == Counter(range(1000))


@pytest.mark.thorough
def test_two_proxies_share_the_ports_of_a_machine(proxy: Proxy, tmp_path: Path) -> None:
    proxy.make_topic(2)
    (tmp_path / "other").mkdir()
    with closing(Child(proxy, tmp_path)) as one, closing(Child(proxy, tmp_path / "other")) as other:
        one.start()
        other.start()
        load = Load(proxy, Random(SEED))
        load.send(500)
        one.kill()
        load.send(500)
        load.finish()
    log = held(proxy.place.kafka.bootstrap_servers, proxy.place.topic)
    log += held(proxy.place.kafka.bootstrap_servers, proxy.place.buffer)
    assert Counter(int(one.value()) for one in log) == Counter(range(1000))


@pytest.mark.parametrize(
    ("environ", "sentence"),
    sample(
        [
            ({"DELAYLINE_PROXY__KAFKA__PORT": "0"}, "proxy.kafka.port"),
            ({"DELAYLINE_PROXY__KAFKA__CERTFILE": "nowhere.pem"}, "proxy.kafka.certfile"),
            ({"DELAYLINE_PROXY__KAFKA__HOST": "192.0.2.1"}, "cannot listen on 192.0.2.1"),
            (
                {"DELAYLINE_MQ__PROPERTIES": '{"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"}'},
                "sasl",
            ),
        ],
        every=4,
    ),
)
def test_settings_that_cannot_be_are_one_sentence(
    proxy: Proxy, tmp_path: Path, environ: dict[str, str], sentence: str
) -> None:
    child = Child(proxy, tmp_path, environ=environ)
    with closing(child), pytest.raises(AssertionError):
        child.start()
    assert sentence in child.output
    assert "Traceback" not in child.output
