"""A Spark cluster of one worker on 127.0.0.1, of the Spark that pyspark brings."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from signal import SIGTERM

from tests.brokers.distribution import Unavailable
from tests.brokers.guarded import Guarded
from tests.ports import free_range

READY_WITHIN_S = 120.0
SUBMITTED_WITHIN_S = 400.0

SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
EXECUTORS = 2


class Cluster:
    """`url` is the master's."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("java") is None:
            raise Unavailable("there is no java on the path")
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        self._home = Path(spec.origin).parent
        self._folder = folder
        first = free_range(4)
        self._ports = range(first, first + 4)
        self.url = f"spark://127.0.0.1:{first}"

    def environment(self) -> dict[str, str]:
        """Without what makes other tests' Spark quick: queries are compiled here, as where the job is at home."""
        kept = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
        return {
            **kept,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_WORKER_DIR": str(self._folder / "work"),
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL,
        }

    @contextmanager
    def started(self) -> Iterator[None]:
        """A master, and a worker that it knows of. Raises Unavailable."""
        port, page, worker, worker_page = map(str, self._ports)
        here = ["--host", "127.0.0.1"]
        with ExitStack() as stack:
            master = ["master.Master", *here, "--port", port, "--webui-port", page]
            self._start(stack, "master", master, "I have been elected leader")
            size = ["--cores", f"{EXECUTORS}", "--memory", "2g", "--port", worker, "--webui-port", worker_page]
            self._start(stack, "worker", ["worker.Worker", *here, *size, self.url], "Successfully registered")
            yield

    def _start(self, stack: ExitStack, name: str, arguments: Sequence[str], line: str) -> None:
        process = Guarded(self._folder / f"{name}.log")
        stack.callback(process.wait, 20)
        stack.callback(process.signal, SIGTERM)
        spark_class = str(self._home / "bin" / "spark-class")
        package, *rest = arguments
        process.start([spark_class, f"org.apache.spark.deploy.{package}", *rest], self.environment())
        deadline = time.monotonic() + READY_WITHIN_S
        while line not in process.log.read_text(errors="replace"):
            if not process.running or time.monotonic() > deadline:
                raise Unavailable(f"no Spark {name}: {process.log.read_text(errors='replace')[-500:]}")
            time.sleep(0.1)

    def submit(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """`spark-submit ARGUMENTS`, made small."""
        spark_submit = str(self._home / "bin" / "spark-submit")
        small = {
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": f"{EXECUTORS}",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": SMALL,
            "spark.executor.extraJavaOptions": SMALL,
        }
        settings = [part for key, value in small.items() for part in ("--conf", f"{key}={value}")]
        return subprocess.run(
            [spark_submit, *settings, *arguments],
            cwd=cwd,
            env={**self.environment(), **environ},
            capture_output=True,
            text=True,
            timeout=SUBMITTED_WITHIN_S,
        )
