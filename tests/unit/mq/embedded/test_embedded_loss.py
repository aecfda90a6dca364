"""A log that lacks what was acknowledged is refused with figures, or goes on where that was accepted."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from rocksdict import Rdict

from delayline.clock import ManualClock
from mq.embedded import EmbeddedQueue, log, tuning
from mq.embedded.examine import Loss, Missing
from mq.embedded.mark import read_mark
from mq.embedded.salvage import salvage
from mq.embedded.stored import KEY, NUMBER, NUMBERS_KEY, TABLES, table
from mq.embedded.stored import TOPICS as TOPIC_ROWS
from mq.embedded.tables import RECOVERED
from mq.embedded.topics_copy import read_copy
from mq.errors import QueueDamaged
from tests.contract.drive import append
from tests.tiers import THOROUGH
from tests.unit.mq.conftest import OpenQueue

pytestmark = pytest.mark.slow

SEED = 20_261_124
CUTS = 24
ACCEPTED_EVERY = 1 if THOROUGH else 4
"""Of the cuts, all of which must be refused, how many are accepted then: that takes twice as long."""

RECORDS = 120
TOPICS = ("mail", "orders")

Bodies = dict[tuple[str, str], list[tuple[int, bytes]]]


class Image(NamedTuple):
    """A folder as a kill left it, or a clean stop; everything in `held` was acknowledged."""

    folder: Path
    held: Bodies

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.folder, to, dirs_exist_ok=True)
        return to / "queue"


def read_all(queue: EmbeddedQueue) -> Bodies:
    found: Bodies = {}
    for topic in TOPICS:
        if topic not in queue.topics():
            continue
        for partition in queue.topic(topic).partitions:
            start, end = queue.offsets(topic, partition)
            records = []
            while start < end:
                page = queue.read(topic, partition, start, 50, 1 << 20)
                records += [(record.offset, record.body) for record in page]
                start = page[-1].offset + 1
            found[topic, partition] = records
    return found


def opened(folder: Path, accept_loss: bool = False) -> "closing[EmbeddedQueue]":
    return closing(
        EmbeddedQueue.open(
            folder,
            namespace="delayline",
            clock=ManualClock(),
            disk_free_min_bytes=0,
            partitions=2,
            accept_loss=accept_loss,
        )
    )


@pytest.fixture(scope="module")
def small_tables() -> Iterator[None]:
    """Tables, and several write-ahead logs at a time, after a few records already."""
    whole = tuning.options

    def options(**how: bool) -> object:
        chosen = whole(**how)
        chosen.set_write_buffer_size(128 << 10)
        chosen.set_min_write_buffer_number_to_merge(3)
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "options", options)
        yield


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, small_tables: None) -> dict[str, Image]:
    folder = tmp_path_factory.mktemp("image")
    made = {}
    with opened(folder / "live" / "queue") as queue:
        for topic in TOPICS:
            queue.ensure_topic(topic)
        draw = random.Random(SEED)
        for number in range(RECORDS):
            append(queue, draw.choice(TOPICS), draw.choice("01"), b"%d " % number + draw.randbytes(8000))
            if number == RECORDS // 2:
                shutil.copytree(folder / "live", folder / "earlier")
        held = read_all(queue)
        shutil.copytree(folder / "live", folder / "killed")
        made["killed"] = Image(folder / "killed", held)
    shutil.copytree(folder / "live", folder / "closed")
    made["closed"] = Image(folder / "closed", held)
    made["earlier"] = Image(folder / "earlier", {})
    return made


def test_the_image_has_tables_and_several_write_ahead_logs(images: dict[str, Image]) -> None:
    names = [file.suffix for file in (images["killed"].folder / "queue" / "log").iterdir() if file.stat().st_size]
    assert (names.count(".sst") >= 1, names.count(".log") >= 2) == (True, True)


@pytest.mark.parametrize("left", ["killed", "closed"])
def test_a_whole_folder_is_opened_with_everything(images: dict[str, Image], left: str, tmp_path: Path) -> None:
    with opened(images[left].copy(tmp_path)) as queue:
        assert read_all(queue) == images[left].held


# --- every kind of damage: either everything is there, or the queue is not opened


def judge(folder: Path, image: Image, *, accepted: bool = True) -> bool:
    """Whether it was refused; and then, where that is `accepted`, it can go on, with what is left and under other
    offsets."""
    try:
        with opened(folder) as queue:
            assert read_all(queue) == image.held, "records are missing, and nothing reported it"
        return False
    except QueueDamaged as error:
        figures = str(error)
    assert "acknowledged" in figures
    if accepted:
        accept(folder, image)
    return True


def accept(folder: Path, image: Image) -> None:
    with opened(folder, accept_loss=True) as queue:
        left = read_all(queue)
        for place, records in left.items():
            assert set(records) <= set(image.held[place]), "what is left is what was there"
        for topic, partition in left:
            position = append(queue, topic, partition, b"new")[0]
            assert position.offset > max((offset for offset, _ in image.held[topic, partition]), default=-1)
    with opened(folder) as queue:
        assert read_all(queue).keys() == left.keys()


def logs(folder: Path) -> list[Path]:
    return sorted(file for file in (folder / "log").glob("*.log") if file.stat().st_size)


def cuts(size: int) -> list[int]:
    """Lengths to cut to: the ends, and some in between."""
    draw = random.Random(SEED)
    return sorted({0, 1, size - 1, *(draw.randrange(size) for _ in range(CUTS))})


def test_a_list_of_files_cut_to_what_it_was_at_the_start_is_refused(images: dict[str, Image], tmp_path: Path) -> None:
    """Before it knew of any write-ahead log: nothing else is short then, and the tables would be deleted."""
    image = images["killed"]
    for length in range(116, 140, 5):
        folder = image.copy(tmp_path / f"{length}")
        os.truncate(next((folder / "log").glob("MANIFEST-*")), length)
        assert judge(folder, image), f"cut to {length}"


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, -1], ids=["oldest", "newest"])
def test_a_write_ahead_log_cut_anywhere_is_refused(images: dict[str, Image], which: int, tmp_path: Path) -> None:
    image = images["killed"]
    size = logs(image.folder / "queue")[which].stat().st_size
    for number, length in enumerate(cuts(size)):
        folder = image.copy(tmp_path / f"{length}")
        os.truncate(logs(folder)[which], length)
        assert judge(folder, image, accepted=number % ACCEPTED_EVERY == 0), f"cut to {length} of {size}"
        shutil.rmtree(tmp_path / f"{length}")


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_deleted_write_ahead_log_is_refused(images: dict[str, Image], which: int, tmp_path: Path) -> None:
    folder = images["killed"].copy(tmp_path)
    logs(folder)[which].unlink()
    assert judge(folder, images["killed"])


@pytest.mark.slow
@pytest.mark.parametrize("left", ["killed", "closed"])
def test_a_list_of_files_cut_anywhere_is_refused_or_was_not_needed(
    images: dict[str, Image], left: str, tmp_path: Path
) -> None:
    """After a kill its last entries may speak of tables whose records are still in a write-ahead log."""
    image = images[left]
    size = next((image.folder / "queue" / "log").glob("MANIFEST-*")).stat().st_size
    for number, length in enumerate(cuts(size)):
        folder = image.copy(tmp_path / f"{length}")
        os.truncate(next((folder / "log").glob("MANIFEST-*")), length)
        refused = judge(folder, image, accepted=number % ACCEPTED_EVERY == 0)
        assert refused or left == "killed", f"cut to {length} of {size}"
        shutil.rmtree(tmp_path / f"{length}")


def unlink(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for file in (folder / "log").glob(name):
            file.unlink()

    return damage


def empty_log(folder: Path) -> None:
    for file in (folder / "log").iterdir():
        file.write_bytes(b"")


def another_log(folder: Path) -> None:
    with opened(folder.with_name("another")) as queue:
        queue.ensure_topic("orders")
        append(queue, "orders", "0", *[b"x"] * 1000)
    shutil.rmtree(folder / "log")
    (folder.with_name("another") / "log").rename(folder / "log")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "CURRENT deleted": unlink("CURRENT"),
    "list of files deleted": unlink("MANIFEST-*"),
    "CURRENT and list of files deleted": lambda folder: (unlink("CURRENT")(folder), unlink("MANIFEST-*")(folder)),
    "all tables deleted": unlink("*.sst"),
    "everything emptied": empty_log,
    "log removed": lambda folder: shutil.rmtree(folder / "log"),
    "another log in its place": another_log,
    "folder removed": shutil.rmtree,
    "mark removed": lambda folder: folder.with_name("queue.mark").unlink(),
    "mark emptied": lambda folder: folder.with_name("queue.mark").write_bytes(b""),
}


@pytest.mark.parametrize("left", ["killed", "closed"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_folder_is_refused(
    images: dict[str, Image], left: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = images[left].copy(tmp_path)
    damage(folder)
    with pytest.raises(QueueDamaged, match="--accept-loss"), opened(folder):
        pass


@pytest.mark.parametrize("damage", ["CURRENT deleted", "list of files deleted", "log removed", "mark removed"])
def test_a_damaged_folder_goes_on_where_that_is_accepted(
    images: dict[str, Image], damage: str, tmp_path: Path
) -> None:
    folder = images["killed"].copy(tmp_path)
    DAMAGES[damage](folder)
    accept(folder, images["killed"])


def test_an_older_copy_of_the_folder_is_refused_with_figures(images: dict[str, Image], tmp_path: Path) -> None:
    folder = images["closed"].copy(tmp_path)
    shutil.rmtree(folder)
    shutil.copytree(images["earlier"].folder / "queue", folder)
    assert judge(folder, images["closed"])


def test_the_figures_name_each_partition(images: dict[str, Image], tmp_path: Path) -> None:
    image = images["closed"]
    folder = image.copy(tmp_path)
    shutil.rmtree(folder)
    shutil.copytree(images["earlier"].folder / "queue", folder)
    with pytest.raises(QueueDamaged) as refused, opened(folder):
        pass
    for (topic, partition), records in image.held.items():
        assert f"{topic}/{partition} ends at " in str(refused.value)
        assert f"acknowledged up to {len(records)} " in str(refused.value)


def test_refusing_changes_nothing(images: dict[str, Image], tmp_path: Path) -> None:
    """A list of files that was cut, and put back: had RocksDB opened the log, the tables would be gone."""
    image = images["closed"]
    folder = image.copy(tmp_path)
    manifest = next((folder / "log").glob("MANIFEST-*"))
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(QueueDamaged), opened(folder):
        pass
    manifest.write_bytes(whole)
    with opened(folder) as queue:
        assert read_all(queue) == image.held


# --- the mark itself


def test_a_mark_behind_its_log_is_as_it_may_be(open_queue: OpenQueue, folder: Path, tmp_path: Path) -> None:
    """A power cut may take back the last second of it."""
    queue = open_queue()
    queue.ensure_topic("orders")
    shutil.copy2(tmp_path / "queue.mark", tmp_path / "earlier")
    append(queue, "orders", "0", b"a", b"b")
    queue.close()
    (tmp_path / "earlier").rename(tmp_path / "queue.mark")
    assert open_queue().offsets("orders", "0") == (0, 2)


def test_half_a_head_is_passed_over_for_the_other_one(open_queue: OpenQueue, tmp_path: Path) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    append(queue, "orders", "0", b"a")
    before = read_mark(tmp_path / "queue.mark")
    data = bytearray((tmp_path / "queue.mark").read_bytes())
    newest = max((0, 4096), key=lambda at: data[at + 8 : at + 16])
    data[newest + 20] ^= 1
    (tmp_path / "torn.mark").write_bytes(data)
    after = read_mark(tmp_path / "torn.mark")
    assert before is not None
    assert after is not None
    assert (after.sequence, after.ends) == (before.sequence - 1, before.ends)


def test_a_folder_of_an_earlier_version_gets_a_mark(open_queue: OpenQueue, folder: Path, tmp_path: Path) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    queue.close()
    (tmp_path / "queue.mark").unlink()
    (folder / "queue.json").write_text('{"embedded_queue":1,"namespace":"delayline"}')
    open_queue().close()
    (tmp_path / "queue.mark").unlink()
    with pytest.raises(QueueDamaged, match=r"mark .* is gone"):
        open_queue()


def test_a_group_is_marked_before_it_is_acknowledged(open_queue: OpenQueue, tmp_path: Path) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    for number in range(1, 50):
        append(queue, "orders", "0", b"a")
        acknowledged = read_mark(tmp_path / "queue.mark")
        assert acknowledged is not None
        assert number in acknowledged.ends.values()


@pytest.mark.parametrize("damage", ["CURRENT deleted", "list of files deleted"])
def test_without_its_list_of_files_everything_can_still_be_recovered(
    images: dict[str, Image], damage: str, tmp_path: Path
) -> None:
    folder = images["closed"].copy(tmp_path)
    DAMAGES[damage](folder)
    with opened(folder, accept_loss=True) as queue:
        assert read_all(queue) == images["closed"].held


def test_a_topic_whose_row_is_lost_leaves_its_number_and_records_to_no_other(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as queue:
        queue.ensure_topic("old")
        for _ in range(3):
            append(queue, "old", "0", b"secret")
    with closing(Rdict(str(folder / "log"), tuning.options())) as db:
        for number, _ in list(table(db.iter(), TOPIC_ROWS)):
            del db[KEY.pack(TABLES, TOPIC_ROWS, number)]

    acknowledged = read_mark(tmp_path / "queue.mark")
    assert acknowledged is not None

    accepted = salvage(folder / "log", Loss("a table is gone", acknowledged=acknowledged), 1)

    assert accepted.records == 0
    kept = f"{RECOVERED}{next(iter(acknowledged.ends))[0]}"
    with opened(folder, accept_loss=True) as queue:  # it is another log to the mark
        queue.ensure_topic("new")
        append(queue, "new", "0", b"mine")
        assert [record.body for record in queue.read("new", "0", 0, 10, 1 << 20)] == [b"mine"]
        assert [record.body for record in queue.read(kept, "0", 0, 10, 1 << 20)] == [b"secret"] * 3


def test_a_topic_whose_row_is_lost_keeps_its_name_by_the_copy(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as queue:
        queue.ensure_topic("old")
        topic_id = queue.topic("old").topic_id
        append(queue, "old", "0", b"a", b"b")
    with closing(Rdict(str(folder / "log"), tuning.options())) as db:
        for number, _ in list(table(db.iter(), TOPIC_ROWS)):
            del db[KEY.pack(TABLES, TOPIC_ROWS, number)]
    with pytest.raises(QueueDamaged, match=r"old/0 ends at 0, acknowledged up to 2 .*That gives up 0 records\."):
        opened(folder).__enter__()

    with opened(folder, accept_loss=True) as queue:
        assert queue.topic("old").topic_id == topic_id
        assert [record.body for record in queue.read("old", "0", 0, 10, 1 << 20)] == [b"a", b"b"]


def test_the_copy_follows_what_is_made_and_deleted(open_queue: OpenQueue, folder: Path) -> None:
    queue = open_queue()
    queue.ensure_topic("a")
    queue.ensure_topic("b")
    before = read_copy(folder / "topics.json")
    queue.delete_topic("a")
    after = read_copy(folder / "topics.json")
    assert before is not None
    assert after is not None
    assert len(before.rows) == len(after.rows) + 1
    queue.close()
    (folder / "topics.json").write_text("{}")
    open_queue()
    assert read_copy(folder / "topics.json") == after


def test_numbers_that_only_the_mark_remembers_are_used_up_as_well(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as queue:
        queue.ensure_topic("old")
        append(queue, "old", "1", b"secret")
    acknowledged = read_mark(tmp_path / "queue.mark")
    assert acknowledged is not None
    shutil.rmtree(folder / "log")

    assert salvage(folder / "log", Loss("the log is gone", acknowledged=acknowledged), 1).records == 1

    with closing(Rdict(str(folder / "log"), tuning.options())) as db:
        used = db[NUMBERS_KEY]
        assert used is not None
        assert NUMBER.unpack(used)[0] == max(topic for topic, _ in acknowledged.ends)


def test_figures_name_the_partitions_that_lack_most_and_none_that_lack_nothing() -> None:
    lacking = [Missing("orders", number, acknowledged=10, held=10 - number) for number in range(4)]
    text = str(Loss("cut", tuple(lacking)))
    assert "orders/0" not in text
    assert text.index("orders/3") < text.index("orders/1")
