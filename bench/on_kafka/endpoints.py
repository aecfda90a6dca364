"""Ways to the broker: straight, through our proxy, through Kroxylicious. Each proxy is a process of its own."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes.child import ROOT
from bench.processes.endpoint import Endpoint, running
from tests.brokers.distribution import Unavailable
from tests.ports import free_range

KROXYLICIOUS = "0.12.0"
NODE_ID = 1
"""Of the one node of a test broker."""

_HERE = Path(__file__).parent


def direct(servers: str) -> Endpoint:
    """The broker itself."""
    return Endpoint("direct", servers)


@contextmanager
def delayline(servers: str, namespace: str, delayed_topics: str) -> Iterator[Endpoint]:
    """`delayline proxy kafka`, which takes delays for the topics that match."""
    port = free_range(1 + NODE_ID)
    environ = {
        **os.environ,
        "DELAYLINE_MQ__KIND": "kafka",
        "DELAYLINE_MQ__BOOTSTRAP_SERVERS": servers,
        "DELAYLINE_NAMESPACE": namespace,
        "DELAYLINE_DELAY__TOPICS": delayed_topics,
        "DELAYLINE_PROXY__KAFKA__PORT": str(port),
        "DELAYLINE_PROXY__KAFKA__NODE_ID_BASE": str(NODE_ID),
        "DELAYLINE_PROXY__KAFKA__NODES_MAX": "1",
        "DELAYLINE_PROXY__KAFKA__METRICS_PORT": "0",
    }
    with running("Delayline", [sys.executable, "-m", "delayline", "proxy", "kafka"], port, environ) as endpoint:
        yield endpoint


@contextmanager
def kroxylicious(servers: str) -> Iterator[Endpoint]:
    """Kroxylicious without filters. Raises Unavailable."""
    lib, port = fetch_kroxylicious(), free_range(1 + NODE_ID)
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        config = Path(folder) / "kroxylicious.yaml"
        config.write_text(_CONFIG.format(servers=servers, port=port, node_id=NODE_ID))
        command = ["java", "-Xmx1g", "-cp", f"{lib}/*", str(_HERE / "Kroxylicious.java"), str(config)]
        with running("Kroxylicious", command, port, os.environ) as endpoint:
            yield endpoint


_CONFIG = """
virtualClusters:
  - name: bench
    targetCluster:
      bootstrapServers: {servers}
    gateways:
      - name: plain
        portIdentifiesNode:
          bootstrapAddress: 127.0.0.1:{port}
          advertisedBrokerAddressPattern: 127.0.0.1
          nodeIdRanges:
            - {{name: nodes, start: {node_id}, end: {node_id}}}
"""


def fetch_kroxylicious() -> Path:
    """The folder with its jars, copied by Maven where it is missing. Raises Unavailable."""
    folder = ROOT / ".cache" / "kroxylicious" / KROXYLICIOUS
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "lib").is_dir():
            _copy_jars(folder)
    return folder / "lib"


def _copy_jars(folder: Path) -> None:
    """All or nothing. (`kroxylicious.xml` lists what is copied.)"""
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("there is no mvn on the path")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        jars = Path(scratch) / "lib"
        command = [maven, "--batch-mode", "--quiet", "--file", str(_HERE / "kroxylicious.xml")]
        command += [f"-Dkroxylicious.version={KROXYLICIOUS}", "dependency:copy-dependencies"]
        done = subprocess.run([*command, f"-DoutputDirectory={jars}"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"Maven could not fetch Kroxylicious: {done.stdout.strip()[:300]}")
        jars.rename(folder / "lib")
