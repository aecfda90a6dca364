"""The embedded queue under SIGKILL: what was acknowledged is there, once, and nothing is torn."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from delayline.encryption.data_key import DataKey
from mq.embedded import EmbeddedQueue
from tests.fault.embedded_child import BUFFER, DATA_KEY, SHARD, opened

KILLS = 10
SEED = 20_260_101
ROOT = Path(__file__).parents[2]


def run_and_kill(folder: Path, run: str, alive_s: float, *more: str) -> list[list[str]]:
    """What a child printed before it was killed `alive_s` seconds after its first word."""
    command = [sys.executable, "-m", "tests.fault.embedded_child", str(folder), run, *more]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        output = os.read(child.stdout.fileno(), 1 << 16)
        deadline_s = time.monotonic() + alive_s
        while time.monotonic() < deadline_s:
            output += os.read(child.stdout.fileno(), 1 << 16)
        child.send_signal(signal.SIGKILL)
        output += child.stdout.read()
        assert child.wait() == -signal.SIGKILL
    return [line.split() for line in output.decode().splitlines()]


def check_appends(queue: EmbeddedQueue, acknowledged: dict[tuple[str, int], str]) -> None:
    stored: dict[tuple[str, int], str] = {}
    for partition in "123":
        records = queue.read(BUFFER, partition, 0, 1 << 30, 1 << 40)
        assert [record.offset for record in records] == list(range(queue.offsets(BUFFER, partition)[1]))
        stored |= {(partition, record.offset): record.body.rstrip(b".").decode() for record in records}
    assert {place: stored.get(place) for place in acknowledged} == acknowledged
    assert len(set(stored.values())) == len(stored)


def check_commits(queue: EmbeddedQueue, acknowledged: int) -> None:
    """Deliveries, audit rows and re-appends are exactly those that the cursor speaks of."""
    cursor = queue.takeover(SHARD).cursor
    assert cursor is not None
    expected = [b"%d" % number for number in range(1, cursor.next_offset + 1)]
    assert cursor.next_offset >= acknowledged
    assert [record.body for record in queue.read("orders", "0", 0, 1 << 30, 1 << 40)] == expected
    start, end = queue.log_range(SHARD)
    assert [record.body for record in queue.read(BUFFER, "0", start, 1 << 30, 1 << 40)] == expected[start:end]
    assert end == len(expected)
    audit = [r.body for p in "0123" for r in queue.read("delayline.audit", p, 0, 1 << 30, 1 << 40)]
    assert audit == expected


def test_a_queue_killed_again_and_again_keeps_what_it_acknowledged_once(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, None)


@pytest.mark.thorough
def test_so_does_an_encrypted_one(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, DATA_KEY)


def kill_again_and_again(tmp_path: Path, data_key: DataKey | None) -> None:
    kind = "plain" if data_key is None else "encrypted"
    random = Random(SEED)
    appends: dict[tuple[str, int], str] = {}
    commits = 0
    for kill in range(KILLS):
        for word, *rest in run_and_kill(tmp_path / "queue", f"{kill}", random.uniform(0.0, 0.3), kind):
            if word == "append":
                appends[rest[0], int(rest[1])] = rest[2]
            else:
                commits = int(rest[0])
        with closing(opened(tmp_path / "queue", data_key)) as queue:
            check_appends(queue, appends)
            check_commits(queue, commits)
    assert len(appends) > 1000
    assert commits > 100
