"""A server that cannot start prints the reason in one sentence, without a traceback, and ends: 2 where a setting is
to be changed, 1 where something around it is."""

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from rocksdict import Options, Rdict

from store.keys import FORMAT_ROW, encode_number
from tests.acceptance.asking import HTTP, Ran, run_in, send, wait_delivered
from tests.acceptance.conftest import MakeServer
from tests.fault.server import Server
from tests.ports import free_port
from tests.tiers import sample

Serve = Callable[..., Ran]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """`serve(**settings)`, with flags as further arguments: a start that must fail, in a folder of its own."""

    def attempt(*flags: str, **settings: str) -> Ran:
        ours = {"data_dir": str(tmp_path / "data"), "api__port": str(free_port())}
        return run_in(tmp_path, "serve", *flags, **{**ours, **settings})

    return attempt


def assert_refused(ran: Ran, code: int, sentence: str) -> None:
    assert re.fullmatch(r"delayline: [^\n]+\n", ran.err), ran
    assert sentence in ran.err
    assert (ran.code, ran.out) == (code, "")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    sample(
        [
            (
                {"api__prot": "80"},
                "DELAYLINE_API__PROT: there is no such setting (from the environment); did you mean",
            ),
            ({"port": "9090"}, "did you mean DELAYLINE_API__PORT?"),
            ({"api__port": "99999"}, "api.port: input should be less than or equal to 65535, not '99999'"),
            ({"store__near_due": "2"}, "store.near_due: expected a duration such as 90s"),
            ({"delay__levels": "1s soon"}, "delay.levels: expected a duration"),
            ({"namespace": "__x"}, "namespace: expected 1 to 64"),
            ({"data_dir": ""}, "data_dir: expected a folder"),
            ({"mq__kind": "rocketmq"}, "mq.kind: RocketMQ is not built yet"),
            ({"mq__kind": "kafka"}, "mq.bootstrap_servers: Kafka needs at least one server"),
            ({"proxy__kafka__port": "9092"}, "proxy.kafka.port: the Kafka proxy stands before Kafka brokers"),
            ({"api__host": "0.0.0.0"}, "0.0.0.0 can be reached from other machines and there is no authentication"),
            ({"api__auth": "token"}, "api.auth: authentication is not built yet"),
            ({"config": "/no/such.toml"}, "cannot read /no/such.toml: No such file or directory."),
        ],
        every=4,
    ),
)
def test_a_variable_that_cannot_be_is_refused(serve: Serve, settings: dict[str, str], sentence: str) -> None:
    assert_refused(serve(**settings), 2, sentence)


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[api]\nprot = 80\n", "api.prot: there is no such setting"),
        ("api = 80\n", "api: expected a table"),
        ("[api\n", "delayline.toml is not TOML: "),
        ('[mq]\nkind = "rabbit"\n', "mq.kind: input should be 'embedded', 'kafka' or 'rocketmq', not 'rabbit'"),
    ],
)
def test_a_file_that_cannot_be_is_refused(serve: Serve, tmp_path: Path, toml: str, sentence: str) -> None:
    (tmp_path / "delayline.toml").write_text(toml)
    ran = serve()
    assert_refused(ran, 2, sentence)
    assert str(tmp_path / "delayline.toml") in ran.err


def test_a_flag_that_cannot_be_is_refused(serve: Serve) -> None:
    assert_refused(serve("--host", "192.0.2.1"), 2, "192.0.2.1 can be reached from other machines")


def test_a_port_in_use_is_refused(serve: Serve) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert_refused(serve("--port", str(port)), 1, f"port {port} on 127.0.0.1 is in use by another program")


def test_a_data_folder_in_use_is_refused_and_the_one_who_uses_it_goes_on(server: Server, serve: Serve) -> None:
    assert_refused(serve(data_dir=str(server.data_dir)), 1, "is in use by another process")
    send(server.url, "orders", ["after"], delay="10ms")
    assert wait_delivered(server, ["after"]) == ["after"]


def test_a_queue_of_another_format_is_refused(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "data" / "queue").mkdir(parents=True)
    (tmp_path / "data" / "queue" / "queue.json").write_text('{"embedded_queue":99,"namespace":"delayline"}')
    assert_refused(serve(), 1, "queue has format 99, this program knows 1")


def test_a_queue_of_another_namespace_is_refused(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "data" / "queue").mkdir(parents=True)
    (tmp_path / "data" / "queue" / "queue.json").write_text('{"embedded_queue":1,"namespace":"theirs"}')
    assert_refused(serve(), 1, "belongs to the namespace 'theirs', not 'delayline'")


def test_an_index_of_another_format_is_refused(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "data" / "index").mkdir(parents=True)
    index = Rdict(str(tmp_path / "data" / "index" / "rocksdb"), Options(raw_mode=True))
    index[FORMAT_ROW] = encode_number(99)
    index.close()
    assert_refused(serve(), 1, "it is of format 99, this program knows")


@pytest.mark.parametrize("folder", sample(["queue", "index"], every=2))
def test_a_folder_with_other_things_in_it_is_refused_and_they_stay(serve: Serve, tmp_path: Path, folder: str) -> None:
    photo = tmp_path / "data" / folder / "photo.jpg"
    photo.parent.mkdir(parents=True)
    photo.write_bytes(b"beach")
    assert serve().code == 1
    assert photo.read_bytes() == b"beach"


@pytest.mark.parametrize("folder", sample(["data", "data/queue", "data/index"], every=3))
def test_a_file_in_the_way_of_a_folder_is_refused(serve: Serve, tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).parent.mkdir(exist_ok=True)
    (tmp_path / folder).write_text("in the way")
    ran = serve()
    assert_refused(ran, 1, str(tmp_path / "data"))
    assert re.search(r"File exists|Not a directory", ran.err), ran


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_refused(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    assert_refused(serve(), 1, "Permission denied")


@pytest.mark.thorough
def test_two_servers_with_folders_of_their_own_run_side_by_side(server: Server, make_server: MakeServer) -> None:
    other = make_server("other")
    other.start()
    other.wait_ready()
    for one, value in ((server, "here"), (other, "there")):
        send(one.url, "orders", [value], delay="50ms")
    found = [wait_delivered(one, ["one"]) for one in (server, other)]
    assert found == [["here"], ["there"]]


def test_a_port_that_is_opened_to_others_on_purpose_is_logged(make_server: MakeServer) -> None:
    opened, closed = make_server("a", api__host="0.0.0.0", api__auth="none-on-any-address"), make_server("b")
    for server in (opened, closed):
        server.start()
        server.wait_ready()
    sentence = "there is no authentication: everyone who can reach this address may use it"
    assert [sentence in server.tail_of_log() for server in (opened, closed)] == [True, False]
    with pytest.raises(httpx.ConnectError):
        HTTP.get(f"http://127.0.0.2:{closed.port}/healthz")
    assert HTTP.get(f"http://127.0.0.2:{opened.port}/healthz").status_code == 200


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        (("serve",), "api.port"),
        (("api",), "api.port"),
        (("worker",), "worker.port"),
        (("proxy", "kafka"), "proxy.kafka.metrics_port"),
    ],
)
def test_a_port_in_use_is_named_by_the_setting_that_it_comes_from(
    tmp_path: Path, command: tuple[str, ...], setting: str
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        settings = {"data_dir": str(tmp_path / "data"), "mq__kind": "kafka", "internal__port": "0"}
        settings |= {"mq__bootstrap_servers": f"127.0.0.1:{free_port()}", setting.replace(".", "__"): str(port)}
        if command[0] == "proxy":
            settings |= {"proxy__kafka__port": str(free_port()), "proxy__kafka__nodes_max": "1"}
        ran = run_in(tmp_path, *command, **settings)
    last = ran.err.splitlines()[-1]
    assert last == f"delayline: port {port} on 127.0.0.1 is in use by another program; choose another with {setting}"
    assert (ran.code, ran.out) == (1, "")
