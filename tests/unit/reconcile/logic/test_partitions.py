"""Numbers that a ledger gives to partitions."""

import pytest

from delayline.buffer.outcome import spread
from delayline.records.message import Shard
from reconcile.errors import CannotJudge
from reconcile.logic.ledger import POSITION_BITS
from reconcile.logic.partitions import BROKERS_MAX, NUMBERS, QUEUES_MAX, Partitions

TWO = Partitions(("broker-b", "broker-a"))


def test_a_queue_is_numbered_by_its_broker_and_its_id_and_back() -> None:
    for name, number in {"broker-b:0": 0, "broker-b:1023": 1023, "broker-a:0": 1024, "broker-a:7": 1031}.items():
        assert (TWO.number(name), TWO.name(number), TWO.outward(number)) == (number, name, name)


def test_a_partition_with_a_number_is_its_number() -> None:
    assert (NUMBERS.number("12"), NUMBERS.name(12), NUMBERS.outward(12)) == (12, "12", 12)


@pytest.mark.parametrize(
    ("partitions", "name"),
    [
        *(
            (TWO, name)
            for name in ("broker-c:0", "broker-a:1024", "broker-a:00", "broker-a", "0", "broker-a:0\n", "")
        ),
        *((NUMBERS, name) for name in ("broker-a:0", "01", "-1", "1234567890", "1\n", "")),
    ],
)
def test_what_is_no_partition_has_no_number(partitions: Partitions, name: str) -> None:
    assert partitions.number(name) is None


def test_a_broker_that_comes_later_takes_no_number_of_another() -> None:
    grown = TWO.with_brokers(["broker-a", "aaa", "broker-b"])
    assert grown.brokers == ("broker-b", "broker-a", "aaa")
    assert grown.number("broker-a:3") == TWO.number("broker-a:3")


def test_the_largest_number_fits_into_a_position_and_one_broker_more_is_refused() -> None:
    full = NUMBERS.with_brokers(f"b{number}" for number in range(BROKERS_MAX))
    largest = full.number(f"{full.brokers[-1]}:{QUEUES_MAX - 1}")
    assert largest is not None
    assert (largest << POSITION_BITS).bit_length() == 63
    with pytest.raises(CannotJudge, match="would be one more: zzz"):
        full.with_brokers(["zzz"])


def test_the_rows_of_a_shard_are_in_the_audit_on_its_own_broker() -> None:
    audit = [0, 1, 1024, 1025, 1026, 1027]
    assert (TWO.beside(1, audit), TWO.beside(1031, audit), NUMBERS.beside(1, audit)) == (2, 4, 6)
    assert TWO.audit_partition("orders", 1031, 4) == 1024 + spread(Shard("orders", "broker-a:7"), 4)
    assert NUMBERS.audit_partition("orders", 7, 6) == spread(Shard("orders", "7"), 6)
