"""`python -m demo.server <ms>`: `delayline serve` with a clock that is so far behind, and is put forward by the
number of milliseconds in each line of standard input.

So an hour passes in seconds: what is judged by windows of five minutes could not be shown otherwise.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import api.server
from cli.assembly import everything
from delayline.clock import SystemClock
from delayline.config import load_settings
from delayline.process import logs
from delayline.process.watched import Watcher


class BackwardClock:
    """The machine's clock, some time behind. Only its wall time jumps."""

    def __init__(self, behind_ms: int) -> None:
        self._system = SystemClock()
        self._behind_ms = behind_ms

    def now_ms(self) -> int:
        return self._system.now_ms() - self._behind_ms

    def monotonic_s(self) -> float:
        return self._system.monotonic_s()

    def put_forward(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._behind_ms -= int(line)
            print(f"behind {self._behind_ms}", flush=True)


def main() -> None:
    settings = load_settings(None, {}, os.environ, Path.cwd())
    logs.configure(settings.log.format, settings.log.level)
    clock = BackwardClock(int(sys.argv[1]))
    Thread(target=clock.put_forward, args=(sys.stdin,), daemon=True).start()
    with Watcher() as watcher, everything(settings, clock, watcher) as process:
        api.server.serve(
            api.server.HttpPort(process.app, settings.api.host, settings.api.port, "api.port"),
            on_started=lambda port: print(f"http://{settings.api.host}:{port}", flush=True),
        )
    process.raise_failure()


if __name__ == "__main__":
    main()
