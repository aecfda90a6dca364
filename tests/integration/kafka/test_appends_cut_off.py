"""An append of several records whose connection breaks: it is stored whole or not at all, and the answer is true."""

from contextlib import closing

import pytest

from kafkawire.protocol.apis import ApiKey
from mq.contract import Append
from mq.errors import QueueUnavailable
from mq.kafka.queue import KafkaQueue
from tests.brokers.scripted import CUT_AFTER, CUT_BEFORE, FORWARD, Act, Asked, Scripted
from tests.integration.kafka.conftest import PATIENCE_S, Place, body, soon


class CutOnce:
    """Breaks the first connection of the appends that asks for this."""

    def __init__(self, place: Place, api: ApiKey, act: Act) -> None:
        self._client_id = f"{place.namespace}-append"
        self._api, self._act, self.fired = api, act, False

    def __call__(self, asked: Asked) -> Act:
        if self.fired or asked.client_id != self._client_id or asked.api != self._api:
            return FORWARD
        self.fired = True
        return self._act


def pair(queue: KafkaQueue, place: Place, value: bytes) -> BaseException | None:
    """A record for each partition; why they were not stored."""
    records = [Append(place.topic, name, body(value)) for name in ("0", "1")]
    return queue.append(records).exception(PATIENCE_S)


def stored(place: Place) -> list[list[bytes]] | None:
    """By partition; None before what comes last can be read."""
    queue = place.queue()
    found = [[one.body for one in queue.read(place.topic, name, 0, 9)] for name in ("0", "1")]
    return found if all(one[-1:] == [body(b"after")] for one in found) else None


@pytest.mark.parametrize("act", [CUT_BEFORE, CUT_AFTER])
@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.END_TXN])
def test_what_is_cut_off_is_stored_whole_or_not_at_all(place: Place, api: ApiKey, act: Act) -> None:
    place.make_topic()
    script = CutOnce(place, api, act)
    with closing(Scripted(place.kafka.bootstrap_servers)) as scripted:
        queue = place.queue(bootstrap_servers=scripted.bootstrap_servers)
        assert pair(queue, place, b"before") is None
        with scripted.following(script):
            error = pair(queue, place, b"cut off")
        assert pair(queue, place, b"after") is None
        queue.close()
    kept = [] if isinstance(error, QueueUnavailable) else [body(b"cut off")]
    assert soon(lambda: stored(place)) == [[body(b"before"), *kept, body(b"after")]] * 2
    assert (script.fired, error is None) == (True, api is ApiKey.END_TXN)
