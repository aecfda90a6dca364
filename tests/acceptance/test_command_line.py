"""The commands that talk to a server: what they print, and how they end."""

import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.acceptance.asking import DELAYLINE, answer_of, run, run_in, run_with_input, wait_for
from tests.fault.server import Server, read_topic
from tests.ports import free_port
from tests.tiers import sample


def test_send_prints_the_id_and_how_long_it_takes(shared: Server) -> None:
    ran = run("send", "sending", '{"n": 1}', "--delay", "5s", "--partition", "0", url=shared.url)
    assert re.fullmatch(r"sending\.0\.0\.\d{13}  due \d\d:\d\d:\d\d \(in [45]\.\d s\)\n", ran.out), ran


def test_preview_shows_when_a_message_would_be_due(shared: Server) -> None:
    ran = run("preview", "--delay", "1h30m", url=shared.url)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  in 90\.0 min\n", ran.out), ran


def test_send_without_a_delay_reports_that_it_is_delivered(shared: Server) -> None:
    ran = run("send", "sending-now", "hello", "--key", "7", url=shared.url)
    assert re.fullmatch(r"sending-now partition \d  delivered\n", ran.out), ran


def test_bytes_that_are_no_text_arrive_as_they_are(shared: Server) -> None:
    run_with_input(b"\xff\x00\xfe", "send", "raw", "-", url=shared.url)
    ran = run("tail", "raw", "--no-follow", "--json", url=shared.url)
    assert answer_of(ran)["value_base64"] == "/wD+"


@pytest.mark.parametrize(
    "value", sample(["1.10", "NaN", '{"b": 1, "a": 1e400}', '"quoted"', "null", "", "naïve 🕰", "[/x]"], every=2)
)
def test_what_is_typed_is_what_arrives(shared: Server, value: str) -> None:
    topic = f"typed-{value.encode().hex()}"
    run("send", topic, value, "--delay", "1ms", url=shared.url)
    found = wait_for(lambda: list(read_topic(shared.url, topic)), bool)
    assert [record["value"] for record in found] == [value]


def test_tail_reports_that_the_server_stopped(server: Server) -> None:
    run("send", "orders", "x", url=server.url)
    command = [str(DELAYLINE), "tail", "orders", "--url", server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tailing:
        assert tailing.stdout is not None
        line = tailing.stdout.readline()
        server.stop()
        _, errors = tailing.communicate(timeout=10)
    assert line.endswith("  x\n")
    assert (tailing.returncode, errors) == (0, "the server stopped\n")


class _Problem(BaseHTTPRequestHandler):
    """A stream that ends in a problem."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        problem = {"title": "Nobody answers", "detail": "the queue is closed", "status": 503}
        self.wfile.write(f"event: problem\ndata: {json.dumps(problem)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_stream_that_ends_in_a_problem_is_one_sentence() -> None:
    with HTTPServer(("127.0.0.1", 0), _Problem) as http:
        threading.Thread(target=http.handle_request).start()
        ran = run("tail", "orders", url=f"http://127.0.0.1:{http.server_port}")
    assert ran == (1, "", "delayline: Nobody answers: the queue is closed\n")


def test_get_shows_the_outcome_of_a_message(shared: Server) -> None:
    sent = answer_of(run("send", "getting", "x", "--delay", "100ms", "--json", url=shared.url))

    def get() -> dict[str, object]:
        found = answer_of(run("get", str(sent["message_id"]), "--json", url=shared.url))
        assert isinstance(found, dict)
        return found

    found = wait_for(get, lambda found: found["state"] == "delivered")
    assert found["outcome"]["state"] == "delivered"  # type: ignore[index]


def test_get_shows_brackets_and_long_values_as_they_were_sent(shared: Server) -> None:
    value = "[/bold] " + "long " * 60 + "end"
    sent = answer_of(run("send", "brackets", value, "--delay", "1h", "--json", url=shared.url))
    ran = run("get", sent["message_id"], url=shared.url)
    assert value in ran.out, ran


def test_topics_and_status_describe_the_installation(shared: Server) -> None:
    run("send", "listed", "x", url=shared.url)
    topics, status = run("topics", url=shared.url), run("status", url=shared.url)
    assert re.search(r"^ *listed +4 +yes +[01] +0 ", topics.out, re.MULTILINE), topics
    assert re.search(r"^ *ready +yes *$", status.out, re.MULTILINE), status
    assert (topics.code, status.code) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    sample(
        [
            (["send", "orders", "x", "--delay", "soon"], 1, "expected a duration such as 90s, 1h30m or PT1H"),
            (["send", "orders", "x", "--delay", "4000d"], 1, "due later than 3650d from now"),
            (["send", "orders", "x", "--at", "tomorrow"], 1, "expected epoch milliseconds or RFC 3339"),
            (["send", "orders", "x", "--cron", "0 9 * *"], 1, "expected a cron expression of 5 fields"),
            (["preview", "--every", "0.5s"], 1, "expected at least 1s between deliveries"),
            (["preview", "--cron", "0 9 * * *", "--time-zone", "Berlin"], 1, "expected an IANA time zone"),
            (["send", "délai", "x"], 1, "a topic's name has 1 to 249 of a-z A-Z 0-9 . _ -"),
            (["send", "delayline.dead", "x"], 1, "belong to Delayline itself"),
            (["send", "orders", "@/no/such/file"], 2, "cannot read /no/such/file: No such file or directory"),
            (["send", "orders", "x", "--header", "novalue"], 2, "a header is NAME=VALUE"),
            (["send", "orders", os.fsdecode(b"\xff")], 2, "is not UTF-8 text; send such bytes from a file"),
            (["get", "nonsense"], 3, "not a message id"),
            (["get", "orders.0.77.1767225630000"], 3, "there is no such message"),
            (["tail", "nowhere", "--no-follow"], 3, "there is no topic 'nowhere'"),
            (["topics", "--url", "nowhere"], 2, "nowhere is no URL of a server"),
        ],
        every=4,
    ),
)
def test_what_cannot_be_done_is_one_sentence_and_an_exit_code(
    shared: Server, arguments: list[str], code: int, sentence: str
) -> None:
    ran = run(*arguments, url=shared.url)
    assert sentence in ran.err, ran
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)


@pytest.mark.parametrize(
    "arguments", [["sned"], ["send", "orders"], ["serve", "--port", "abc"], ["get", "a", "--no"]]
)
def test_an_unknown_command_ends_with_2_and_names_the_help(arguments: list[str]) -> None:
    ran = run(*arguments)
    assert (ran.code, "--help' for help" in ran.err) == (2, True)


def test_a_proxy_needs_the_brokers_of_its_clients() -> None:
    ran = run("proxy", "rocketmq", "--port", "9876")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "proxy.rocketmq.port: the RocketMQ proxy stands before RocketMQ brokers" in ran.err


def test_no_server_is_one_sentence() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ran = run("status", url=url)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert f"no answer from {url}" in ran.err
    assert "is `delayline serve` up?" in ran.err


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        *([], ["serve"], ["send"], ["preview"], ["get"], ["list"], ["cancel"], ["reschedule"], ["deliver"], ["tail"]),
        *(
            ["topics"],
            ["topics", "show"],
            ["histogram"],
            ["pause"],
            ["resume"],
            ["purge"],
            ["dead"],
            ["dead", "list"],
        ),
        *(["dead", "redrive"], ["status"], ["config", "check"], ["doctor"], ["topics", "plan"]),
        *(["reconcile"], ["reconcile", "run"]),
    ],
)
def test_every_command_explains_itself(command: list[str]) -> None:
    ran = run(*command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"Usage: delayline {' '.join(command)}".strip() in ran.out


def test_config_check_shows_every_layer_and_where_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "delayline.toml").write_text('data_dir = "[/x]"\n[api]\nport = 9000\nbody_bytes_max = "1MiB"\n')
    ran = run_in(tmp_path, "config", "check", api__port="9001")
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines()}
    assert rows["api.port"] == ["9001", "DELAYLINE_API__PORT"]
    assert rows["api.body_bytes_max"] == ["1MiB", str(tmp_path / "delayline.toml")]
    assert rows["data_dir"] == ["[/x]", str(tmp_path / "delayline.toml")]
    assert rows["store.near_due"] == ["5s", "default"]


ON_KAFKA = {"mq__kind": "kafka", "mq__bootstrap_servers": "127.0.0.1:1"}


def test_config_check_names_the_properties_of_kafka_that_are_for_librdkafka_alone() -> None:
    ran = run("config", "check", mq__properties='{"linger.ms": "3", "socket.timeout.ms": "5000"}', **ON_KAFKA)
    assert ran.code == 0
    assert "mq.properties: only librdkafka's clients heed linger.ms, socket.timeout.ms" in ran.out


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ('{"ssl.engine.location": "x"}', "mq.properties: ssl.engine.location: not known"),
        ('{"security.protocol": "ssl", "ssl.ca.pem": "s3cret"}', "mq.properties: ssl.ca.pem: "),
        ('{"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}', "tokens come by one of"),
    ],
)
def test_config_check_refuses_properties_as_a_server_would(properties: str, why: str) -> None:
    ran = run("config", "check", mq__properties=properties, **ON_KAFKA)
    assert ran.code == 2
    assert why in ran.err
    assert "s3cret" not in ran.out + ran.err


BEARER = (
    '{"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER", "delayline.oauthbearer.token.file": "none"}'
)


@pytest.mark.parametrize("command", ["worker", "api", "doctor"])
def test_without_a_token_a_command_reports_at_once_what_is_missing(tmp_path: Path, command: str) -> None:
    ran = run_in(tmp_path, command, mq__properties=BEARER, **ON_KAFKA)
    assert ran.code == 1
    assert "mq.properties: delayline.oauthbearer.token.file: No such file or directory" in ran.out + ran.err


def test_json_is_one_line_for_programs(shared: Server) -> None:
    ran = run("status", "--json", url=shared.url)
    assert json.loads(ran.out)["namespace"] == "delayline"
    assert ran.out.count("\n") == 1
