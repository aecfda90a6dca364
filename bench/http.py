"""The HTTP API: sends per CPU second of the whole process, from the request to the delivered record.

`delayline serve` runs as a process of its own on the embedded queue, every message is delayed by a second and
delivered, and all of that counts: HTTP, queue with its fsyncs, index, dispatch. Beside it, in turns, runs a bare
Starlette route that reads the body and answers as many bytes, under the same uvicorn settings, so that what else the
machine does hits both. How long a send takes is measured at half of the rate that the rounds have reached.

The load comes from wrk (`bench/install-tools.sh`), which costs the other core.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from bench.over_http.server import Server, delayline, process
from bench.report import Report, Target
from delayline.access.hashing import Hasher
from delayline.access.keys import AccessKey, AccessKeys, new_token
from delayline.clock import SystemClock
from tests.brokers.identity_provider import AUDIENCE, served
from tests.ports import free_port

ROUNDS = 3
ROUND_S = 6
CONNECTIONS = 32
BATCH = 100
MESSAGE = (
    '{"key":"order-%d","value":{"order":7,"note":"' + "x" * 200 + '"},'
    '"headers":[{"name":"src","value":"web"}],"schedule":{"delay":"1s"}}'
)
PATH = "/v1/topics/orders/messages"
_RATE = re.compile(r"(\d+) requests in ([\d.]+)(s|m)")
_P99 = re.compile(r"99%\s+([\d.]+)(us|ms|s)")
_ERRORS = re.compile(r"(Non-2xx.*|Socket errors.*)")


@dataclass
class Laps:
    """What the rounds of one server and one kind of request have shown."""

    per_cpu_s: list[float] = field(default_factory=list)
    answered_per_cpu_s: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


def run(scale: float) -> Report:
    """Figures, or a report without any that names what is missing."""
    report = Report("HTTP sends, whole process")
    if shutil.which("wrk") is None:
        report.notes.append("skipped: no wrk on this machine, see bench/install-tools.sh")
        return report
    with tempfile.TemporaryDirectory() as folder:
        _measure(report, Path(folder), max(1, round(ROUND_S * scale)))
    report.notes.append(
        f"{CONNECTIONS} connections, median of {ROUNDS} rounds in turns; messages of 256 bytes, delay 1 s"
    )
    report.notes.append("all messages have one schedule and the same headers, which the API compares and makes once")
    report.notes.append("CPU of all threads of the server's process, until every message of the round is delivered")
    return report


def _measure(report: Report, folder: Path, seconds: int) -> None:
    single, batch = _script(folder / "single.lua", MESSAGE % 7), _script(folder / "batch.lua", _batch())
    with (
        delayline(folder / "data") as ours,
        _keyed(folder) as keyed,
        _with_token(folder) as tokened,
        _floor() as floor,
    ):
        shown = _script(folder / "shown.lua", MESSAGE % 7, key=keyed.key)
        token = _script(folder / "token.lua", MESSAGE % 7, key=tokened.key)
        turns = [
            ("ours", ours, single),
            ("keyed", keyed, shown),
            ("with a token", tokened, token),
            ("floor", floor, single),
            ("ours, batches", ours, batch),
            ("floor, batches", floor, batch),
        ]
        laps = {name: Laps() for name, _, _ in turns}
        for _, server, kind in turns[:4]:
            _load(server, kind, 1)
        for _ in range(ROUNDS):
            for name, server, kind in turns:
                _lap(laps[name], server, kind, seconds)
        _report(report, laps["ours"], laps["floor"], laps["ours, batches"], laps["floor, batches"])
        for name, what in (("keyed", "a key"), ("with a token", "a token")):
            ratios = [
                shown / without for shown, without in zip(laps[name].per_cpu_s, laps["ours"].per_cpu_s, strict=True)
            ]
            report.add(f"single sends with {what}, of those without", median(ratios), "", Target(">=", 0.9))
        half = median(laps["ours"].per_s) / 2
        paced = _script(folder / "paced.lua", MESSAGE % 7, pause_ms=1000 * CONNECTIONS / half)
        p99_ms = median(_load(ours, paced, seconds)[2] for _ in range(ROUNDS))
        report.add(f"single sends at half load ({half:,.0f}/s), p99", p99_ms, "ms", Target("<", 20))


def _report(report: Report, single: Laps, single_floor: Laps, batch: Laps, batch_floor: Laps) -> None:
    per_cpu_s, floor = median(single.per_cpu_s), median(single_floor.per_cpu_s)
    ratios = [ours / bare for ours, bare in zip(single.per_cpu_s, single_floor.per_cpu_s, strict=True)]
    report.add("single sends per CPU second", per_cpu_s, "requests")
    report.add("up to the answer", median(single.answered_per_cpu_s), "requests")
    report.add("bare Starlette route", floor, "requests")
    report.add("single sends, of the bare route", median(ratios), "", Target(">=", 0.45))
    report.add("single sends per second", median(single.per_s), "requests")
    report.add("single sends, p99", median(single.p99_ms), "ms")
    batched = median(batch.per_cpu_s) * BATCH
    report.add(f"messages per CPU second, {BATCH} per request", batched, "messages", Target(">=", 40_000))
    report.add("up to the answer", median(batch.answered_per_cpu_s) * BATCH, "messages")
    report.add(f"bare route, {BATCH} per request", median(batch_floor.per_cpu_s) * BATCH, "messages")
    report.add(f"messages per second, {BATCH} per request", median(batch.per_s) * BATCH, "messages")
    report.add("batches, p99", median(batch.p99_ms), "ms")


@contextmanager
def _keyed(folder: Path) -> Iterator[Server]:
    """A server of its own, where every client shows a key and a rule allows it to send."""
    token = new_token()
    key = AccessKey(token.key_id, "bench", Hasher().hash(token.secret), made_ms=0)
    keys, rules = folder / "keys.json", _rules(folder, "bench")
    keys.write_bytes(AccessKeys([key]).encoded())
    settings = {"API__AUTH": "keys", "ACCESS__KEYS": str(keys), "ACCESS__RULES": str(rules)}
    with delayline(folder / "keyed", settings) as server:
        yield replace(server, key=str(token))


@contextmanager
def _with_token(folder: Path) -> Iterator[Server]:
    """The same, where every client shows a token of an identity provider, with ten groups."""
    with served(SystemClock()) as provider:
        groups = [f"group-{number}" for number in range(10)]
        token = provider.access_token(exp=provider.now_s + 3600, groups=groups)
        settings = {
            "API__AUTH": "keys",
            "ACCESS__RULES": str(_rules(folder, "oidc:svc")),
            "ACCESS__OIDC__ISSUER": provider.issuer,
            "ACCESS__OIDC__AUDIENCE": AUDIENCE,
            "ACCESS__OIDC__GROUPS_CLAIM": "groups",
        }
        with delayline(folder / "with-token", settings) as server:
            yield replace(server, key=token)


def _rules(folder: Path, principal: str) -> Path:
    file = folder / f"{principal.replace(':', '-')}.toml"
    file.write_text(f'[[rule]]\nprincipals = ["{principal}"]\ntopics = ["*"]\nacts = ["send", "metrics"]\n')
    return file


def _batch() -> str:
    return '{"messages":[' + ",".join(MESSAGE % n for n in range(BATCH)) + "]}"


def _script(file: Path, body: str, pause_ms: float = 0, key: str = "") -> Path:
    """A wrk script that posts `body`; with a pause of so long on average between two requests of a connection."""
    lines = ['wrk.method = "POST"', 'wrk.headers["Content-Type"] = "application/json"', f"wrk.body = [==[{body}]==]"]
    if key:
        lines.append(f'wrk.headers["Authorization"] = "Bearer {key}"')
    if pause_ms:
        lines.append(f"function delay() return math.random(0, {round(2 * pause_ms)}) end")
    file.write_text("\n".join(lines) + "\n")
    return file


def _lap(laps: Laps, server: Server, script: Path, seconds: int) -> None:
    before = server.cpu_s()
    requests, took_s, p99_ms = _load(server, script, seconds)
    laps.answered_per_cpu_s.append(requests / (server.cpu_s() - before))
    server.wait_delivered()
    laps.per_cpu_s.append(requests / (server.cpu_s() - before))
    laps.per_s.append(requests / took_s)
    laps.p99_ms.append(p99_ms)


def _load(server: Server, script: Path, seconds: int) -> tuple[int, float, float]:
    """(requests answered, seconds, 99th percentile in ms). Raises RuntimeError when one was not answered well."""
    command = [
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{seconds}s",
        "--timeout",
        "10s",
        "--latency",
        "-s",
        str(script),
        server.url + PATH,
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate, p99 = _RATE.search(text), _P99.search(text)
    if _ERRORS.search(text) or rate is None or p99 is None:
        raise RuntimeError(f"the load did not go well:\n{text}")
    return int(rate[1]), float(rate[2]) * (60 if rate[3] == "m" else 1), float(p99[1]) * _in_ms(p99[2])


def _in_ms(unit: str) -> float:
    return {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]


@contextmanager
def _floor() -> Iterator[Server]:
    port = free_port()
    with process([sys.executable, "-m", "bench.http", str(port)], port, dict(os.environ), delivers=False) as server:
        yield server


def _serve_floor(port: int) -> None:
    """The bare route: reads the body and answers as many bytes as an accepted message has."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        await request.body()
        return Response(b"x" * 230, 201, media_type="application/json")

    app = Starlette(routes=[Route("/v1/topics/{topic}/messages", answer, methods=["POST"]), Route("/readyz", answer)])
    uvicorn.run(app, port=port, loop="uvloop", http="httptools", access_log=False, log_level="warning")


if __name__ == "__main__":
    _serve_floor(int(sys.argv[1]))
