"""Every file of `data_dir`, with everything that can happen to one while no server runs.

A start has every message, or is refused with a sentence and changes nothing, and there is a way out.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from cli.data_dir import SECOND_MARK
from cli.storage import stored
from delayline.clock import SystemClock
from delayline.config import load_settings
from delayline.errors import DelaylineError
from mq.embedded.scrub import scrub
from mq.errors import QueueDamaged
from store.errors import StoreError
from store.rocks import verify
from tests.acceptance.asking import numbers, send
from tests.acceptance.damage import HARMS, as_any_user, start
from tests.acceptance.seen import seen
from tests.fault.server import Server
from tests.tiers import sample

STARTS, LOSS, REFUSED, NOTHING = "s", "L", "r", "-"
"""It has all messages; exit code 3, and `--accept-loss` goes on; exit code 1, and what is in the way can be removed
or made readable; there is no such case."""

TABLE = {
    # in turn:                        lost, emptied, cut, garbage, a folder, a dead link, a pipe, a socket, unreadable
    "queue": "Lr-rrrrrr",
    "queue/LOCK": "ssssrrrrr",
    "queue/queue.json": "LLLLLLLLr",
    "queue/topics.json": "ssssrsrrr",
    "queue/log": "LL-LLLLLr",
    "queue/log/CURRENT": "LLLLLLLLr",
    "queue/log/MANIFEST-*": "LLLLLLLLr",
    "queue/log/IDENTITY": "LLLLLLLLr",
    "queue/log/*.log": "LLLLLLLLr",
    "queue/log/*.sst": "LLLLLLLLr",
    "queue/log/OPTIONS-*": "ssssLLLLr",
    "queue/log/LOCK": "ssssLLLLr",
    "queue/log/LOG": "ssssLLLLr",
    "queue/log/rocksdict-config.json": "ssssLLLLr",
    "queue.mark": "LLLLLLLLr",
    "index.mark": "ssssrsrrr",
    "index": "sr-rrrrrr",
    "index/LOCK": "ssssrrrrr",
    "index/rocksdb": "ss-sssssr",
    "index/rocksdb/CURRENT": "ssssssssr",
    "index/rocksdb/MANIFEST-*": "ssssssssr",
    "index/rocksdb/IDENTITY": "ssssssssr",
    "index/rocksdb/*.sst": "ssssssssr",
    "index/rocksdb/*.log": "ssssssssr",
    "index/rocksdb/OPTIONS-*": "ssssssssr",
    "index/rocksdb/LOCK": "ssssssssr",
    "index/rocksdb/LOG": "ssssssssr",
    "index/rocksdb/rocksdict-config.json": "ssssssssr",
    "reconcile.json": "sssssssss",
}


class Case(NamedTuple):
    name: str
    harm: Callable[[Path], None]
    outcome: str

    def __str__(self) -> str:
        return f"{self.name} {self.harm.__name__}"


CASES = [
    Case(name, harm, outcome)
    for name, outcomes in TABLE.items()
    for harm, outcome in zip(HARMS, outcomes, strict=True)
    if outcome != NOTHING
]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a server that was stopped once, and then killed while messages waited."""
    server = Server(tmp_path_factory.mktemp("killed") / "data", store__near_due="0s")
    server.start()
    server.wait_ready()
    send(server.url, "orders", numbers(10), delay="1h")
    server.stop()
    server.start()
    server.wait_ready()
    send(server.url, "orders", numbers(30), delay="1h")
    server.kill()
    (server.data_dir / "reconcile.json").write_text('{"v":1,"at":1,"positions":{}}')
    return server.data_dir


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(killed, tmp_path / "data")


def file_of(data: Path, name: str) -> Path:
    return max(data.glob(name), key=lambda path: path.lstat().st_size)


@pytest.mark.parametrize("case", sample([(case,) for case in CASES], every=5), ids=str)
def test_a_start_has_every_message_or_is_refused_and_changes_nothing(data: Path, case: Case) -> None:
    file = file_of(data, case.name)
    case.harm(file)
    if case.outcome == STARTS:
        assert start(data) == 40
        return
    before = seen(data)
    with pytest.raises(DelaylineError) as refused:
        start(data)
    assert seen(data) == before
    assert isinstance(refused.value, QueueDamaged) == (case.outcome == LOSS)
    assert str(data) in str(refused.value)
    if case.outcome == LOSS:
        assert "--accept-loss" in str(refused.value)
        left = start(data, accept_loss=True)
        assert start(data) == left
    else:
        make_way(file, case, data)


def make_way(file: Path, case: Case, data: Path) -> None:
    """With its rights back everything is there; without what was in the way it is as if the file were lost."""
    assert str(file) in start_refused(data)
    if case.harm is HARMS[-1]:
        file.chmod(0o700)
        assert start(data) == 40
        return
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink()
    assert start(data, accept_loss=TABLE[case.name][0] == LOSS) in (0, 40)


def start_refused(data: Path) -> str:
    with pytest.raises(DelaylineError) as refused:
        start(data)
    return str(refused.value)


@pytest.mark.parametrize("case", sample([(case,) for case in CASES], every=7), ids=str)
def test_a_scrub_changes_nothing(data: Path, case: Case) -> None:
    case.harm(file_of(data, case.name))
    before = seen(data)
    with as_any_user():
        whole = found_whole(data)
    assert seen(data) == before
    assert not (whole and case.outcome == LOSS)


def found_whole(data: Path) -> bool:
    try:
        whole = scrub(data / "queue", "delayline", data / SECOND_MARK).whole
    except DelaylineError:
        whole = False
    try:
        verify(data / "index")
    except StoreError:
        return whole
    return whole


def test_the_table_names_every_file(killed: Path) -> None:
    named = {path for name in TABLE for path in killed.glob(name)}
    others = [path for path in killed.rglob("*") if path not in named and ".old." not in path.name]
    assert not others


def test_a_queue_whose_settings_are_lost_is_not_taken_for_another_namespaces(data: Path) -> None:
    (data / "queue" / "queue.json").unlink()
    before = seen(data)
    settings = load_settings(None, {"data_dir": str(data), "namespace": "other"}, {}, data.parent)
    with (
        pytest.raises(DelaylineError, match="another namespace than 'other'"),
        stored(settings, CollectorRegistry(), SystemClock(), "", accept_loss=True),
    ):
        pass
    assert seen(data) == before
