"""Each campaign for a few seconds, and each judge against something that is broken."""

from pathlib import Path
from random import Random

import pytest

from tests.conftest import required
from tests.fuzz.buffers import Buffers
from tests.fuzz.campaign import Broken, Campaign
from tests.fuzz.configuration import Configuration
from tests.fuzz.http_server import HttpServer
from tests.fuzz.run import PARTS, attack

SECONDS = {"config": 3.0, "buffers": 5.0, "http": 8.0, "kafka": 12.0, "rocketmq": 4.0, "embedded": 6.0}
SEED = 20_261


@pytest.mark.parametrize("name", PARTS)
def test_hostile_input_breaks_no_promise(name: str) -> None:
    with required("Kafka"):
        campaign = attack(PARTS[name], SEED, SECONDS[name])
    print(dict(campaign.counts))
    assert campaign.cases > 0
    assert campaign.counts["judged"] > 0


def test_a_configuration_error_that_is_none_of_ours_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("tests.fuzz.configuration.load_settings", raises)
    with pytest.raises(Broken, match="surprise"):
        Configuration(Random(SEED), tmp_path).case()


def test_a_worker_that_stands_still_is_noticed(tmp_path: Path) -> None:
    campaign = Buffers(Random(SEED), tmp_path)
    campaign.bench.worker.turn = lambda: None
    with pytest.raises(Broken, match="not delivered"):
        campaign.judge()


def test_a_server_that_has_ended_is_noticed(tmp_path: Path) -> None:
    with HttpServer(Random(SEED), tmp_path) as campaign:
        campaign.server.kill()
        with pytest.raises((Broken, OSError, AssertionError)):
            campaign.judge()


def test_every_campaign_has_a_name_of_its_own() -> None:
    assert all(isinstance(name, str) and issubclass(part, Campaign) for name, part in PARTS.items())
    assert len({part.name for part in PARTS.values()}) == len(PARTS)
