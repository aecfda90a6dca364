"""A RocketMQ of one name server and one broker, or several masters, with replicas or not, on free ports of 127.0.0.1.

All can be stopped, killed, frozen and started again on the same ports and data. Every process is ended by its
pid, and by its guard when this process ends in some other way. Output and data lie in .cache/brokers/run.
"""

import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from rocketmq.client.client import Client
from rocketmq.client.settings import ClientSettings
from rocketmq.errors import RocketmqError
from rocketmq.wire.acl import AclCredentials
from tests.brokers import archive
from tests.brokers.distribution import CACHE, Unavailable, copy_once
from tests.brokers.guarded import Guarded
from tests.brokers.kafka import QUICK_START, STOP_S, run_folder
from tests.ports import free_range, is_listening

VERSION = "5.5.0"
BROKERS = ("broker-a", "broker-b", "broker-c")
BROKER = BROKERS[0]
PORTS_PER_BROKER = 3
"""One on which it listens, the one two below (the VIP channel), and one for its replicas."""
START_S = 120.0
"""Four to twelve on a quiet machine."""
QUICK_CHECKS = {
    "transactionCheckInterval": "3000",
    "transactionTimeOut": "5000",
    "transactionCheckMax": "1000",
    "transactionOpBatchInterval": "100",
}
"""Of a broker that asks for the outcome of a transaction soon, and often; but of none that its producer is about to
end, nor of one that has just ended, which would be committed twice."""
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
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

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


@dataclass
class RocketMqAt:
    """Where a RocketMQ answers: what a test gets of one that it shares with others (shared.py)."""

    settings: ClientSettings
    brokers: Collection[str]


class RocketMq(RocketMqAt):
    """Raises Unavailable where there can be none."""

    def __init__(
        self,
        masters: int = 1,
        *,
        replicas: int = 0,
        java_options: Sequence[str] = QUICK_START,
        broker_options: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        replicated: Mapping[str, str] | None = None,
        name_server_properties: Mapping[str, str] | None = None,
        has_controller: bool = False,
        tls: ssl.SSLContext | None = None,
        credentials: AclCredentials | None = None,
    ) -> None:
        """The first master has so many `replicas`; with a controller, in the name server, one of them may take its
        place. Leave `java_options` out where speed is measured. `properties` are added to those of brokers,
        `replicated` to those of the master that has replicas. Over `tls` they are asked; `java_options` make them
        take it. `credentials` are an account that may do all."""
        self._lib = lib = jars()
        self._folder = folder = run_folder()
        nodes = [*((name, 0) for name in BROKERS[:masters]), *((BROKER, number) for number in range(1, 1 + replicas))]
        count = 2 + PORTS_PER_BROKER * len(nodes)
        name_port, self._controller_port, *ports = range(first := free_range(count), first + count)
        java = ["java", *_SMALL, *archive.options(lib), *java_options, f"-Drocketmq.home.dir={folder}"]
        java += [f"-Duser.home={folder}", f"-Drmq.logback.configurationFile={HERE}/rocketmq-logback.xml"]
        on = ["-cp", f"{lib}/*"]
        names = [*java, *_NAME_SERVER_HEAP, *on, "org.apache.rocketmq.namesrv.NamesrvStartup"]
        self._broker_command = [
            *java,
            *broker_options,
            *_BROKER_HEAP,
            *on,
            "org.apache.rocketmq.broker.BrokerStartup",
        ]
        self._properties = {**(properties or {}), **(self._with_controller() if has_controller else {})}
        self._replicated = replicated or {}
        where = {"listenPort": str(name_port), "kvConfigPath": f"{folder}/kv.json"}
        more = {**(name_server_properties or {}), **(self._controller() if has_controller else {})}
        _write(folder / "names.conf", where | more)
        self.name_server = Server([*names, "-c", f"{folder}/names.conf"], name_port, folder / "names.log")
        super().__init__(ClientSettings((self.name_server.address,), credentials, tls), {})
        self.brokers: dict[str, Server] = {}
        self.replicas: list[Server] = []
        for (name, number), port, ha_port in zip(
            nodes, ports[2::PORTS_PER_BROKER], ports[1::PORTS_PER_BROKER], strict=True
        ):
            server = self._node(name, number, port, ha_port)
            if number:
                self.replicas.append(server)
            else:
                self.brokers[name] = server

    def _node(self, name: str, number: int, port: int, ha_port: int) -> Server:
        """Of a broker: 0 is its master, as long as no controller decides that."""
        node = f"{name}-{number}" if number else name
        conf = Template((HERE / "rocketmq.conf").read_text()).substitute(
            name=name, port=port, ha_port=ha_port, name_port=self.name_server.port, data=self.data(node)
        )
        role = {"brokerId": str(number), "brokerRole": "SLAVE"} if number else {}
        more = self._replicated if node == BROKER else {}
        _write(file := self._folder / f"{node}.conf", {**self._properties, **role, **more}, conf)
        return Server([*self._broker_command, "-c", str(file)], port, self._folder / f"{node}.log")

    def _controller(self) -> dict[str, str]:
        """Of the name server: the only controller (RIP-44)."""
        return {
            "enableControllerInNamesrv": "true",
            "controllerDLegerGroup": "controllers",
            "controllerDLegerPeers": f"n0-127.0.0.1:{self._controller_port}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": str(self.data("controller")),
        }

    def _with_controller(self) -> dict[str, str]:
        """Of brokers."""
        return {"enableControllerMode": "true", "controllerAddr": f"127.0.0.1:{self._controller_port}"}

    @property
    def broker(self) -> Server:
        """The first one."""
        return self.brokers[BROKER]

    @property
    def nodes(self) -> list[Server]:
        """Masters and replicas."""
        return [*self.brokers.values(), *self.replicas]

    def data(self, broker: str) -> Path:
        """What it stores; `broker-a-1` is the first replica of `broker-a`."""
        return self._folder / "data" / broker

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
        for replica in self.replicas:
            replica.start()
            self.wait_registered(replica)

    def wait_ready(self) -> None:
        """Until a client finds each broker, and the broker answers. Raises Unavailable."""
        for name in self.brokers:
            self.wait_for(name)

    def wait_for(self, name: str) -> None:
        """Until a client finds this broker, and it answers. Raises Unavailable."""
        with closing(Client(self.settings)) as client:
            self._wait(lambda: _answers(client, name), self.brokers[name])

    def wait_registered(self, server: Server) -> None:
        """Until the name server knows this master or replica. Raises Unavailable."""
        with closing(Client(self.settings)) as client:
            self._wait(lambda: server.address in _registered(client), server)

    def master(self) -> Server:
        """The first broker's; a controller may have elected a replica. Raises Unavailable."""
        return self.wait_for_other_master(None)

    def wait_for_other_master(self, former: Server | None) -> Server:
        """Of the first broker, once it has another than that. Raises Unavailable."""
        of_first = {one.address: one for one in (self.broker, *self.replicas) if one is not former}
        with closing(Client(self.settings)) as client:
            self._wait(lambda: client.admin.brokers().get(BROKER) in of_first, self.name_server)
            return of_first[client.admin.brokers()[BROKER]]

    def _wait(self, is_there: Callable[[], bool], server: Server) -> None:
        until_s = time.monotonic() + START_S
        while not is_there():
            if not server.running or time.monotonic() > until_s:
                self.close()
                raise Unavailable(f"RocketMQ did not start; see {server.log}")
            time.sleep(0.1)

    def close(self) -> None:
        """End both; the logs stay for a day."""
        for server in (*self.nodes, self.name_server):
            server.kill()
        shutil.rmtree(self._folder / "data", ignore_errors=True)


def _dump(file: Path) -> None:
    """The classes of a broker that has started, into `file`; the name server has all of its own among them."""
    with closing(RocketMq(broker_options=[f"-XX:ArchiveClassesAtExit={file}"])) as first:
        first.start_as_is()
        first.broker.stop(archive.DUMP_S)


def _write(file: Path, properties: Mapping[str, str], before: str = "") -> None:
    file.write_text(before + "".join(f"{key}={value}\n" for key, value in properties.items()))


def _registered(client: Client) -> set[str]:
    return {address for one in client.names.cluster() for address in one.addresses.values()}


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
