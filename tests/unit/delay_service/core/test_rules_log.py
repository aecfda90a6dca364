"""Which rules were in force where."""

import pytest

from delay_service.core.rules_log import RulesLog
from delayline.errors import UnknownFormat
from delayline.schedule.rules import Rules

FIRST, SECOND, THIRD = Rules(), Rules(number=1, levels_ms=(5,)), Rules(number=2, levels_ms=(7,))


def changed() -> RulesLog:
    log = RulesLog(10, FIRST)
    log.change(20, SECOND)
    log.change(30, THIRD)
    return log


@pytest.mark.parametrize(("offset", "rules"), [(10, FIRST), (20, FIRST), (21, SECOND), (30, SECOND), (31, THIRD)])
def test_a_change_is_in_force_behind_its_own_record(offset: int, rules: Rules) -> None:
    assert changed().at(offset) == rules


def test_what_is_forgotten_below_an_offset_does_not_change_what_holds_there() -> None:
    log = changed()
    log.forget_below(25)
    assert (log.at(25), log.at(40)) == (SECOND, THIRD)


def test_a_checkpoint_carries_the_changes_up_to_itself_and_not_those_behind_it() -> None:
    restored = RulesLog.decode(changed().encode(21))
    assert (restored.at(15), restored.latest) == (FIRST, SECOND)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[[1]]", b'[["x",{}]]'])
def test_bytes_that_are_no_rules_log_are_refused(data: bytes) -> None:
    with pytest.raises(UnknownFormat):
        RulesLog.decode(data)
