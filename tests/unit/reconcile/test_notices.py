"""Where a run reports how it has ended, and that nothing they do can hold it up, or change what it has judged."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from cli.main import main as delayline_main
from delayline.clock import ManualClock
from delayline.config import Settings, load_settings
from delayline.errors import ConfigError
from reconcile import entry, notices
from reconcile.__main__ import main as reconcile_main
from reconcile.errors import CannotJudge, RunInProgress
from reconcile.exits import Exit
from reconcile.notices import BODY_BYTES_MAX, Limits, Notice, Notices, Recipient, Unsent, notice_of
from reconcile.report.metrics import render_metrics
from reconcile.report.summary import NotJudged, Summary
from reconcile.settings import JobSettings
from tests.ports import free_port
from tests.unit.reconcile.made_up import AT_MS, CLUSTER, finding, summary

QUICK = Limits(timeout_s=5.0, pauses_s=(0.01, 0.01), within_s=20.0)
SECRET = "s3cr3t"


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answering:
    """A server that answers as scripted, one request after the other, and the last way from then on."""

    def __init__(self, *ways: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.seen: list[Request] = []
        self.over = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.seen.append(Request(self.command, self.path, headers, body))
                with suppress(OSError):  # whoever asked has gone
                    ways[min(len(outer.seen), len(ways)) - 1](self)

            def do_PUT(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


def status(code: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("content-length", "0")
        request.end_headers()

    return answer


def endless(request: BaseHTTPRequestHandler) -> None:
    """An answer that never ends."""
    request.send_response(200)
    request.end_headers()
    for _ in range(100_000):
        request.wfile.write(b"x" * 65_536)


def trickling(request: BaseHTTPRequestHandler) -> None:
    """A head that never ends, a byte now and then: no single one of them is late."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
    for _ in range(10_000):
        request.wfile.write(b"x")
        request.wfile.flush()
        time.sleep(0.02)


Serve = Callable[..., Answering]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[Answering] = []

    def serve(*ways: Callable[[BaseHTTPRequestHandler], None]) -> Answering:
        servers.append(Answering(*(ways or (status(200),))))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


class Reported(NamedTuple):
    notices: Notices
    unsent: list[Unsent]


def reporting(
    *, metrics: str | None = None, webhook: str | None = None, token: str = "", limits: Limits = QUICK
) -> Reported:
    unsent: list[Unsent] = []
    pushed, hooked = (
        Recipient(option=option, url=url, token=token) if url else None
        for option, url in (("--push-metrics", metrics), ("--webhook", webhook))
    )
    return Reported(Notices("delayline", pushed, hooked, unsent.append, limits), unsent)


def clean() -> Summary:
    return Summary(cluster=CLUSTER, run=7, at_ms=AT_MS, exit_code=0, seconds=1)


def test_the_metrics_of_every_run_are_pushed_as_they_stand_in_the_file(serve: Serve) -> None:
    gateway = serve()
    made = reporting(metrics=f"{gateway.url}/below/", token=SECRET)
    for one in (clean(), summary()):
        made.notices.ended(one)
    assert made.unsent == []
    assert [(one.method, one.path) for one in gateway.seen] == [
        ("PUT", "/below/metrics/job/delayline-reconcile/namespace/delayline")
    ] * 2
    assert [one.body for one in gateway.seen] == [render_metrics(clean()), render_metrics(summary())]
    assert gateway.seen[0].headers["authorization"] == f"Bearer {SECRET}"
    assert gateway.seen[0].headers["content-type"].startswith("text/plain; version=0.0.4")


def test_a_comparison_with_the_topics_has_no_metrics_to_push(serve: Serve) -> None:
    gateway = serve()
    reporting(metrics=gateway.url).notices.ended(replace(clean(), against="targets"))
    assert gateway.seen == []


def test_a_webhook_hears_of_what_is_wrong_and_not_of_a_clean_run(serve: Serve) -> None:
    hook = serve()
    made = reporting(webhook=f"{hook.url}/hooks/1?key=2")
    made.notices.ended(clean())
    assert hook.seen == []
    made.notices.ended(summary())
    (request,) = hook.seen
    document = json.loads(request.body)
    assert (request.method, request.path, made.unsent) == ("POST", "/hooks/1?key=2", [])
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers
    assert (document["v"], document["run"], document["exit_code"], document["verdict"], document["why"]) == (
        1,
        7,
        2,
        "found",
        None,
    )
    assert (document["namespace"], document["cluster"]["id"], document["against"]) == (
        "delayline",
        CLUSTER.id,
        "audit",
    )
    assert document["fresh"] == {
        "missing": 4,
        "late": 11,
        "duplicated": 1,
        "early": 8,
        "delivered_after_cancel": 1,
        "orphan": 2,
        "two_outcomes": 1,
        "unauditable": 17,
    }
    assert [one["topic"] for one in document["topics"]][-1] == "trial-endings"  # nothing is wrong there
    assert (document["topics"][-2]["state"], document["topics_total"]) == ("recreated", 6)
    assert (len(document["findings"]), document["findings_total"], document["findings"][0]["category"]) == (
        20,
        45,
        "missing",
    )
    assert (len(document["not_judged"]), document["not_judged_total"]) == (3, 3)


@pytest.mark.parametrize("exit_code", [Exit.FAILED, Exit.CANNOT_JUDGE, Exit.USAGE])
def test_a_webhook_hears_of_a_run_that_came_to_no_judgement(serve: Serve, exit_code: Exit) -> None:
    hook = serve()
    reporting(webhook=hook.url).notices.failed(exit_code, "why" * 1_000)
    document = json.loads(hook.seen[0].body)
    assert (document["exit_code"], document["verdict"], document["run"]) == (
        exit_code,
        exit_code.name.lower().replace("_", " "),
        None,
    )
    assert (document["why"][:6], len(document["why"])) == ("whywhy", 500)


def test_what_is_posted_is_bounded(serve: Serve) -> None:
    hook = serve()
    wide = [finding("missing", "t" * 4_000, n) for n in range(200)]
    why = [NotJudged(what="gap", why="w" * 100_000) for _ in range(50)]
    reporting(webhook=hook.url).notices.ended(summary(findings=wide, findings_total=10_000, not_judged=why))
    document = json.loads(hook.seen[0].body)
    assert len(hook.seen[0].body) <= BODY_BYTES_MAX
    assert (len(document["findings"]), document["findings_total"], document["not_judged_total"]) == (5, 10_000, 50)
    assert len(document["not_judged"][0]["why"]) == 500
    huge = summary(findings=[finding("missing", "t" * 200_000, 1)], findings_total=1)
    body = notices.body_of(notice_of(huge))
    assert (len(body) <= BODY_BYTES_MAX, json.loads(body)["findings"]) == (True, [])


def test_what_fails_for_a_moment_is_tried_again(serve: Serve) -> None:
    hook = serve(status(500), status(429), status(204))
    made = reporting(webhook=hook.url)
    made.notices.ended(summary())
    assert (len(hook.seen), made.unsent) == (3, [])


def test_it_is_tried_three_times_and_no_more(serve: Serve) -> None:
    hook = serve(status(500))
    made = reporting(webhook=hook.url)
    made.notices.ended(summary())
    host = hook.url.removeprefix("http://")
    assert (len(hook.seen), made.unsent) == (3, [Unsent("webhook not called", host, "it answers 500")])


@pytest.mark.parametrize("code", [400, 401, 404, 413])
def test_what_is_refused_is_not_tried_again(serve: Serve, code: int) -> None:
    gateway = serve(status(code))
    made = reporting(metrics=gateway.url)
    made.notices.ended(clean())
    assert (len(gateway.seen), [one.why for one in made.unsent]) == (1, [f"it answers {code}"])


def test_a_redirect_is_not_followed(serve: Serve) -> None:
    elsewhere = serve()
    hook = serve(status(307, location=elsewhere.url))
    made = reporting(webhook=hook.url, token=SECRET)
    made.notices.ended(summary())
    assert (len(hook.seen), elsewhere.seen) == (1, [])
    assert made.unsent[0].why == "it answers 307, and redirects are not followed"


def test_nobody_there_is_no_failure_of_the_run() -> None:
    made = reporting(webhook=f"http://user:{SECRET}@127.0.0.1:{free_port()}/{SECRET}?{SECRET}", token=SECRET)
    made.notices.ended(summary())
    assert [one.why for one in made.unsent] == ["no answer (ConnectError)"]
    assert SECRET not in repr(made.unsent)


def test_one_that_hangs_is_given_up(serve: Serve) -> None:
    hook: Answering = serve(lambda request: hook.over.wait(30) and None)
    made = reporting(webhook=hook.url, limits=QUICK._replace(timeout_s=0.1))
    began_s = time.monotonic()
    made.notices.ended(summary())
    assert time.monotonic() - began_s < 10
    assert ([one.why for one in made.unsent], len(hook.seen)) == (["no answer (ReadTimeout)"], 3)


def test_one_that_sends_a_byte_now_and_then_is_given_up(serve: Serve) -> None:
    hook = serve(trickling)
    made = reporting(webhook=hook.url, limits=QUICK._replace(within_s=0.5))
    began_s = time.monotonic()
    made.notices.ended(summary())
    assert time.monotonic() - began_s < 5
    assert [one.why for one in made.unsent] == ["no whole answer within 0.5 s"]


def test_an_answer_is_not_read(serve: Serve) -> None:
    hook = serve(endless)
    made = reporting(webhook=hook.url)
    began_s = time.monotonic()
    made.notices.ended(summary())
    assert (made.unsent, time.monotonic() - began_s < 10) == ([], True)


def test_the_page_shows_what_is_posted() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reconcile.md").read_text()
    block = re.search(r"```json webhook\n(.*?)```", page, re.DOTALL)
    assert block is not None
    shown = json.loads(block[1])
    assert msgspec.to_builtins(msgspec.json.decode(block[1], type=Notice)) == shown
    assert list(shown) == list(Notice.__struct_fields__)
    assert shown["verdict"] == Exit(shown["exit_code"]).name.lower().replace("_", " ")


# --- from a command line and settings


@pytest.mark.parametrize(
    "url", ["", "localhost:9091", "ftp://there/", "http://", "http://there:port", "http://there:0", "http://[::1"]
)
def test_what_is_no_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="--webhook: expected http://") as refused:
        Recipient(option="--webhook", url=url, token=SECRET)
    assert url == "" or url not in str(refused.value).replace("http://HOST", "")


def test_a_token_that_no_header_can_hold_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="--webhook: its token") as refused:
        Recipient(option="--webhook", url="http://there", token=f"{SECRET}\r\nx: y")
    assert SECRET not in str(refused.value)


def test_what_is_secret_is_not_shown() -> None:
    place = Recipient(option="--webhook", url=f"http://there/{SECRET}", token=SECRET)
    job = JobSettings(output="there", webhook=place.url, push_metrics=place.url)
    assert SECRET not in f"{place!r} {job!r}"


class Outcome:
    """A run that ends as scripted."""

    def __init__(self, ends: Any) -> None:
        self._ends = ends

    def __call__(self, *_: object) -> Any:
        if isinstance(self._ends, Exception):
            raise self._ends
        return self._ends


class Verdict(NamedTuple):
    summary: Summary
    exit_code: int
    note_reported: Callable[[], None] = lambda: None


def settings(folder: Path, **variables: str) -> Settings:
    named = {f"DELAYLINE_RECONCILE__{name.upper()}": value for name, value in variables.items()}
    return load_settings(None, {}, {"DELAYLINE_DATA_DIR": str(folder), **named}, folder)


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (Verdict(summary(), 2), 2),
        (CannotJudge("it is gone"), 3),
        (RunInProgress("another run"), 1),
        (OSError("the disk is full"), 1),
        (ConfigError("there is no java"), 64),
    ],
)
def test_a_run_s_summary_agrees_with_its_exit_code(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: Any, code: int
) -> None:
    hook, gateway = serve(), serve()
    configured = settings(tmp_path, webhook=f"{hook.url}/a", webhook_token=SECRET, push_metrics=f"{gateway.url}/b")
    monkeypatch.setattr(entry, "run_job", Outcome(ends))
    unsent: list[Unsent] = []
    given: Any = (
        JobSettings(output="there", webhook=f"{hook.url}/c"),
        configured,
        ManualClock(),
        None,
        unsent.append,
    )
    if isinstance(ends, Exception):
        with pytest.raises(type(ends)):
            entry.start(*given)
    else:
        assert entry.start(*given) is ends
    (request,) = hook.seen
    assert request.path == "/c"  # the option goes first
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert (json.loads(request.body)["exit_code"], unsent) == (code, [])
    pushed = [] if isinstance(ends, Exception) else ["/b/metrics/job/delayline-reconcile/namespace/delayline"]
    assert [one.path for one in gateway.seen] == pushed


def test_a_run_ends_as_it_ended_where_no_notice_could_be_sent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hook = serve(status(500))
    monkeypatch.setattr(entry, "run_job", Outcome(Verdict(summary(), 2)))
    monkeypatch.setattr(notices, "LIMITS", QUICK)
    unsent: list[Unsent] = []
    job = JobSettings(output="there", webhook=hook.url, push_metrics=hook.url)
    shown: Any = None
    assert entry.start(job, settings(tmp_path), ManualClock(), shown, unsent.append).exit_code == 2
    assert [one.what for one in unsent] == ["metrics not pushed", "webhook not called"]


def test_nothing_is_sent_without_an_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(entry, "run_job", Outcome(Verdict(summary(), 2)))
    monkeypatch.setattr(notices, "send", Outcome(AssertionError("a notice was sent")))
    shown: Any = None
    entry.start(JobSettings(output="there"), settings(tmp_path), ManualClock(), shown, print)


@pytest.mark.parametrize("name", ["push_metrics", "webhook"])
def test_an_address_that_cannot_be_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(entry, "run_job", Outcome(AssertionError("something was read")))
    shown: Any = None
    with pytest.raises(ConfigError, match=f"--{name.replace('_', '-')}: expected"):
        entry.start(JobSettings(output="there"), settings(tmp_path, **{name: "there"}), ManualClock(), shown, print)


def test_the_command_prints_which_notices_were_not_sent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = serve(status(403))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(entry, "run_job", Outcome(Verdict(summary(), 2)))
    monkeypatch.setattr("delayline.process.logs.configure", lambda *given: None)
    arguments = ["--output", "ledger", "--webhook", f"{hook.url}/{SECRET}", "--push-metrics", f"{hook.url}/{SECRET}"]
    monkeypatch.setattr("sys.argv", ["delayline", "reconcile", "run", *arguments])
    with pytest.raises(SystemExit) as ended:
        delayline_main()
    host, output = hook.url.removeprefix("http://"), capsys.readouterr()
    lines = [f"{what}: {host}: it answers 403\n" for what in ("metrics not pushed", "webhook not called")]
    assert (ended.value.code, output.err) == (2, "".join(lines))
    assert SECRET not in output.out


@pytest.mark.usefixtures("logging_as_it_was")
def test_the_module_warns_of_notices_that_were_not_sent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = serve(status(403))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELAYLINE_LOG__FORMAT", "json")
    monkeypatch.setattr(entry, "run_job", Outcome(Verdict(summary(), 2)))
    assert reconcile_main(["--output", "ledger", "--webhook", f"{hook.url}/{SECRET}"]) == 2
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (warned,) = (line for line in lines if line["level"] == "warning")
    assert (warned["event"], warned["host"]) == ("webhook_not_called", hook.url.removeprefix("http://"))
    assert SECRET not in json.dumps(lines)


def test_a_run_counts_as_reported_only_behind_its_notices(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hook = serve(status(200))
    heard: list[int] = []
    monkeypatch.setattr(entry, "run_job", Outcome(Verdict(summary(), 2, lambda: heard.append(len(hook.seen)))))
    shown: Any = None
    entry.start(JobSettings(output="there", webhook=hook.url), settings(tmp_path), ManualClock(), shown, print)
    assert heard == [1]
