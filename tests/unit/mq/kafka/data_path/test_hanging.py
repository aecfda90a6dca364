"""Which markers are written where, and when nothing is: the rules, on a made-up cluster."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from delayline.clock import ManualClock
from delayline.names import Names
from kafkawire.client.metadata import NO_LEADER
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from mq.errors import QueueUnavailable
from mq.kafka.data_path.finishing import OFFSETS_TOPIC
from mq.kafka.data_path.recovery import Hanging
from mq.kafka.data_path.transaction_states import offsets_row
from tests.unit.mq.kafka.made_up_partitions import Cluster, Partition, Transaction

NAMES = Names("ns")
ME = NAMES.worker("me")
TARGET, BUFFER, OFFSETS = ("orders", 0), (NAMES.buffer("orders"), 0), (OFFSETS_TOPIC, 7)
PID, EPOCH = 70, 5


class Scene:
    def __init__(self) -> None:
        self.cluster = Cluster()
        for place in (TARGET, BUFFER, OFFSETS, ("strange", 0)):
            self.cluster.partitions[place] = Partition()
        self.clock = ManualClock()
        nodes: Any = self.cluster
        self.hanging = Hanging(nodes, NAMES, 5, self.clock, self._pause)

    def _pause(self, wait_s: float) -> bool:
        self.clock.advance(max(1, round(wait_s * 1000)))
        return False

    def ended(self, state: str, epoch: int = EPOCH + 1, name: str = ME) -> Transaction:
        """A transaction with records of EPOCH; the epoch behind it is the next one, as of every transaction that has
        its own."""
        made = self.cluster.transactions[name] = Transaction(PID, epoch, state)
        return made

    def stands(self, *places: tuple[str, int], epoch: int = EPOCH) -> None:
        for place in places:
            self.cluster.partitions[place].open.append((PID, epoch, 40))

    def unheard(self) -> frozenset[tuple[str, int]]:
        return self.hanging.unheard(ME, "group")

    def leader(self, place: tuple[str, int], node: int) -> None:
        self.cluster.partitions[place].leader = node


@pytest.fixture
def scene() -> Scene:
    return Scene()


# --- before somebody goes on under the id


@pytest.mark.parametrize("state", ["CompleteCommit", "PrepareCommit"])
def test_what_was_committed_is_marked_so_wherever_it_stands_open(scene: Scene, state: str) -> None:
    scene.ended(state)
    scene.stands(TARGET, BUFFER, OFFSETS)
    assert scene.hanging.recover(ME) is False
    assert sorted(scene.cluster.marked) == sorted((place, PID, EPOCH, True) for place in (TARGET, BUFFER, OFFSETS))
    assert scene.cluster.fenced == []


@pytest.mark.parametrize("state", ["CompleteAbort", "PrepareAbort"])
def test_what_was_aborted_is_marked_so(scene: Scene, state: str) -> None:
    scene.ended(state)
    scene.stands(TARGET)
    scene.hanging.recover(ME)
    assert scene.cluster.marked == [(TARGET, PID, EPOCH, False)]


def test_an_id_that_is_new_costs_one_question(scene: Scene) -> None:
    assert scene.hanging.recover(ME) is False
    assert scene.cluster.asked == [ApiKey.DESCRIBE_TRANSACTIONS]


def test_where_nothing_hangs_nobody_is_fenced_and_nothing_written(scene: Scene) -> None:
    scene.ended("CompleteCommit")
    scene.cluster.partitions[TARGET].open.append((PID + 1, EPOCH, 40))
    assert scene.hanging.recover(ME) is False
    assert (scene.cluster.marked, scene.cluster.fenced) == ([], [])


def test_records_of_another_epoch_are_not_what_the_verdict_is_about(scene: Scene) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET, epoch=EPOCH - 1)
    scene.hanging.recover(ME)
    assert scene.cluster.marked == []


def test_topics_of_others_are_not_looked_at(scene: Scene) -> None:
    scene.ended("CompleteCommit")
    scene.stands(("strange", 0))
    scene.hanging.recover(ME)
    assert scene.cluster.marked == []


def test_where_transactions_share_an_epoch_the_producer_is_fenced_first(scene: Scene) -> None:
    """Or the marker could end the next one, of which some records might be there already."""
    scene.ended("CompleteCommit", epoch=EPOCH)
    scene.stands(TARGET)
    assert scene.hanging.recover(ME) is True
    assert scene.cluster.fenced == [ME]
    assert scene.cluster.marked == [(TARGET, PID, EPOCH, True)]


def test_and_left_alone_where_it_has_gone_on_meanwhile(scene: Scene) -> None:
    going_on = scene.ended("CompleteCommit", epoch=EPOCH)
    scene.stands(TARGET)
    answer = scene.cluster.answer

    def beginning(node: int, request: Any) -> Any:
        found = answer(node, request)
        if request.api == ApiKey.DESCRIBE_PRODUCERS:
            going_on.state = "Ongoing"
        return found

    scene.cluster.answer = beginning
    assert scene.hanging.recover(ME) is False
    assert (scene.cluster.marked, scene.cluster.fenced) == ([], [])


def test_what_is_open_is_aborted_by_the_fence_and_no_marker_of_ours_is_needed(scene: Scene) -> None:
    scene.ended("Ongoing", epoch=EPOCH).places = [TARGET, BUFFER]
    scene.stands(TARGET, BUFFER)
    assert scene.hanging.recover(ME) is True
    assert scene.cluster.fenced == [ME, ME], "interrupted, and taken"
    assert scene.cluster.marked == []
    assert not scene.unheard()


def test_what_could_not_be_fenced_may_still_be_committed_and_is_left_alone(scene: Scene) -> None:
    scene.ended("Ongoing", epoch=EPOCH).places = [TARGET]
    scene.stands(TARGET)
    scene.cluster.forbids.add(ApiKey.INIT_PRODUCER_ID)
    assert scene.hanging.recover(ME) is False
    assert scene.cluster.marked == []
    assert not scene.unheard()


def test_a_coordinator_that_is_loading_is_asked_again(scene: Scene) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET)
    scene.cluster.busy = 4
    scene.hanging.recover(ME)
    assert len(scene.cluster.marked) == 1


def test_a_coordinator_that_is_dead_is_looked_for_again(scene: Scene) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET)
    scene.cluster.coordinators, scene.cluster.dead = [3, 1], {3}
    scene.hanging.recover(ME)
    assert len(scene.cluster.marked) == 1
    assert scene.clock.monotonic_s() < 1


def test_one_that_never_ends_loading_is_an_error_in_time(scene: Scene) -> None:
    scene.cluster.busy = 1 << 30
    with pytest.raises(QueueUnavailable, match="error 14"):
        scene.hanging.recover(ME)
    assert scene.clock.monotonic_s() < 7


def committed_as_it_is_interrupted(scene: Scene, state: str) -> None:
    """The frozen producer's EndTxn was quicker than our InitProducerId, and a partition had no leader just then."""
    going = scene.ended("Ongoing", epoch=EPOCH)
    going.places = [TARGET, BUFFER]
    scene.stands(TARGET)
    answer = scene.cluster.answer

    def quicker(node: int, request: Any) -> Any:
        if request.api == ApiKey.INIT_PRODUCER_ID:
            if going.state == "Ongoing":
                going.state, going.epoch = state, EPOCH + 1
            elif going.state == "PrepareCommit":
                going.state = "CompleteCommit"
        return answer(node, request)

    scene.cluster.answer = quicker


def test_what_was_committed_as_it_was_interrupted_is_marked_so(scene: Scene) -> None:
    committed_as_it_is_interrupted(scene, "PrepareCommit")
    assert scene.hanging.recover(ME) is True
    assert scene.cluster.marked == [(TARGET, PID, EPOCH, True)]


def test_where_no_coordinator_knows_any_more_how_it_ended_nothing_is_marked(scene: Scene) -> None:
    committed_as_it_is_interrupted(scene, "CompleteCommit")
    assert scene.hanging.recover(ME) is True
    assert scene.cluster.fenced == [ME], "it is taken: once is enough"
    assert scene.cluster.marked == []


# --- partitions that do not answer

PASSING = [
    (ApiKey.LIST_OFFSETS, ErrorCode.OFFSET_NOT_AVAILABLE),
    (ApiKey.LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (ApiKey.DESCRIBE_PRODUCERS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
]


@pytest.mark.parametrize(("api", "code"), PASSING)
def test_a_partition_that_cannot_answer_yet_is_not_one_where_nothing_hangs(
    scene: Scene, api: ApiKey, code: ErrorCode
) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET, BUFFER)
    scene.cluster.partitions[TARGET].error_of[api] = code
    scene.hanging.recover(ME)
    assert scene.cluster.marked == [(BUFFER, PID, EPOCH, True)]
    assert scene.unheard() == {TARGET}
    scene.cluster.partitions[TARGET].error_of.clear()
    scene.hanging.recover(ME)
    assert scene.cluster.marked[1:] == [(TARGET, PID, EPOCH, True)]
    assert not scene.unheard()


@pytest.mark.parametrize("api", [ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_PRODUCERS])
def test_one_that_may_not_be_asked_is_an_error_that_names_the_right(scene: Scene, api: ApiKey) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET)
    scene.cluster.partitions[TARGET].error_of[api] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(QueueUnavailable, match=r"may not.*Read on the topic"):
        scene.hanging.recover(ME)


def test_of_the_offsets_partitions_only_the_groups_own_holds_it_up(scene: Scene) -> None:
    """`"group".hashCode()` is 98629247."""
    for row in range(50):
        scene.cluster.partitions[OFFSETS_TOPIC, row] = Partition(NO_LEADER)
    scene.ended("CompleteCommit")
    scene.hanging.recover(ME)
    assert scene.hanging.unheard(ME, "group") == {(OFFSETS_TOPIC, 98629247 % 50)}
    assert scene.hanging.unheard(ME, None) == frozenset()


@pytest.mark.parametrize(
    ("group", "hashed"),
    [
        ("", 0),
        ("delayline.workers", 2028259906),
        ("polygenelubricants", 0),
        ("a", 97),
        ("\U0001f550", 1772723),
        ("zzzzzz", 685785664),
    ],
)
def test_a_group_s_partition_follows_javas_hash(group: str, hashed: int) -> None:
    assert offsets_row(group, 1 << 31) == hashed


# --- partitions without a leader


def test_a_partition_without_a_leader_hears_of_it_when_it_has_one_again(scene: Scene) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET, BUFFER)
    scene.leader(TARGET, NO_LEADER)
    assert scene.hanging.recover(ME) is True, "nobody may begin anything there with the epoch that is remembered"
    assert scene.cluster.marked == [(BUFFER, PID, EPOCH, True)]
    assert scene.unheard()
    scene.hanging.sweep()
    assert len(scene.cluster.marked) == 1
    scene.leader(TARGET, 2)
    scene.hanging.sweep()
    assert scene.cluster.marked[1:] == [(TARGET, PID, EPOCH, True)]
    assert not scene.unheard()


def test_what_was_open_there_is_aborted_when_it_has_one_again(scene: Scene) -> None:
    scene.ended("Ongoing", epoch=EPOCH).places = [TARGET, BUFFER]
    scene.stands(TARGET, BUFFER)
    scene.leader(TARGET, NO_LEADER)
    scene.hanging.recover(ME)
    scene.leader(TARGET, 1)
    scene.hanging.recover(ME)
    assert scene.cluster.marked == [(TARGET, PID, EPOCH, False)]


def test_what_began_behind_the_loss_of_the_leader_replaces_no_verdict(scene: Scene) -> None:
    """It cannot have written there: the partition still has to hear of the one before."""
    scene.ended("CompleteCommit")
    scene.stands(TARGET)
    scene.leader(TARGET, NO_LEADER)
    scene.hanging.recover(ME)
    for later in range(EPOCH + 3, EPOCH + 9):
        scene.ended("CompleteAbort", epoch=later)
        scene.hanging.recover(ME)
    assert len(scene.hanging._unfinished) == 1
    scene.leader(TARGET, 1)
    scene.hanging.recover(ME)
    assert scene.cluster.marked == [(TARGET, PID, EPOCH, True)]


def test_a_partition_with_too_few_replicas_keeps_nobody_waiting_and_is_tried_again(scene: Scene) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET, BUFFER)
    scene.cluster.partitions[TARGET].refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    scene.hanging.recover(ME)
    assert scene.cluster.marked == [(BUFFER, PID, EPOCH, True)]
    scene.cluster.partitions[TARGET].refuses = 0
    scene.hanging.sweep()
    assert scene.cluster.marked[1:] == [(TARGET, PID, EPOCH, True)]


def test_a_partition_that_has_heard_of_it_meanwhile_is_done_with(scene: Scene) -> None:
    scene.ended("PrepareAbort")
    scene.stands(TARGET)
    scene.cluster.partitions[TARGET].refuses = ErrorCode.INVALID_PRODUCER_EPOCH
    scene.hanging.recover(ME)
    assert not scene.unheard()


def test_a_marker_that_is_refused_once_more_is_tried_once_more(scene: Scene) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET)
    scene.cluster.partitions[TARGET].refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    scene.hanging.recover(ME)
    scene.hanging.sweep()
    assert scene.unheard()
    scene.cluster.partitions[TARGET].refuses = 0
    scene.hanging.sweep()
    assert scene.cluster.marked == [(TARGET, PID, EPOCH, True)]


def test_markers_that_wait_for_replicas_keep_nobody_from_the_id_for_longer_than_a_moment(scene: Scene) -> None:
    """Whoever takes it then hears that it is busy, and may take another."""
    scene.ended("PrepareCommit")
    scene.leader(TARGET, NO_LEADER)
    assert scene.hanging.recover(ME) is False
    assert scene.clock.monotonic_s() < 3
    assert scene.unheard()


# --- what we may


@pytest.mark.parametrize("api", [ApiKey.WRITE_TXN_MARKERS, ApiKey.DESCRIBE_TRANSACTIONS])
def test_what_we_may_not_is_an_error_that_names_the_right(scene: Scene, api: ApiKey) -> None:
    scene.ended("CompleteCommit")
    scene.stands(TARGET)
    scene.cluster.forbids.add(api)
    with pytest.raises(QueueUnavailable, match="may not"):
        scene.hanging.recover(ME)
    assert scene.clock.monotonic_s() < 1, "it would be refused again"


# --- sweeps


def test_a_sweep_believes_only_what_it_has_seen_twice(scene: Scene) -> None:
    scene.ended("CompleteCommit", name="whoever's")
    scene.stands(BUFFER)
    scene.hanging.sweep()
    assert scene.cluster.marked == []
    scene.hanging.sweep()
    assert scene.cluster.marked == [(BUFFER, PID, EPOCH, True)]


def test_a_sweep_leaves_what_is_under_way(scene: Scene) -> None:
    scene.ended("Ongoing", epoch=EPOCH)
    scene.stands(BUFFER)
    with capture_logs() as logs:
        scene.hanging.sweep()
        scene.hanging.sweep()
    assert (scene.cluster.marked, scene.cluster.fenced, logs) == ([], [], [])


def test_a_sweep_fences_writers_of_ours_and_nobody_else(scene: Scene) -> None:
    for name, fenced in (("whoever's", []), (NAMES.client("dead"), [NAMES.client("dead")])):
        scene.cluster.transactions.clear()
        scene.ended("CompleteCommit", epoch=EPOCH, name=name)
        scene.cluster.partitions[BUFFER].open = [(PID, EPOCH, 40)]
        scene.hanging.sweep()
        scene.hanging.sweep()
        assert scene.cluster.fenced == fenced
    assert scene.cluster.marked == [(BUFFER, PID, EPOCH, True)]


def test_what_hangs_with_an_unknown_end_is_logged_once_and_not_guessed(scene: Scene) -> None:
    scene.ended("Empty")
    scene.stands(BUFFER)
    with capture_logs() as logs:
        for _ in range(4):
            scene.hanging.sweep()
    assert scene.cluster.marked == []
    assert [(line["log_level"], line["topic"], line["partition"]) for line in logs] == [("error", *BUFFER)]


def test_a_sweep_that_is_not_allowed_is_logged_once(scene: Scene) -> None:
    scene.ended("CompleteCommit", name="whoever's")
    scene.stands(BUFFER)
    scene.hanging.sweep()
    scene.cluster.forbids.add(ApiKey.WRITE_TXN_MARKERS)
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(QueueUnavailable, match="Alter on the cluster"):
                scene.hanging.sweep()
    assert [line["log_level"] for line in logs] == ["warning"]
    assert "Alter on the cluster" in logs[0]["detail"]
