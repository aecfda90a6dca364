"""A Kafka of one node or three, on free ports of 127.0.0.1.

Nodes can be stopped, killed, frozen and started again on the same ports and data. Every process is ended by its pid,
and by its guard when this process ends in some other way. Output and data lie in .cache/brokers/run.
"""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.brokers import archive
from tests.brokers.distribution import CACHE, NEWEST, Unavailable, fetch
from tests.brokers.guarded import Guarded
from tests.ports import free_range

HERE = Path(__file__).parent
RUNS = CACHE / "run"
START_S = 60.0
STOP_S = 20.0
KEPT_S = 86_400.0
"""How long the logs of earlier runs stay."""

CLUSTER_ID = "ZGVsYXlsaW5lLXRlc3RzAA"
SMALL_HEAP = [
    *("-Xms192m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=128m", "-Xss512k"),
    *("-XX:ReservedCodeCacheSize=64m", "-XX:MaxDirectMemorySize=64m"),
]
QUICK_START = ["-XX:TieredStopAtLevel=1"]
"""Half the start-up time and half the throughput: leave it out where speed is measured."""


def java(lib: Path, options: Sequence[str], behind: str = "") -> list[str]:
    """A JVM with the jars of `lib`, and with the classes `behind` them."""
    logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}"
    shared = archive.options(lib)
    return ["java", *SMALL_HEAP, *shared, *options, logging, "-cp", f"{lib}/*{behind and ':'}{behind}"]


class Node:
    """One broker and controller process."""

    def __init__(self, lib: Path, folder: Path, port: int, java_options: Sequence[str]) -> None:
        self.port = port
        self._lib = lib
        self._folder = folder
        self._java_options = java_options
        self._process = Guarded(folder / "server.log")

    @property
    def log(self) -> Path:
        return self._process.log

    @property
    def running(self) -> bool:
        return self._process.running

    def format(self) -> None:
        """Prepare the data folder: once for all nodes of this number and version. Raises Unavailable."""
        data, formatted = self._folder / "data", self._lib.with_name(f"formatted-{self._folder.name}")
        if (data / "meta.properties").exists():
            return
        if formatted.is_dir():
            shutil.copytree(formatted, data, dirs_exist_ok=True)
            return
        tool = [*self._java(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
        command = [*tool, "-c", str(self._folder / "server.properties")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"the broker's data folder could not be made: {done.stderr.strip()[-300:]}")
        with tempfile.TemporaryDirectory(dir=self._lib.parent) as scratch, suppress(OSError):
            shutil.copytree(data, made := Path(scratch) / "data")
            made.rename(formatted)  # refused where somebody else was quicker

    def start(self) -> None:
        self._process.start([*self._java(), "kafka.Kafka", str(self._folder / "server.properties")])

    def _java(self) -> list[str]:
        return java(self._lib, self._java_options)

    def stop(self, within_s: float = STOP_S) -> None:
        """Orderly, as far as it takes no longer than `within_s`."""
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
class KafkaAt:
    """Where a Kafka answers: what a test gets of one that it shares with others (shared.py)."""

    bootstrap_servers: str
    sasl_servers: str
    """Users alice (alice-secret) and bob (bob-secret), SASL/PLAIN without TLS."""


class Kafka(KafkaAt):
    """Nodes that form one cluster. Raises Unavailable where there can be none."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        version: str = NEWEST,
        ports: Sequence[int] = (),
        folder: Path | None = None,
        java_options: Sequence[str] = QUICK_START,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`ports` are those of the plaintext listeners, free ones where none are given; `folder` keeps the data,
        which is else removed at the end; `properties` come behind those of the template."""
        self._lib = lib = fetch(version)
        self._keep = folder is not None
        self._folder = folder or run_folder()
        first = free_range(3 * nodes)
        free = range(first, first + 3 * nodes)
        self._ports = list(ports or free[:nodes])
        self._sasl_ports = list(free[nodes : 2 * nodes])
        super().__init__(_local(self._ports), _local(self._sasl_ports))
        controllers = free[2 * nodes :]
        self.nodes = []
        for index, port in enumerate(self._ports):
            own = self._folder / str(index + 1)
            own.mkdir(parents=True, exist_ok=True)
            text = self._properties(index, controllers, own / "data")
            lines = [f"{name}={value}" for name, value in (properties or {}).items()]
            (own / "server.properties").write_text("\n".join([text, *lines, ""]))
            self.nodes.append(Node(lib, own, port, java_options))

    def _properties(self, index: int, controllers: Sequence[int], data: Path) -> str:
        nodes = len(self._ports)
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        return Template((HERE / "server.properties").read_text()).substitute(
            node_id=index + 1,
            voters=voters,
            port=self._ports[index],
            sasl_port=self._sasl_ports[index],
            controller_port=controllers[index],
            data=data,
            replicas=nodes,
            replicas_min=max(1, nodes - 1),
            topics_create=str(self._keep).lower(),
        )

    def start(self) -> None:
        """Returns when every node answers. Raises Unavailable."""
        archive.make_once(self._lib, self._dump)
        self.start_nodes()

    def _dump(self, file: Path) -> None:
        """The classes of a node that has started, into `file`."""
        dumping = [*QUICK_START, f"-XX:ArchiveClassesAtExit={file}"]
        with closing(Kafka(version=self._lib.parent.name, java_options=dumping)) as first:
            first.start_nodes()
            first.nodes[0].stop(archive.DUMP_S)

    def start_nodes(self) -> None:
        for node in self.nodes:
            node.format()
        for node in self.nodes:
            node.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until each of the nodes that run knows all of them, and thus who leads what: one that is behind would
        answer a client that a partition has no leader. Raises Unavailable."""
        deadline = time.monotonic() + START_S
        running = [node for node in self.nodes if node.running]
        while not all(_known_to(node) == len(running) for node in running):
            if not all(node.running for node in running) or time.monotonic() > deadline:
                self.close()
                raise Unavailable(f"the broker did not start; see {self.nodes[0].log}")
            time.sleep(0.2)

    def save(self, folder: Path, *patterns: str) -> None:
        """Copy the nodes' logs, and the folders of these partitions, for a look at the cause."""
        for node in self.nodes:
            kept = folder / node.log.parent.name
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(node.log, kept)
            for pattern in patterns:
                for partition in (node.log.parent / "data").glob(pattern):
                    shutil.copytree(partition, kept / partition.name, dirs_exist_ok=True)

    def close(self) -> None:
        """End every node. The logs stay for a day, the data only where a folder was given."""
        for node in self.nodes:
            node.stop() if self._keep else node.kill()
            if not self._keep:
                shutil.rmtree(node.log.with_name("data"), ignore_errors=True)


def _local(ports: Sequence[int]) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def _known_to(node: Node) -> int:
    """How many nodes this one knows. A client knows one node at first, and asks that one."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 0})
    try:
        return len(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return 0


def run_folder() -> Path:
    RUNS.mkdir(parents=True, exist_ok=True)
    for old in RUNS.iterdir():
        if time.time() - old.stat().st_mtime > KEPT_S:
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(dir=RUNS))
