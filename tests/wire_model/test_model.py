"""The machine of a transactional producer against brokers that lose, delay and refuse."""

import pytest

from tests.mutation.mutant import Mutant
from tests.wire_model.cluster import OFFSETS, OK, Cluster, ErrorCode, Kind
from tests.wire_model.mutants import MUTANTS, hunt
from tests.wire_model.play import PLACES, play

SEEDS = 4000
REQUESTS = ("Initialise", "AddPartitions", "Write", "AddOffsets", "CommitOffsets", "End")
FATES = ("unsent", "lost", "late", "unanswered", "moved", "done_all_the_same", "in flight at the end")


def test_the_machine_s_result_of_a_transaction_is_what_readers_see() -> None:
    happened = play(range(SEEDS))

    for fate in FATES:
        assert min(happened[f"{fate} {request}"] for request in REQUESTS) > 0, fate
    for word in ("unanswered End", "late End", "taken late Write", "taken late Initialise", "timeout"):
        assert happened[word] > 20, word
    assert happened["Unknown"] > 50
    assert happened["unknown, there"] > 10
    assert happened["unknown, not there"] > 10
    assert happened["Committed"] > SEEDS
    print(f"{SEEDS} runs:", ", ".join(f"{word} {count}" for word, count in sorted(happened.items())))


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.broken for mutant in MUTANTS])
def test_the_judge_catches_a_machine_in_which(mutant: Mutant) -> None:
    assert hunt(mutant) is not None


# --- the model itself


def opened(kind: Kind, epoch_max: int = 32_767) -> Cluster:
    cluster = Cluster(kind, PLACES, epoch_max)
    assert cluster.initialise() == (OK, (1, 0))
    return cluster


def settled(cluster: Cluster) -> None:
    while cluster.tick():
        pass


@pytest.mark.parametrize("kind", Kind)
def test_a_committed_transaction_is_seen_when_its_markers_are_written(kind: Kind) -> None:
    cluster = opened(kind)
    cluster.add(1, 0, (PLACES[0], OFFSETS))
    assert cluster.write(PLACES[0], 1, 0, 0, 2, (0, 0)) is OK
    assert cluster.write(OFFSETS, 1, 0, 0, 1, (0, 0)) is OK
    assert cluster.end(1, 0) is OK
    assert cluster.partitions[PLACES[0]].visible == []
    settled(cluster)
    assert [cluster.partitions[place].visible for place in (PLACES[0], OFFSETS)] == [[(0, 0)], [(0, 0)]]


@pytest.mark.parametrize("kind", Kind)
def test_initialising_aborts_what_is_open_and_keeps_out_what_comes_late(kind: Kind) -> None:
    cluster = opened(kind)
    cluster.add(1, 0, (PLACES[0],))
    assert cluster.write(PLACES[0], 1, 0, 0, 1, (0, 0)) is OK
    assert cluster.initialise()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    settled(cluster)
    assert cluster.initialise() == (OK, (1, 2))
    assert cluster.write(PLACES[0], 1, 0, 1, 1, (0, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert cluster.end(1, 0) is ErrorCode.PRODUCER_FENCED
    assert cluster.partitions[PLACES[0]].visible == []
    assert not cluster.partitions[PLACES[0]].hangs


def test_a_repeated_end_is_known_by_the_epoch_that_it_raised() -> None:
    cluster = opened(Kind.IMPLICIT)
    cluster.write(PLACES[0], 1, 0, 0, 1, (0, 0))
    answers = [cluster.end(1, 0), cluster.end(1, 0)]
    settled(cluster)
    answers.append(cluster.end(1, 0))
    assert answers == [OK, ErrorCode.CONCURRENT_TRANSACTIONS, OK]
    assert cluster.end(1, 1) is ErrorCode.INVALID_TXN_STATE
    cluster.write(PLACES[0], 1, 1, 0, 1, (1, 0))
    assert cluster.end(1, 0) is ErrorCode.PRODUCER_FENCED


def test_where_ends_do_not_raise_the_epoch_a_late_end_commits_the_next_transaction() -> None:
    cluster = opened(Kind.VERIFIED)
    for number in range(2):
        cluster.add(1, 0, (PLACES[0],))
        cluster.write(PLACES[0], 1, 0, number, 1, (number, 0))
        assert cluster.end(1, 0) is OK
        settled(cluster)
    assert cluster.partitions[PLACES[0]].visible == [(0, 0), (1, 0)]


def test_a_producer_id_without_epochs_is_followed_by_another() -> None:
    cluster = opened(Kind.IMPLICIT, epoch_max=1)
    cluster.write(PLACES[0], 1, 0, 0, 1, (0, 0))
    assert cluster.end(1, 0) is OK
    assert (cluster.producer_id, cluster.epoch) == (2, 0)
    settled(cluster)
    assert cluster.end(1, 0) is OK
    assert cluster.write(PLACES[0], 2, 0, 0, 1, (1, 0)) is OK


@pytest.mark.parametrize("kind", Kind)
def test_a_write_that_is_there_already_is_not_written_twice(kind: Kind) -> None:
    cluster = opened(kind)
    cluster.add(1, 0, (PLACES[0],))
    codes = [cluster.write(PLACES[0], 1, 0, sequence, 1, (0, sequence)) for sequence in (0, 1, 0, 3)]
    assert codes == [OK, OK, OK, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert len(cluster.partitions[PLACES[0]].log) == 2


def test_verified_partitions_take_nothing_that_was_not_announced() -> None:
    assert opened(Kind.VERIFIED).write(PLACES[0], 1, 0, 0, 1, (0, 0)) is ErrorCode.INVALID_TXN_STATE
    assert opened(Kind.UNVERIFIED).write(PLACES[0], 1, 0, 0, 1, (0, 0)) is OK
