"""What brokers may answer to a worker on the wire, one thing at a time: it goes on, and delivers everything once."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import decode, encode
from kafkawire.protocol.messages.cluster import ApiVersion, ApiVersionsResponse
from kafkawire.protocol.messages.produce import ProduceResponse
from mq.contract import DispatchBatch
from mq.errors import DeliveryRefused, QueueUnavailable
from tests.brokers.scripted import CUT_AFTER, FORWARD, Act, Altered, Asked, Held, Instead, Late, Waits
from tests.integration.kafka.behind import RECORDS, Behind, Once, behind_a_fault
from tests.integration.kafka.conftest import Place, soon
from tests.tiers import sample

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 22, 25, 27
FETCH, INIT, PRODUCE, OFFSETS, END = (
    ApiKey.FETCH,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.PRODUCE,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)


@pytest.fixture(scope="module")
def shared(kafka: "KafkaAt") -> Iterator[Behind]:
    """One worker for all that it survives."""
    with ExitStack() as stack:
        yield Behind(Place(kafka, stack), stack)


@pytest.fixture
def behind(shared: Behind) -> Behind:
    shared.met.clear()
    return shared


def once(behind: Behind, api: ApiKey, act: Act, times: int = 1) -> Once:
    return Once(behind, api, 1, act, times=times)


# --- for the moment


MOVED = [
    (FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (FETCH, ErrorCode.LEADER_NOT_AVAILABLE),
    (FETCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (FETCH, ErrorCode.KAFKA_STORAGE_ERROR),
    (FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (FETCH, ErrorCode.UNKNOWN_SERVER_ERROR),
    (INIT, ErrorCode.NOT_COORDINATOR),
    (INIT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (INIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    (INIT, ErrorCode.CONCURRENT_TRANSACTIONS),
    (PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (PRODUCE, ErrorCode.CONCURRENT_TRANSACTIONS),
    (PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS),
    (PRODUCE, ErrorCode.CORRUPT_MESSAGE),
    (PRODUCE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    (OFFSETS, ErrorCode.NOT_COORDINATOR),
    (OFFSETS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (OFFSETS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    (OFFSETS, ErrorCode.CONCURRENT_TRANSACTIONS),
    (END, ErrorCode.NOT_COORDINATOR),
    (END, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (END, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    (END, ErrorCode.CONCURRENT_TRANSACTIONS),
]
ASKS_ANEW = {
    ErrorCode.NOT_COORDINATOR: ApiKey.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ApiKey.FIND_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ApiKey.METADATA,
}


@pytest.mark.parametrize(
    ("api", "code"), sample(MOVED, every=3), ids=[f"{api.name}-{code.name}" for api, code in MOVED]
)
def test_what_is_refused_for_the_moment_is_asked_again_and_nobody_notices(
    behind: Behind, api: ApiKey, code: ErrorCode
) -> None:
    asked = len(behind.scripted.seen)
    times = 1 if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else 2  # that one is waited for longer
    script = once(behind, api, Instead(code), times=times)
    behind_a_fault(behind, script, behind.forget if api is INIT else lambda: None)
    assert not behind.met
    if (anew := ASKS_ANEW.get(code)) is not None:
        assert anew in {one.api for one in behind.scripted.seen[asked:] if behind.is_ours(one)}


# --- for good


REFUSED = [
    (PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "CommitAborted"),  # our own topics, too: not the target's fault
    (PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH, "Fenced"),
    (PRODUCE, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Fenced"),
    (PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "CommitAborted"),
    (PRODUCE, ErrorCode.INVALID_TXN_STATE, "CommitAborted"),
    (PRODUCE, ErrorCode.UNKNOWN_SERVER_ERROR, "CommitAborted"),
    (OFFSETS, UNKNOWN_MEMBER_ID, "Fenced"),
    (OFFSETS, ErrorCode.INVALID_PRODUCER_EPOCH, "Fenced"),
    (END, ErrorCode.PRODUCER_FENCED, "Fenced"),
    (END, ErrorCode.INVALID_TXN_STATE, "CommitAborted"),
    (INIT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "CommitAborted"),
]


@pytest.mark.parametrize(
    ("api", "code", "met"), sample(REFUSED, every=2), ids=[f"{api.name}-{int(code)}" for api, code, _ in REFUSED]
)
def test_what_is_refused_for_good_is_taken_again_or_taken_over_anew(
    behind: Behind, api: ApiKey, code: int, met: str
) -> None:
    behind_a_fault(behind, once(behind, api, Instead(code)), behind.forget if api is INIT else lambda: None)
    assert set(behind.met) == {met}


def test_a_generation_that_is_over_is_waited_out(behind: Behind) -> None:
    """Nothing but the answer shows it, so that there is no newer one to wait for."""
    behind_a_fault(behind, once(behind, OFFSETS, Instead(ILLEGAL_GENERATION)))
    assert set(behind.met) <= {"CommitAborted"}


def refusing(topic_name: str, code: ErrorCode) -> Altered:
    """What is written to this topic."""

    def altered(data: bytes) -> bytes:
        answer = decode(ProduceResponse, 12, data)
        for topic in answer.responses:
            for one in topic.partition_responses if topic.name == topic_name else ():
                one.error_code = code
        return b"".join(encode(answer, 12))

    return Altered(altered)


def test_a_target_that_may_not_be_written_is_the_only_one_at_fault(behind: Behind) -> None:
    refused = refusing(behind.place.topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    behind_a_fault(behind, once(behind, PRODUCE, refused))
    assert set(behind.met) == {"DeliveryRefused"}


def test_so_is_one_whose_batches_all_arrive_damaged_and_not_its_records(
    kafka: "KafkaAt", monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        behind = Behind(Place(kafka, stack), stack, transaction_timeout_s=1.0, request_timeout_s=1.0)
        commit, refused = behind.worker.sink.commit, []

        def listening(batch: DispatchBatch) -> None:
            try:
                commit(batch)
            except DeliveryRefused as error:
                refused.append((error.shard, error.of_record))
                raise

        monkeypatch.setattr(behind.worker.sink, "commit", listening)
        damaged = refusing(behind.place.topic, ErrorCode.CORRUPT_MESSAGE)
        with behind.scripted.following(once(behind, PRODUCE, damaged, times=10_000)):
            behind.send()
            soon(lambda: (behind.turn(), refused)[1])
        behind.settle()
        behind.check()
    assert set(refused) == {(behind.place.shard, False)}


def test_a_second_member_between_the_records_and_the_offsets_costs_nothing(kafka: "KafkaAt") -> None:
    """The offsets are held back until the group has a generation in which they are not taken any more."""
    with ExitStack() as stack:
        behind = Behind(Place(kafka, stack), stack)
        membership = behind.worker.source.membership
        generation = membership.standing().metadata
        joined = Event()
        script = once(behind, OFFSETS, Waits(joined))
        behind.send()
        soon(lambda: (behind.poll(), len(behind.waiting) == RECORDS)[1])
        with behind.scripted.following(script):
            committing = Thread(target=behind.commit)
            committing.start()
            soon(lambda: script.fired)
            second = behind.place.worker(behind.place.queue(), "second")
            soon(lambda: (second.poll(), behind.poll(), membership.standing().metadata not in (generation, None))[2])
            joined.set()
            soon(lambda: (second.poll(), behind.poll(), not committing.is_alive())[2])
        assert not behind.met
        assert sum(one.api == OFFSETS for one in behind.scripted.seen if behind.is_ours(one)) > 2
        behind.check()


# --- lost, late, damaged


def test_an_end_whose_answer_is_lost_is_found_out_about(behind: Behind) -> None:
    behind_a_fault(behind, once(behind, END, CUT_AFTER))
    assert not behind.met


def test_an_end_whose_answers_are_all_lost_leaves_its_fate_to_whoever_takes_over(kafka: "KafkaAt") -> None:
    """Patience is three transaction timeouts."""
    with ExitStack() as stack:
        behind = Behind(Place(kafka, stack), stack, transaction_timeout_s=1.0, request_timeout_s=1.0)
        with behind.scripted.following(once(behind, END, CUT_AFTER, times=10_000)):
            behind.send()
            soon(lambda: (behind.turn(), behind.met["CommitUnknown"])[1])
        behind.settle()
        behind.check()
        assert behind.met["CommitUnknown"] == 1
        assert behind.met["CommitAborted"] == 0


@pytest.mark.parametrize("api", [PRODUCE, OFFSETS, END, INIT], ids=lambda api: api.name)
def test_a_request_that_arrives_when_others_have_followed_does_no_harm(behind: Behind, api: ApiKey) -> None:
    event = Event()
    script = once(behind, api, Late(event))
    with behind.scripted.following(script):
        if api is INIT:
            behind.forget()
        behind.send()
        behind.settle()
    behind.check()
    event.set()
    for _ in range(3):
        behind.send()
        behind.settle()
        behind.check()
    assert script.fired


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda data: data[: len(data) // 2],
    "too long": lambda data: data + b"\0",
    "lengths that are none": lambda data: b"\xff" * len(data),
    "nothing": lambda data: b"",
}


@pytest.mark.parametrize("damage", sample(DAMAGES, every=len(DAMAGES)))
@pytest.mark.parametrize("api", [FETCH, PRODUCE, OFFSETS, END, INIT], ids=lambda api: api.name)
def test_an_answer_that_cannot_be_read_is_none(behind: Behind, api: ApiKey, damage: str) -> None:
    script = once(behind, api, Altered(DAMAGES[damage]))
    behind_a_fault(behind, script, behind.forget if api is INIT else lambda: None)
    assert set(behind.met) <= {"CommitAborted"}


def test_an_answer_that_comes_too_late_is_none(kafka: "KafkaAt") -> None:
    with ExitStack() as stack:
        behind = Behind(Place(kafka, stack), stack, request_timeout_s=2.0)
        for api in (PRODUCE, END):
            event = Event()
            script = once(behind, api, Held(event))
            behind_a_fault(behind, script)
            event.set()
        assert set(behind.met) <= {"CommitAborted"}


def test_connections_that_a_broker_has_closed_cost_nothing(behind: Behind) -> None:
    for _ in range(3):
        assert behind.hang_up()
        behind.send()
        behind.settle()
        behind.check()
    assert not behind.met


# --- brokers that do not speak what is needed


def without(api: ApiKey) -> Callable[[bytes], bytes]:
    def altered(data: bytes) -> bytes:
        answer = decode(ApiVersionsResponse, 3, data)
        answer.api_keys = [ApiVersion(one.api_key, 0, 0) if one.api_key == api else one for one in answer.api_keys]
        return b"".join(encode(answer, 3))

    return altered


@pytest.mark.parametrize(
    "api", sample([PRODUCE, OFFSETS, END, INIT, ApiKey.FETCH, ApiKey.METADATA], every=6), ids=lambda api: api.name
)
def test_where_a_broker_does_not_speak_what_is_needed_no_worker_starts(behind: Behind, api: ApiKey) -> None:
    def script(asked: Asked) -> Act:
        ours = asked.client_id == "old-worker"
        return Altered(without(api)) if ours and asked.api == ApiKey.API_VERSIONS and asked.version == 3 else FORWARD

    queue = behind.place.queue(bootstrap_servers=behind.scripted.bootstrap_servers, address="127.0.0.1:1")
    with behind.scripted.following(script), pytest.raises(QueueUnavailable, match=f"{api.name}.* Kafka 3.0"):
        queue.open_worker("old-worker")
