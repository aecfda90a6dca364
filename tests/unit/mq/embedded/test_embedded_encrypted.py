"""An encrypted queue: what its files show, which keys open it, and what is noticed of another hand."""

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict

from delayline.clock import ManualClock
from delayline.encryption.data_key import DataKey
from mq.embedded import EmbeddedQueue, encrypting
from mq.embedded.encrypting import encrypt_queue
from mq.embedded.scrub import scrub
from mq.embedded.snapshot import Snapshot
from mq.embedded.stored import KEY
from mq.embedded.tuning import options
from mq.errors import QueueDamaged, QueueFormat, QueueUnavailable
from tests.acceptance.seen import seen
from tests.contract.conftest import DATA_KEY
from tests.contract.drive import append, bodies

OTHER = DataKey(b"other id", DATA_KEY.secret)
MARKER = random.Random(7).randbytes(48)
"""Random, because RocksDB compresses."""
BODIES = [MARKER + b"%d" % number for number in range(5)]


def opened(folder: Path, data_key: DataKey | None = DATA_KEY, accept_loss: bool = False) -> EmbeddedQueue:
    return EmbeddedQueue.open(
        folder,
        namespace="delayline",
        clock=ManualClock(),
        disk_free_min_bytes=0,
        data_key=data_key,
        partitions=2,
        accept_loss=accept_loss,
    )


def filled(folder: Path, data_key: DataKey | None = DATA_KEY) -> Path:
    with closing(opened(folder, data_key)) as queue:
        queue.ensure_topic("orders")
        for body in BODIES:
            append(queue, "orders", "0", body)
        append(queue, "orders", "1", b"a", b"b", b"c")
    return folder


def read_all(
    folder: Path, data_key: DataKey | None = DATA_KEY, accept_loss: bool = False
) -> tuple[list[bytes], list[bytes]]:
    with closing(opened(folder, data_key, accept_loss)) as queue:
        return bodies(queue, "orders", "0"), bodies(queue, "orders", "1")


WHOLE = (BODIES, [b"a", b"b", b"c"])


def shows(folder: Path) -> bool:
    return any(MARKER in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def number_of(folder: Path, topic: str = "orders") -> int:
    with Snapshot(folder, "delayline", DATA_KEY) as found:
        return found.topics[topic].number


def test_no_file_of_it_shows_a_record_neither_open_nor_closed_nor_compacted(tmp_path: Path) -> None:
    for name, data_key, shown in (("plain", None, True), ("encrypted", DATA_KEY, False)):
        folder = tmp_path / name
        with closing(opened(folder, data_key)) as queue:
            queue.ensure_topic("orders")
            append(queue, "orders", "0", *BODIES)
            assert shows(folder) == shown
        assert shows(folder) == shown
        db = Rdict(str(folder / "log"), options())
        db.compact_range(None, None)
        db.close()
        assert shows(folder) == shown
        with closing(opened(folder, data_key)) as queue:
            assert bodies(queue, "orders") == BODIES


def test_everything_is_there_for_later_openings_snapshots_and_scrubs(tmp_path: Path) -> None:
    assert read_all(filled(tmp_path / "queue")) == WHOLE
    report = scrub(tmp_path / "queue", "delayline", data_key=DATA_KEY)
    assert report.whole
    assert sum(one.records for one in report.partitions if one.topic == "orders") == 8
    with closing(opened(tmp_path / "queue")), Snapshot(tmp_path / "queue", "delayline", DATA_KEY) as beside:
        assert [record.body for chunk in beside.read("orders", 0, 0, 5) for record in chunk] == BODIES


@pytest.mark.parametrize("written", [None, DATA_KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("key", [None, DATA_KEY, OTHER], ids=["no key", "the key", "another key"])
def test_with_another_key_everything_refuses_and_changes_nothing(
    tmp_path: Path, written: DataKey | None, key: DataKey | None
) -> None:
    folder = filled(tmp_path / "queue", written)
    if written == key:
        assert read_all(folder, key) == WHOLE
        return
    before = seen(tmp_path)
    for accept_loss in (False, True):
        with pytest.raises(QueueFormat, match="encrypted"):
            opened(folder, key, accept_loss=accept_loss)
    with pytest.raises(QueueFormat, match="encrypted"):
        scrub(folder, "delayline", data_key=key)
    with pytest.raises(QueueFormat, match="encrypted"):
        Snapshot(folder, "delayline", key)
    assert seen(tmp_path) == before


def test_without_its_settings_an_encrypted_queue_is_not_given_up_for_want_of_a_key(tmp_path: Path) -> None:
    folder = filled(tmp_path / "queue")
    (folder / "queue.json").unlink()
    before = seen(tmp_path)
    for accept_loss in (False, True):
        with pytest.raises(QueueFormat, match=r"queue\.json is gone, and .* is encrypted"):
            opened(folder, None, accept_loss=accept_loss)
    assert seen(tmp_path) == before
    assert read_all(folder, accept_loss=True) == WHOLE


# --- another hand


def _swap(db: Any, topic: int) -> None:
    one, other = KEY.pack(topic, 0, 1), KEY.pack(topic, 0, 2)
    db[one], db[other] = db[other], db[one]


def _from_another_partition(db: Any, topic: int) -> None:
    head = db[KEY.pack(topic, 0, 1)][:16]
    db[KEY.pack(topic, 0, 1)] = head + db[KEY.pack(topic, 1, 0)][16:]


def _flip(db: Any, topic: int) -> None:
    entry = bytearray(db[KEY.pack(topic, 0, 1)])
    entry[-20] ^= 1
    db[KEY.pack(topic, 0, 1)] = bytes(entry)


def _another_time(db: Any, topic: int) -> None:
    entry = bytearray(db[KEY.pack(topic, 0, 1)])
    entry[15] ^= 1
    db[KEY.pack(topic, 0, 1)] = bytes(entry)


def _plain(db: Any, topic: int) -> None:
    entry = db[KEY.pack(topic, 0, 1)]
    db[KEY.pack(topic, 0, 1)] = b"\x01" + entry[1:16] + b"\x00\x00\x00\x05hello"


@pytest.mark.parametrize("change", [_swap, _from_another_partition, _flip, _another_time, _plain])
def test_an_entry_of_another_hand_is_damage(tmp_path: Path, change: Callable[[Any, int], None]) -> None:
    folder = filled(tmp_path / "queue")
    topic = number_of(folder)
    db = Rdict(str(folder / "log"), options())
    change(db, topic)
    db.close()
    report = scrub(folder, "delayline", data_key=DATA_KEY)
    assert [(one.topic, one.partition) for one in report.partitions if one.damage] == [("orders", 0)]
    with closing(opened(folder)) as queue:
        assert [record.body for record in queue.read("orders", "0", 0, 1)] == BODIES[:1]
        with pytest.raises(QueueUnavailable, match=r"damaged.*orders, partition 0, from offset 1"):
            queue.read("orders", "0", 1, 1)
        assert "damaged" in str(queue.trouble())
        assert bodies(queue, "orders", "1") == [b"a", b"b", b"c"]


def test_a_lost_list_of_files_is_salvaged_without_reading_a_record(tmp_path: Path) -> None:
    folder = filled(tmp_path / "queue")
    (folder / "log" / "CURRENT").unlink()
    with pytest.raises(QueueDamaged, match="gives up 0 records"):
        opened(folder)
    assert read_all(folder, accept_loss=True) == WHOLE
    assert not shows(tmp_path)


# --- a queue that was plain


def encrypt(folder: Path, known: DataKey | None = None, free: int = 1 << 40) -> int | None:
    second = folder.with_name("none")
    return encrypt_queue(
        folder, "delayline", known, lambda: DATA_KEY, second, lambda ends, vouched: None, lambda path: free
    )


def test_a_plain_queue_is_encrypted_as_a_whole(tmp_path: Path) -> None:
    folder = filled(tmp_path / "queue", None)
    assert shows(folder)
    assert encrypt(folder) == 8
    assert not shows(tmp_path)
    assert read_all(folder) == WHOLE
    assert encrypt(folder, DATA_KEY, free=0) is None


def test_broken_off_it_is_refused_until_the_same_command_has_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(tmp_path / "queue", None)
    monkeypatch.setattr(encrypting, "BATCH_BYTES", 100)
    with monkeypatch.context() as broken:
        broken.setattr(encrypting, "_give_up_old_tables", _break_off)
        with pytest.raises(InterruptedError):
            encrypt(folder)
    for key in (None, DATA_KEY):
        with pytest.raises(QueueFormat, match="encrypted in part"):
            opened(folder, key)
    with pytest.raises(QueueFormat, match="put back"):
        encrypt(folder, OTHER)
    assert encrypt(folder, DATA_KEY) == 0
    assert not shows(tmp_path)
    assert read_all(folder) == WHOLE


def _break_off(db: Rdict) -> None:
    raise InterruptedError


def test_a_queue_that_is_not_whole_or_has_no_room_is_left_as_it_is(tmp_path: Path) -> None:
    folder = filled(tmp_path / "queue", None)
    before = seen(tmp_path)
    with pytest.raises(QueueUnavailable, match="MiB"):
        encrypt(folder, free=0)
    assert seen(tmp_path) == before
    shutil.copy(folder.with_name("queue.mark"), tmp_path / "kept")
    for log in (folder / "log").glob("*.log"):
        log.unlink()
    (folder / "log" / "CURRENT").unlink()
    with pytest.raises(QueueDamaged, match="Nothing was changed"):
        encrypt(folder)
    with pytest.raises(QueueUnavailable, match="there is no queue"):
        encrypt(tmp_path / "none" / "queue")


def test_numbers_of_deleted_topics_are_kept(tmp_path: Path) -> None:
    folder = filled(tmp_path / "queue", None)
    with Snapshot(folder, "delayline") as found:
        number = found.topics["orders"].number
    with closing(opened(folder, None)) as queue:
        queue.delete_topic("orders")
    encrypt(folder)
    with closing(opened(folder)) as queue:
        queue.ensure_topic("mails")
    with Snapshot(folder, "delayline", DATA_KEY) as found:
        assert found.topics["mails"].number > number
