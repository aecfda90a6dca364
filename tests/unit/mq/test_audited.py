"""What the reconcile job leaves behind for workers, read again."""

import pytest

from delayline.errors import UnknownFormat
from delayline.records.message import Shard
from mq.audited import Positions, decode_metadata, decode_positions
from mq.contract import Audited


@pytest.mark.parametrize("behind", ["", "\x00", "}\x00garbage"])
def test_metadata_are_read_whatever_the_library_has_read_behind_them(behind: str) -> None:
    assert decode_metadata(7, '{"v":1,"at":1767225600000}' + behind) == Audited(7, 1767225600000)


@pytest.mark.parametrize("text", ["", "{", "}", '{"v":2,"at":1}', '{"v":1}', '{"v":1,"at":"now"}', "b85text."])
def test_metadata_that_are_not_ours_are_refused(text: str) -> None:
    with pytest.raises(UnknownFormat):
        decode_metadata(7, text)


def test_the_file_has_the_positions_of_every_shard_at_once() -> None:
    found = decode_positions(b'{"v":1,"at":5,"positions":{"orders":{"0":7,"1":0},"mail":{"3":1}}}\n')
    assert found.by_shard == {
        Shard("orders", "0"): Audited(7, 5),
        Shard("orders", "1"): Audited(0, 5),
        Shard("mail", "3"): Audited(1, 5),
    }
    assert found.of(Shard("mail", "3")) == Audited(1, 5)


def test_a_shard_that_the_file_does_not_name_is_new_since_the_last_run() -> None:
    assert decode_positions(b'{"v":1,"at":5,"positions":{}}').of(Shard("mail", "3")) == Audited(0, 5)
    assert Positions().of(Shard("mail", "3")) is None


@pytest.mark.parametrize("data", [b"", b"[]", b'{"v":1,"at":5}', b'{"v":1,"at":5,"positions":{"orders":[]}}'])
def test_a_file_that_is_not_ours_is_refused(data: bytes) -> None:
    with pytest.raises(UnknownFormat):
        decode_positions(data)
