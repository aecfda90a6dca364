"""Reasons for which a shard cannot go on."""

import pytest

from delay_service.core import errors
from delay_service.core.errors import BufferRecreated, BufferTruncated, CursorLost, ShardStalled

KINDS = (CursorLost, BufferRecreated, BufferTruncated)


def test_each_reason_is_shown_under_a_name_of_its_own() -> None:
    reasons = [kind.reason for kind in (ShardStalled, *KINDS)]
    reasons += [errors.STORE_FULL, errors.UNKNOWN_FORMAT, errors.UNREADABLE, errors.COMMIT]
    assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stall_is_caught_as_one_whatever_its_reason(kind: type[ShardStalled]) -> None:
    with pytest.raises(ShardStalled, match="why") as caught:
        raise kind("why")
    assert caught.value.reason == kind.reason
