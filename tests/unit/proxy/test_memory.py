"""What is done with memory that is free again."""

import os
import platform

import pytest

from proxy.limits import Budget
from proxy.memory import KEPT_BYTES, FreedMemory, give_back, keep_freed_memory
from tests.fuzz.campaign import resident_bytes

on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
MIB = 1 << 20


@on_glibc
def test_glibc_takes_the_settings() -> None:
    assert keep_freed_memory()


@on_glibc
def test_what_lies_free_between_what_is_held_is_given_back() -> None:
    keep_freed_memory()
    pieces, held = [], []
    for _ in range(30):
        pieces.append(bytearray(4 * MIB))
        held.append(bytearray(MIB))
    pieces.clear()
    before = resident_bytes(os.getpid())
    give_back()
    assert resident_bytes(os.getpid()) < before - 60 * MIB


def test_memory_is_given_back_once_after_a_burst() -> None:
    budget = Budget(1 << 30)
    memory = FreedMemory(budget)
    small, large = KEPT_BYTES // 2, KEPT_BYTES + 1
    found = []
    for size in (small, large, large, small, small, large, 0):
        budget.take(size, lambda: None).release()
        found.append(memory.is_due())
    assert found == [False, False, False, True, False, False, True]


def test_what_is_still_held_is_a_burst() -> None:
    budget = Budget(1 << 30)
    memory = FreedMemory(budget)
    grant = budget.take(KEPT_BYTES + 1, lambda: None)
    assert [memory.is_due(), memory.is_due()] == [False, False]
    grant.release()
    assert [memory.is_due(), memory.is_due()] == [False, True]
