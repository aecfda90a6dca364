"""Who may open the embedded queue's folder, and the errors of the others."""

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict

from mq.contract import Append
from mq.embedded.folder import Folder
from mq.embedded.stored import KEY
from mq.embedded.tuning import options
from mq.errors import QueueDamaged, QueueFormat, QueueLocked, QueueUnavailable
from tests.unit.mq.conftest import OpenQueue


def test_a_missing_folder_is_made(open_queue: OpenQueue, tmp_path: Path) -> None:
    open_queue(tmp_path / "a" / "b")
    assert json.loads((tmp_path / "a" / "b" / "queue.json").read_text()) == {
        "embedded_queue": 1,
        "namespace": "delayline",
        "marked": True,
    }


def test_a_folder_in_use_is_locked(open_queue: OpenQueue, folder: Path) -> None:
    open_queue()
    with pytest.raises(QueueLocked, match=str(folder)):
        open_queue()


def test_a_closed_folder_can_be_opened_again(open_queue: OpenQueue) -> None:
    open_queue().close()
    open_queue()


def test_a_folder_that_cannot_be_made_is_reported_as_unusable(open_queue: OpenQueue, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QueueUnavailable, match=r"cannot be used: Not a directory"):
        open_queue(tmp_path / "file" / "queue")


def test_a_folder_with_something_else_in_it_is_left_alone(open_queue: OpenQueue, folder: Path) -> None:
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(QueueFormat, match="holds no embedded queue"):
        open_queue()


def test_an_opening_that_was_cut_short_is_taken_up(open_queue: OpenQueue, folder: Path) -> None:
    folder.mkdir()
    (folder / "queue.json.new").write_text('{"embedd')
    open_queue()


@pytest.mark.parametrize(
    ("marker", "error"),
    [
        ('{"embedded_queue":2,"namespace":"delayline","more":1}', "has format 2, this program knows 1"),
        ('{"embedded_queue":1,"namespace":"other"}', "belongs to the namespace 'other'"),
    ],
)
def test_a_folder_of_another_format_is_refused(open_queue: OpenQueue, folder: Path, marker: str, error: str) -> None:
    open_queue().close()
    (folder / "queue.json").write_text(marker)
    with pytest.raises(QueueFormat, match=error):
        open_queue()


@pytest.mark.parametrize("settings", ["", "[]", '{"embedded_queue":', None])
def test_settings_that_are_lost_or_broken_are_damage_and_made_anew_where_that_is_accepted(
    open_queue: OpenQueue, folder: Path, settings: str | None
) -> None:
    open_queue().close()
    whole = (folder / "queue.json").read_text()
    (folder / "queue.json").unlink()
    if settings is not None:
        (folder / "queue.json").write_text(settings)
    with pytest.raises(QueueDamaged, match=r"queue\.json .*--accept-loss"):
        open_queue()
    open_queue(accept_loss=True).close()
    assert (folder / "queue.json").read_text() == whole


@pytest.mark.parametrize(("topic", "partition", "number"), [(0, 1, 1), (1, 0, 0)])
def test_a_topic_or_entry_of_another_version_is_refused(
    open_queue: OpenQueue, folder: Path, topic: int, partition: int, number: int
) -> None:
    queue = open_queue()
    queue.append([Append("delayline.audit", "0", b"a")]).result(10)
    queue.close()
    log: Any = Rdict(str(folder / "log"), options())
    key = KEY.pack(topic, partition, number)
    log[key] = b"\x09" + log[key][1:]
    log.close()
    with pytest.raises(QueueFormat, match="version 9"):
        open_queue()


def test_a_log_that_rocksdb_cannot_open_is_reported_as_unusable(open_queue: OpenQueue, folder: Path) -> None:
    open_queue().close()
    (folder / "log" / "CURRENT").write_text("nonsense")
    with pytest.raises(QueueUnavailable, match="cannot be opened"):
        open_queue()


def test_an_opening_that_failed_leaves_nothing_locked(open_queue: OpenQueue, folder: Path) -> None:
    open_queue().close()
    marker = (folder / "queue.json").read_text()
    (folder / "queue.json").write_text("{}")
    with pytest.raises(QueueDamaged):
        open_queue()
    (folder / "queue.json").write_text(marker)
    open_queue()


def test_the_folder_may_be_moved_with_its_mark(open_queue: OpenQueue, folder: Path, tmp_path: Path) -> None:
    queue = open_queue()
    topic_id = queue.ensure_topic("orders").topic_id
    queue.close()
    shutil.move(folder, tmp_path / "elsewhere")
    shutil.move(tmp_path / "queue.mark", tmp_path / "elsewhere.mark")
    assert open_queue(tmp_path / "elsewhere").topic("orders").topic_id == topic_id


def test_whoever_is_refused_hears_which_process_has_the_queue_and_since_when(tmp_path: Path) -> None:
    holder = Folder(tmp_path / "queue", "delayline")
    holder.make()
    who = f"{os.getpid()} on {socket.gethostname()} since 20"
    with pytest.raises(QueueLocked, match=re.escape(f"is in use by another process: {who}")):
        Folder(tmp_path / "queue", "delayline")
    holder.close()
    Folder(tmp_path / "queue", "delayline").close()


def test_a_process_that_has_ended_is_not_named(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    holder = Folder(tmp_path / "queue", "delayline")
    holder.make()
    (tmp_path / "queue" / "LOCK").write_text(f"{ended.pid} on {socket.gethostname()}")
    with pytest.raises(QueueLocked, match=r"is in use by another process$"):
        Folder(tmp_path / "queue", "delayline")
    holder.close()
