"""The proxy as a process of its own, to be killed."""

import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path

from tests import prepared
from tests.integration.kafka.conftest import soon
from tests.integration.proxy.conftest import NODES_MAX, Proxy

END_S = 10.0
STARTED = re.compile(r"(?:metrics|listens) on (\S+?)(?:/metrics)?[\s)]")


class Child:
    """A process of ours in front of the proxy's broker, on the proxy's ports."""

    def __init__(
        self,
        proxy: Proxy,
        folder: Path,
        command: tuple[str, ...] = ("proxy", "kafka"),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._log = folder / "proxy.log"
        self._command = command
        self._environ = {
            **os.environ,
            "DELAYLINE_MQ__KIND": "kafka",
            "DELAYLINE_MQ__BOOTSTRAP_SERVERS": proxy.place.kafka.bootstrap_servers,
            "DELAYLINE_NAMESPACE": proxy.place.namespace,
            "DELAYLINE_DELAY__TOPICS": "orders-*",
            "DELAYLINE_PROXY__KAFKA__PORT": str(proxy.port),
            "DELAYLINE_PROXY__KAFKA__NODE_ID_BASE": "1",
            "DELAYLINE_PROXY__KAFKA__NODES_MAX": str(NODES_MAX),
            "DELAYLINE_PROXY__KAFKA__METRICS_PORT": "0",
            **(environ or {}),
        }
        self.process: prepared.Running | None = None

    def start(self) -> None:
        starts = len(STARTED.findall(self.output))
        with self._log.open("ab") as log:
            command = ["-m", "delayline", *self._command]
            self.process = prepared.start(command, env=self._environ, stdout=log, stderr=log)
        soon(lambda: len(STARTED.findall(self.output)) > starts or (self.process and self.process.poll() is not None))
        assert self.process.poll() is None, self.output

    @property
    def output(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def url(self) -> str:
        """Of the process' HTTP API."""
        return STARTED.findall(self.output)[-1]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(END_S)

    def stop(self) -> int:
        """Orderly; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_S)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
