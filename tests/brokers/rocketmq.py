"""A RocketMQ of one name server and one broker, or several masters, on free ports of 127.0.0.1.

All can be stopped, killed, frozen and started again on the same ports and data. Every process is ended by its
pid, and by its guard when this process ends in some other way. Output and data lie in .cache/brokers/run.
"""

import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from string import Template
from typing import Any

from rocketmq.client.client import Client
from rocketmq.client.settings import ClientSettings
from rocketmq.errors import RocketmqError
from tests.brokers import archive
from tests.brokers.distribution import CACHE, Unavailable, copy_once
from tests.brokers.guarded import Guarded
from tests.brokers.kafka import QUICK_START, STOP_S, run_folder
from tests.ports import free_range, is_listening

VERSION = "5.5.0"
BROKERS = ("broker-a", "broker-b", "broker-c")
BROKER = BROKERS[0]
START_S = 120.0
"""Four to twelve on a quiet machine."""
HERE = Path(__file__).parent
_SMALL = ["-XX:+UseSerialGC", "-Xss512k", "-XX:ReservedCodeCacheSize=64m", "-XX:MaxMetaspaceSize=128m"]
_NAME_SERVER_HEAP = ["-Xms32m", "-Xmx64m"]
_BROKER_HEAP = ["-Xms192m", "-Xmx256m", "-XX:MaxDirectMemorySize=192m"]


def jars() -> Path:
    """The folder with RocketMQ's jars, fetched where it is missing. Raises Unavailable."""
    if shutil.which("java") is None:
        raise Unavailable("there is no java on the path")
    lib = CACHE / f"rocketmq-{VERSION}" / "lib"
    copy_once(HERE / "rocketmq-pom.xml", lib, f"-Drocketmq.version={VERSION}", "-DincludeScope=runtime")
    return lib


class Server:
    """One process: the name server, or the broker."""

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self.port = port
        self._command = command
        self._process = Guarded(log)

    @property
    def log(self) -> Path:
        return self._process.log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.running

    def start(self) -> None:
        self._process.start(self._command)

    def stop(self, within_s: float = STOP_S) -> None:
        """Orderly, as far as that takes no longer than `within_s`."""
        self._process.signal(signal.SIGCONT)
        self._process.signal(signal.SIGTERM)
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.signal(signal.SIGKILL)
        self._process.wait(STOP_S)

    def freeze(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.signal(signal.SIGCONT)


class RocketMq:
    """Raises Unavailable where there can be none."""

    def __init__(
        self,
        masters: int = 1,
        *,
        java_options: Sequence[str] = QUICK_START,
        broker_options: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Leave `java_options` out where speed is measured. `properties` are added to those of brokers. Over `tls`
        they are asked; `java_options` make them take it."""
        self._tls = tls
        self._lib = lib = jars()
        self._folder = folder = run_folder()
        name_port, *ports = range(first := free_range(1 + 3 * masters), first + 1 + 3 * masters)
        (folder / "names.conf").write_text(f"listenPort={name_port}\nkvConfigPath={folder}/kv.json\n")
        java = ["java", *_SMALL, *archive.options(lib), *java_options, f"-Drocketmq.home.dir={folder}"]
        java += [f"-Duser.home={folder}", f"-Drmq.logback.configurationFile={HERE}/rocketmq-logback.xml"]
        on = ["-cp", f"{lib}/*"]
        names = [*java, *_NAME_SERVER_HEAP, *on, "org.apache.rocketmq.namesrv.NamesrvStartup"]
        broker = [*java, *broker_options, *_BROKER_HEAP, *on, "org.apache.rocketmq.broker.BrokerStartup"]
        self.name_server = Server([*names, "-c", f"{folder}/names.conf"], name_port, folder / "names.log")
        self.brokers: dict[str, Server] = {}
        for name, ha_port, port in zip(BROKERS[:masters], ports[1::3], ports[2::3], strict=True):
            # The broker listens on port - 2 too (the VIP channel), and its replicas on another.
            conf = Template((HERE / "rocketmq.conf").read_text()).substitute(
                name=name, port=port, ha_port=ha_port, name_port=name_port, data=self.data(name)
            )
            more = "".join(f"{key}={value}\n" for key, value in (properties or {}).items())
            (folder / f"{name}.conf").write_text(conf + more)
            self.brokers[name] = Server([*broker, "-c", f"{folder}/{name}.conf"], port, folder / f"{name}.log")

    @property
    def broker(self) -> Server:
        """The first one."""
        return self.brokers[BROKER]

    def data(self, broker: str) -> Path:
        """What it stores."""
        return self._folder / "data" / broker

    @property
    def settings(self) -> ClientSettings:
        return ClientSettings((f"127.0.0.1:{self.name_server.port}",), tls=self._tls)

    def start(self) -> None:
        """Returns when the broker is registered and answers. Raises Unavailable."""
        archive.make_once(self._lib, _dump)
        self.start_as_is()

    def start_as_is(self) -> None:
        """Without the archive of loaded classes, where there is none yet. Raises Unavailable."""
        self.name_server.start()
        self._wait(lambda: is_listening(self.name_server.port), self.name_server)
        for broker in self.brokers.values():
            broker.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until a client finds each broker, and the broker answers. Raises Unavailable."""
        for name in self.brokers:
            self.wait_for(name)

    def wait_for(self, name: str) -> None:
        """Until a client finds this broker, and it answers. Raises Unavailable."""
        with closing(Client(self.settings)) as client:
            self._wait(lambda: _answers(client, name), self.brokers[name])

    def _wait(self, is_there: Callable[[], bool], server: Server) -> None:
        until_s = time.monotonic() + START_S
        while not is_there():
            if not server.running or time.monotonic() > until_s:
                self.close()
                raise Unavailable(f"RocketMQ did not start; see {server.log}")
            time.sleep(0.1)

    def close(self) -> None:
        """End both; the logs stay for a day."""
        for server in (*self.brokers.values(), self.name_server):
            server.kill()
        shutil.rmtree(self._folder / "data", ignore_errors=True)


def _dump(file: Path) -> None:
    """The classes of a broker that has started, into `file`; the name server has all of its own among them."""
    with closing(RocketMq(broker_options=[f"-XX:ArchiveClassesAtExit={file}"])) as first:
        first.start_as_is()
        first.broker.stop(archive.DUMP_S)


def _answers(client: Client, broker: str) -> bool:
    try:
        client.admin.create_group("ready", broker)
    except RocketmqError:
        return False
    return True


@contextmanager
def started(masters: int = 1, **options: Any) -> Iterator[RocketMq]:
    """Raises Unavailable."""
    with closing(RocketMq(masters, **options)) as server:
        server.start()
        yield server
