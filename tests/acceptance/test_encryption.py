"""With a key in the settings no file of `data_dir` shows what messages hold; without the key nothing is given up."""

import json
import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Rdict

from mq.embedded.examine import look
from mq.embedded.stored import KEY as KEY_OF_ENTRY
from store.keys import RECORD_BYTES
from tests.acceptance.asking import HTTP, delivered, numbers, run, send, wait_delivered, wait_for
from tests.acceptance.conftest import MakeServer
from tests.acceptance.seen import Seen, seen
from tests.fault.server import Server

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

KEY, NEW, WRONG = (b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))
DICE = Random(31)
PARTS = ("value", "key", "header", "own_id", "idempotency")
MARKERS = {part: DICE.randbytes(20).hex() for part in PARTS}
"""Random, because RocksDB compresses."""


def send_marked(server: Server, delay: str, number: int, topic: str = "orders") -> None:
    """A message in all parts of which there is a marker."""
    body = {
        "value": MARKERS["value"],
        "key": MARKERS["key"],
        "headers": [{"name": "trace", "value": MARKERS["header"]}],
        "schedule": {"delay": delay, "own_id": f"{MARKERS['own_id']}-{number}"},
    }
    named = {"idempotency-key": f"{MARKERS['idempotency']}-{number}"}
    answer = HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json=body, headers=named)
    assert answer.status_code == 201, answer.text


def shown_in(data: Path) -> set[str]:
    """The parts whose marker is in a file."""
    contents = [path.read_bytes() for path in data.rglob("*") if path.is_file()]
    assert sum(map(len, contents)) > 10_000
    return {part for part, marker in MARKERS.items() if any(marker.encode() in content for content in contents)}


def fill(server: Server) -> None:
    """Messages that are delivered, and that wait, in memory and on disk."""
    server.start()
    server.wait_ready()
    for number, delay in enumerate(("1ms", "3s", "1h", "2h")):
        send_marked(server, delay, number)
    wait_for(lambda: delivered(server.url), lambda found: len(found) >= 1)


@pytest.fixture
def encrypted(make_server: MakeServer) -> Server:
    """A server, not started."""
    return make_server(store__near_due="1s", store__encryption_key=KEY)


def test_without_a_key_the_files_show_everything(make_server: MakeServer) -> None:
    server = make_server(store__near_due="1s")
    fill(server)
    assert shown_in(server.data_dir) == set(PARTS)


def test_with_a_key_they_show_nothing_while_it_runs_after_a_kill_and_after_a_rebuild(encrypted: Server) -> None:
    fill(encrypted)
    assert shown_in(encrypted.data_dir) == set()
    encrypted.kill()
    assert shown_in(encrypted.data_dir) == set()
    encrypted.start()
    encrypted.wait_ready()
    assert wait_delivered(encrypted, [MARKERS["value"]] * 2) == [MARKERS["value"]] * 2
    assert shown_in(encrypted.data_dir) == set()
    encrypted.stop()
    shutil.rmtree(encrypted.data_dir / "index")
    encrypted.start()
    encrypted.wait_ready()
    assert waiting(encrypted) == LEFT
    encrypted.stop()
    assert (encrypted.data_dir / "index").exists()
    assert shown_in(encrypted.data_dir) == set()
    ran = run("scrub", data_dir=str(encrypted.data_dir), store__encryption_key=KEY)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "whole")


def waiting(server: Server) -> list[tuple[str, str]]:
    """Own id and value of each message that waits."""
    listed = HTTP.get(f"{server.url}/v1/messages", params={"topic": "orders", "page_size": 100}).json()["messages"]
    ids = [one["message_id"] for one in listed if one["state"] == "pending"]
    found = [HTTP.get(f"{server.url}/v1/messages/{id_}", params={"view": "full"}).json() for id_ in ids]
    return sorted((one["own_id"] or "", one["value"]) for one in found)


LEFT = [(f"{MARKERS['own_id']}-{number}", MARKERS["value"]) for number in (2, 3)]
"""What waits of the messages of `fill` for hours."""


# --- keys


@pytest.fixture(scope="module")
def stopped_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data of an encrypted server that was stopped with 20 messages."""
    server = Server(tmp_path_factory.mktemp("encrypted") / "data", store__near_due="0s", store__encryption_key=KEY)
    server.start()
    server.wait_ready()
    send(server.url, "orders", numbers(20), delay="1h")
    server.stop()
    yield server.data_dir
    server.kill()


@pytest.fixture
def stopped(stopped_data: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stopped_data, tmp_path / "data")


def contents(data: Path) -> dict[str, Seen]:
    """Of files and folders. That the data is its user's alone may be put right even where a start is refused."""
    return {name: one._replace(mode=0) for name, one in seen(data).items()}


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({}, "the data in .* is encrypted: set the key"),
        ({"store__encryption_key": WRONG}, "it is not the key of"),
        ({"store__encryption_key": WRONG, "store__encryption_key_before": NEW}, "neither"),
    ],
    ids=["none", "wrong", "both wrong"],
)
@pytest.mark.parametrize(
    "command", [("serve",), ("serve", "--accept-loss"), ("scrub",), ("data", "encrypt"), ("config", "check")]
)
def test_without_the_key_each_command_refuses_and_changes_nothing(
    stopped: Path, command: tuple[str, ...], keys: dict[str, str], why: str
) -> None:
    before = contents(stopped)
    ran = run(*command, data_dir=str(stopped), api__port="0", **keys)
    assert ran.code == 2
    assert "store.encryption_key: " in ran.err
    assert ran.err.count("\n") == 1
    assert not any(key in ran.err + ran.out for key in keys.values())
    assert contents(stopped) == before


def looked_at(data: Path, **keys: str) -> tuple[str, str]:
    """What the doctor finds of the encryption: level and detail."""
    ran = run("doctor", "--json", data_dir=str(data), api__port="0", store__disk_free_min="1MiB", **keys)
    (found,) = [one for one in json.loads(ran.out)["findings"] if one["check"] == "encryption"]
    assert (ran.code == 1) == (found["level"] == "fail")
    return found["level"], found["detail"]


def test_the_doctor_looks_at_the_key_as_a_start_does(stopped: Path) -> None:
    before = contents(stopped)
    assert looked_at(stopped, store__encryption_key=KEY)[0] == "ok"
    assert "set the key" in looked_at(stopped)[1]
    assert "it is not the key of" in looked_at(stopped, store__encryption_key=WRONG)[1]
    assert contents(stopped) == before
    (stopped / "encryption.json").unlink()
    assert looked_at(stopped, store__encryption_key=KEY)[0] == "fail"
    assert looked_at(stopped.with_name("none")) == ("ok", "off: store.encryption_key is not set")


def test_what_is_encrypted_already_is_left_as_it_is(stopped: Path) -> None:
    before = contents(stopped)
    ran = run("data", "encrypt", data_dir=str(stopped), store__encryption_key=KEY)
    assert (ran.code, ran.out) == (0, "nothing to do: what is there is encrypted\n")
    assert contents(stopped) == before


def test_where_the_file_of_the_data_key_is_gone_nothing_is_given_up(stopped: Path) -> None:
    file = (stopped / "encryption.json").rename(stopped.with_name("kept"))
    before = contents(stopped)
    for key in ({}, {"store__encryption_key": KEY}):
        for command in (("serve",), ("serve", "--accept-loss"), ("data", "encrypt")):
            ran = run(*command, data_dir=str(stopped), api__port="0", **key)
            assert ran.code in (1, 2), ran.err
            assert "put it back" in ran.err or "put back encryption.json" in ran.err or "set the key" in ran.err
            assert "`delayline data encrypt`" not in ran.err
            assert contents(stopped) == before
    file.rename(stopped / "encryption.json")
    ran = run("scrub", data_dir=str(stopped), store__encryption_key=KEY)
    assert ran.code == 0, ran.err


def test_a_new_key_is_taken_with_the_one_before_while_messages_wait(stopped: Path, make_server: MakeServer) -> None:
    both = make_server(store__encryption_key=NEW, store__encryption_key_before=KEY)
    assert both.data_dir == stopped
    both.start()
    both.wait_ready()
    both.stop()
    alone = make_server(store__encryption_key=NEW)
    alone.start()
    alone.wait_ready()
    assert [value for _, value in waiting(alone)] == numbers(20)
    alone.stop()
    assert run("scrub", data_dir=str(stopped), store__encryption_key=KEY).code == 2


# --- data that was plain


def test_plain_data_is_refused_and_encrypted_by_a_command(make_server: MakeServer) -> None:
    server = make_server(store__near_due="1s")
    fill(server)
    in_use = run("data", "encrypt", data_dir=str(server.data_dir), store__encryption_key=KEY)
    assert (in_use.code, "in use by another process" in in_use.err) == (1, True)
    server.stop()
    server.settings["store__encryption_key"] = KEY
    before = contents(server.data_dir)
    for command in ("serve", "scrub"):
        refused = run(command, data_dir=str(server.data_dir), api__port="0", store__encryption_key=KEY)
        assert (refused.code, "`delayline data encrypt`" in refused.err) == (2, True)
    assert looked_at(server.data_dir, store__encryption_key=KEY)[0] == "fail"
    assert contents(server.data_dir) == before
    ran = run("data", "encrypt", data_dir=str(server.data_dir), store__encryption_key=KEY)
    assert (ran.code, "records encrypted" in ran.out, "time index deleted" in ran.out) == (0, True, True)
    assert shown_in(server.data_dir) == set()
    server.start()
    server.wait_ready()
    assert waiting(server)[-2:] == LEFT
    assert MARKERS["value"] in delivered(server.url)
    assert shown_in(server.data_dir) == set()
    assert os.stat(server.data_dir / "encryption.json").st_mode & 0o077 == 0


def test_a_flipped_bit_in_a_table_is_damage_as_ever(stopped: Path) -> None:
    table = max((stopped / "queue" / "log").glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 3] ^= 1
    table.write_bytes(data)
    ran = run("scrub", data_dir=str(stopped), store__encryption_key=KEY)
    assert ran.code == 3
    assert "damaged" in ran.out


def altered(rocksdb: Path, is_record: Callable[[Any], bool]) -> None:
    """A bit of a record's value flipped by another hand, which makes RocksDB's checksums anew."""
    db = Rdict(str(rocksdb))
    key, value = next((key, value) for key, value in db.items() if is_record(key))
    db[key] = value[:-1] + bytes((value[-1] ^ 1,))
    db.close()


def test_an_altered_value_of_the_index_ends_the_start_with_a_sentence_and_the_next_one_rebuilds(
    stopped: Path, make_server: MakeServer
) -> None:
    altered(stopped / "index" / "rocksdb", lambda key: len(key) == RECORD_BYTES and key[:4] != bytes(4))
    ran = run("serve", data_dir=str(stopped), api__port="0", store__encryption_key=KEY)
    assert ran.code == 1
    assert "the next start rebuilds the time index" in ran.err.splitlines()[-1]
    assert "Traceback" not in ran.err
    server = make_server(store__encryption_key=KEY)
    server.start()
    server.wait_ready()
    assert [value for _, value in waiting(server)] == numbers(20)


def test_an_altered_record_of_the_queue_stalls_its_shard_alone_until_it_is_skipped(
    stopped: Path, make_server: MakeServer
) -> None:
    shutil.rmtree(stopped / "index")
    (buffer,) = buffers(stopped / "queue" / "log", "orders")
    altered(stopped / "queue" / "log", lambda key: KEY_OF_ENTRY.unpack(key)[:2] == (buffer, 0))
    server = make_server(store__encryption_key=KEY)
    server.start()
    server.wait_alive()
    found = wait_for(lambda: shards(server), lambda now: all(one["state"] != "catching-up" for one in now))
    assert [one["state"] for one in found] == ["stalled", "running", "running", "running"]
    assert found[0]["stalled"]["reason"] == "unreadable_log"
    assert HTTP.get(f"{server.url}/readyz").status_code == 503
    assert (len(waiting(server)), sum(one["pending"] for one in found)) == (15, 15)
    last = str(found[0]["next_offset"] - 1)
    ran = run("shard", "skip", "orders", "0", "--offset", last, "--yes", "--to-dead", "--url", server.url)
    assert ran.code == 0, ran.err
    wait_for(lambda: shards(server)[0]["state"], lambda state: state == "running")
    server.stop()
    server.start()
    server.wait_ready()
    assert len(waiting(server)) == 15
    send(server.url, "orders", ["more"], delay="1ms")
    wait_delivered(server, ["more"])


def shards(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = HTTP.get(f"{server.url}/v1/topics/orders").raise_for_status().json()["shards"]
    return found


def buffers(log: Path, topic: str) -> list[int]:
    """The number of the topic's buffer in the log."""
    return [one.number for one in look(log).topics if one.name.endswith(f".buffer.{topic}")]


def test_the_command_needs_a_key_and_a_queue(tmp_path: Path) -> None:
    assert run("data", "encrypt", data_dir=str(tmp_path / "data")).code == 2
    ran = run("data", "encrypt", data_dir=str(tmp_path / "data"), store__encryption_key=KEY)
    assert (ran.code, "there is no queue" in ran.err) == (1, True)
    assert not (tmp_path / "data").exists()


# --- on Kafka


def test_on_kafka_the_index_of_a_worker_is_encrypted(
    kafka: "KafkaAt", topic: str, make_server: MakeServer, running: Callable[..., list[Server]]
) -> None:
    worker, api = running("worker", "api", delay__topics=topic, store__near_due="0s", store__encryption_key=KEY)
    send_marked(api, "1h", 1, topic)
    index = worker.data_dir / "index" / "rocksdb"
    wait_for(lambda: _waiting_on(api, topic), lambda found: found == 1)
    worker.stop()
    assert any(file.stat().st_size for file in index.glob("*.sst"))
    assert shown_in(worker.data_dir) == set()
    before = contents(worker.data_dir)
    wrong = {**worker.settings, "store__encryption_key": WRONG}
    assert run("worker", **wrong).code == 2
    assert contents(worker.data_dir) == before
    assert [path.name for path in worker.data_dir.iterdir() if path.name != "index"] == ["encryption.json"]


def _waiting_on(server: Server, topic: str) -> int:
    return len(HTTP.get(f"{server.url}/v1/messages", params={"topic": topic}).json().get("messages", ()))
