"""kafkawire.client.reader: what is unpacked of answers that hold much more than they seem to."""

from collections.abc import Iterator

import pytest

from delayline.records.record import encode_body
from kafkawire.client.reader import LEFT_BYTES, READ_BYTES, WireReader
from kafkawire.client.reading import At, Part, Read
from tests.unit.mq.kafka.batches import ZSTD
from tests.unit.mq.kafka.fetched_from import CLOCK, PATIENCE_S, Cluster, bodies, read_until, running

FIRST, SECOND = At("orders", 0), At("orders", 1)
OTHER = At("mails", 0)
A = encode_body(None, b"a")


@pytest.fixture
def one() -> Iterator[tuple[Cluster, WireReader]]:
    """A node that leads everything."""
    with running({FIRST: 1, SECOND: 1}) as found:
        yield found


def heavy_logs(cluster: Cluster, count: int) -> dict[At, list[bytes]]:
    """A few hundred bytes in each batch of every partition, and half of what is unpacked for one read."""
    return {
        at: [heavy(cluster, at, b"%d.%d.%d" % (at.partition, len(at.topic), number)) for number in range(count)]
        for at in cluster.logs
    }


def heavy(cluster: Cluster, at: At, name: bytes, records: int = 1, size: int = READ_BYTES // 2) -> bytes:
    bodies = [encode_body(name, bytes(size // records))] * records
    with cluster.changed:
        cluster.logs[at].append(bodies, codec=ZSTD)
        cluster.changed.notify_all()
    return bodies[0]


def sizes(found: list[Read]) -> int:
    return sum(len(row[2]) for part in found if isinstance(part, Part) for row in part.records)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_few_bytes_that_stand_for_many_are_unpacked_a_few_megabytes_a_read(nodes: int) -> None:
    with running({FIRST: 1, SECOND: nodes, OTHER: nodes}) as (cluster, reader):
        sent = heavy_logs(cluster, 6)
        for at in sent:
            reader.assign(at, 0)
        reads: list[list[Read]] = []
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        while sum(map(sizes, reads)) < 18 * READ_BYTES // 2 and CLOCK.monotonic_s() < until_s:
            reads.append(list(reader.read(2000, 0.05)))
    found = [part for parts in reads for part in parts]
    assert {at: bodies(found, at) for at in sent} == sent
    assert max(map(sizes, reads)) <= 2 * READ_BYTES


def test_what_a_read_has_no_room_for_comes_with_the_next_ones_without_another_fetch(
    one: tuple[Cluster, WireReader],
) -> None:
    cluster, reader = one
    sent = [heavy(cluster, FIRST, b"%d" % number) for number in range(6)]
    reader.assign(FIRST, 0)
    found = read_until(reader, bool)
    reads = [list(reader.read(2000, 0)) for _ in range(2)]
    assert [len(bodies(read, FIRST)) for read in (found, *reads)] == [2, 2, 2]
    assert bodies([*found, *reads[0], *reads[1]], FIRST) == sent
    assert {request.topics[0].partitions[0].fetch_offset for _, request in cluster.fetches} <= {0, 6}


@pytest.mark.slow
def test_a_heavy_partition_lets_the_others_have_their_turn(one: tuple[Cluster, WireReader]) -> None:
    cluster, reader = one
    for number in range(8):
        heavy(cluster, FIRST, b"%d" % number, size=2 * READ_BYTES)
    cluster.append(SECOND, A)
    for at in (FIRST, SECOND):
        reader.assign(at, 0)
    found = read_until(reader, lambda found: bool(bodies(found, SECOND)))
    assert len(bodies(found, FIRST)) <= 2


@pytest.mark.slow
def test_what_waits_unpacked_is_bounded_however_many_partitions_take_turns() -> None:
    """Each has a batch that lasts for many reads."""
    places = [At("orders", number) for number in range(12)]
    with running(dict.fromkeys(places, 1)) as (cluster, reader):
        size = LEFT_BYTES // 4
        for at in places:
            heavy(cluster, at, b"x", records=8, size=size)
            reader.assign(at, 0)
        found: list[Read] = []
        most = 0
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        while sum(len(bodies(found, at)) for at in places) < 8 * len(places) and CLOCK.monotonic_s() < until_s:
            found += reader.read(1, 0.05)
            most = max(most, sum(batches.left_bytes for link in reader.links.values() for _, batches in link.waiting))
    assert {at: len(bodies(found, at)) for at in places} == dict.fromkeys(places, 8)
    assert LEFT_BYTES <= most <= LEFT_BYTES + 2 * size
