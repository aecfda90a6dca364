"""`delayline serve | api | worker`: the processes of an installation."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cli.failure import USAGE, Failure
from cli.http_client import DEFAULT_URL
from cli.options import ConfigPath
from delayline import __version__
from delayline.clock import Clock, SystemClock

if TYPE_CHECKING:
    from api.app import DelaylineApi
    from api.server import HttpPort
    from cli.assembly import Process
    from delayline.config import Settings
    from delayline.process.tls import TlsContext
    from delayline.process.watched import Watcher

    Rooms = Callable[[Settings, Clock, Watcher], AbstractContextManager[Process]]

Host = Annotated[str | None, typer.Option(help="Instead of api.host.")]
Port = Annotated[int | None, typer.Option(help="Instead of api.port.")]
WorkerHost = Annotated[str | None, typer.Option(help="Instead of worker.host.")]
WorkerPort = Annotated[int | None, typer.Option(help="Instead of worker.port.")]
AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss", help="Start although the embedded queue lacks acknowledged data, and give that up."
    ),
]
DataDir = Annotated[str | None, typer.Option(help="Instead of data_dir.")]


class Address(NamedTuple):
    """Where a process answers HTTP, and the setting that the port comes from."""

    host: str
    port: int
    setting: str


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (serve, api, worker):
        app.command()(command)


def serve(
    config: ConfigPath = None,
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    accept_loss: AcceptLoss = False,
) -> None:
    """Run everything in one process: HTTP and a worker; on the embedded queue, that too."""
    settings = read_settings(config, {"api.host": host, "api.port": port, "data_dir": data_dir})
    if accept_loss and settings.mq.kind != "embedded":
        raise Failure("--accept-loss is for the embedded queue", USAGE)
    from cli.assembly import everything  # here: other commands would wait 0.4 s for rooms they do not enter

    run_process(
        settings,
        partial(everything, accept_loss=accept_loss),
        Address(settings.api.host, settings.api.port, "api.port"),
        serve_welcome,
    )


def api(config: ConfigPath = None, host: Host = None, port: Port = None) -> None:
    """Run only the HTTP API, beside workers in other processes; start as many as you like."""
    settings = read_settings(config, {"api.host": host, "api.port": port})
    _refuse_embedded(settings, "api")
    from cli.assembly import api_alone

    address = Address(settings.api.host, settings.api.port, "api.port")
    run_process(settings, api_alone, address, api_welcome)


def worker(
    config: ConfigPath = None, host: WorkerHost = None, port: WorkerPort = None, data_dir: DataDir = None
) -> None:
    """Run a worker alone, with a port for health and metrics; as many as there are shards, each with a data_dir of
    its own."""
    settings = read_settings(config, {"worker.host": host, "worker.port": port, "data_dir": data_dir})
    _refuse_embedded(settings, "worker")
    from cli.assembly import worker_alone

    address = Address(settings.worker.host, settings.worker.port, "worker.port")
    run_process(settings, worker_alone, address, _worker_welcome)


def read_settings(config: Path | None, flags: dict[str, str | int | None]) -> "Settings":
    """With these flags, this environment and this folder. Raises ConfigError."""
    from delayline.config import load_settings

    return load_settings(config, flags, os.environ, Path.cwd())


def _refuse_embedded(settings: "Settings", command: str) -> None:
    if settings.mq.kind == "embedded":
        from delayline.errors import ConfigError

        raise ConfigError(
            f"mq.kind: the embedded queue runs in one process, so there is no {command} of its own: use `serve`."
        )


def run_process(
    settings: "Settings", rooms: "Rooms", address: Address, welcome: "Callable[[Settings, str, str], str]"
) -> None:
    """Until a signal stops it. Raises CannotListen, and whatever ended one of its threads."""
    from api.server import HttpPort
    from api.server import serve as serve_ports
    from cli.certificates import api_tls, metrics_tls
    from delay_service.worker.interpreter import set_up_interpreter
    from delayline.config.checks import KEYS
    from delayline.http.urls import is_loopback
    from delayline.process import logs
    from delayline.process.dumps import forbid_dumps
    from delayline.process.watched import Watcher

    logs.configure(settings.log.format, settings.log.level)
    forbid_dumps(unless=settings.process.memory_dumps)
    host, is_api = address.host, address.setting == "api.port"
    with Watcher() as watcher:
        for_metrics = metrics_tls(settings, watcher)
        tls = api_tls(settings, watcher) if is_api else for_metrics
        if not is_loopback(host):
            keys = is_api and settings.api.auth == KEYS
            _warn_of_network(logs.get(__name__), host, keys=keys, encrypted=tls is not None)
        with rooms(settings, SystemClock(), watcher) as process:
            set_up_interpreter()
            main = HttpPort(process.app, host, address.port, address.setting, tls)
            others = (
                [] if process.metrics_app is None else [_metrics_port(settings, process.metrics_app, for_metrics)]
            )
            queue = _queue(settings)
            serve_ports(
                main,
                *others,
                on_started=lambda bound: typer.echo(
                    welcome(settings, _url(host, bound, encrypted=tls is not None), queue)
                ),
            )
    process.raise_failure()
    logs.get(__name__).info("stopped")
    if process.worker is not None and process.worker.cut_off:
        _exit_at_once()


def _metrics_port(settings: "Settings", app: "DelaylineApi", tls: "TlsContext | None") -> "HttpPort":
    from api.server import HttpPort

    return HttpPort(app, settings.api.metrics_host, settings.api.metrics_port, "api.metrics_port", tls)


def _exit_at_once() -> None:
    """Without the interpreter's own end, which takes RocksDB from under a thread that is in it: SIGABRT."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _warn_of_network(log: Any, host: str, *, keys: bool, encrypted: bool) -> None:
    if not keys:
        log.warning("there is no authentication: everyone who can reach this address may use it", host=host)
    elif not encrypted:
        log.warning("keys cross the network in the clear: set api.certfile, or put TLS in front", host=host)


def _url(host: str, port: int, *, encrypted: bool) -> str:
    return f"http{'s' if encrypted else ''}://{f'[{host}]' if ':' in host else host}:{port}"


def _queue(settings: "Settings") -> str:
    """Where the messages are, for people."""
    if settings.mq.kind == "embedded":
        return f"embedded queue, data in {settings.data_dir.resolve()}"
    return f"{'Kafka' if settings.mq.kind == 'kafka' else 'RocketMQ'} at {settings.mq.bootstrap_servers}"


def serve_welcome(settings: "Settings", url: str, queue: str) -> str:
    return api_welcome(settings, url, queue, _proxy_note(settings))


def api_welcome(settings: "Settings", url: str, queue: str, proxy_note: str = "") -> str:
    from delayline.config.checks import KEYS

    where = "" if url == DEFAULT_URL else f" --url {url}"
    shown = credential = ""
    if settings.api.auth == KEYS:
        shown, credential = " with a key in $DELAYLINE_KEY", ' -H "authorization: Bearer $DELAYLINE_KEY"'
    return f"""
Delayline {__version__} listens on {url} ({queue})
Console, in a browser: {url}/
{_hint(settings)}{proxy_note}
Watch a topic, in another terminal{shown}:
  {program()} tail orders{where}
Send a message that arrives in five seconds:
  curl -s {url}/v1/topics/orders/messages{credential} -H 'content-type: application/json' \\
    -d '{{"value": {{"order": 7}}, "schedule": {{"delay": "5s"}}}}'
"""


def _hint(settings: "Settings") -> str:
    if settings.delay.topics:
        return ""
    return "No topic takes delays yet: name some in delay.topics (DELAYLINE_DELAY__TOPICS='orders,mail-*').\n"


def _proxy_note(settings: "Settings") -> str:
    if (kafka := settings.proxy.kafka).port:
        return f"Kafka clients: bootstrap.servers={kafka.advertised_host}:{kafka.port}\n"
    if (rocketmq := settings.proxy.rocketmq).port:
        return f"RocketMQ clients: namesrvAddr={rocketmq.advertised_host}:{rocketmq.port}\n"
    return ""


def _worker_welcome(settings: "Settings", url: str, queue: str) -> str:
    return (
        f"Delayline {__version__} worker ({queue}, index in {settings.data_dir.resolve()}); metrics on {url}/metrics"
    )


def program() -> str:
    """This command, as it was typed."""
    return sys.argv[0] if Path(sys.argv[0]).name == "delayline" else f"{sys.executable} -m delayline"
