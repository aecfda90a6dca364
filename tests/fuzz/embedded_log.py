"""Files of the embedded queue and of the index, changed, cut, emptied and removed while no server runs.

A server that starts on them has every message that was acknowledged; one that does not start says why, with figures.
"""

import re
import shutil
import time
from pathlib import Path
from random import Random
from typing import Self

import httpx

from tests.fault.server import Server
from tests.fuzz.campaign import Broken, Campaign

MESSAGES = 300
TOPIC = "orders"
START_S = 40.0
ENDED = re.compile(r"Traceback \(most recent call last\)|panicked|SIGABRT|Fatal Python error")


class EmbeddedLog(Campaign):
    """Each case is a start of a server on a copy of one data folder."""

    name = "embedded"
    covers = ("mq/embedded/*", "store/*")
    judge_every_s = 0.0

    def __init__(self, random: Random, folder: Path) -> None:
        super().__init__(random, folder)
        self.good = folder / "good"
        self.ids: set[str] = set()

    def __enter__(self) -> Self:
        server = Server(self.good)
        server.start()
        server.wait_ready()
        try:
            with httpx.Client(base_url=server.url, timeout=30) as http:
                for n in range(MESSAGES // 10):
                    body = [{"value": n, "schedule": {"delay": "10h"}} for _ in range(10)]
                    sent = http.post(f"/v1/topics/{TOPIC}/messages", json={"messages": body})
                    self.ids |= {one["message"]["message_id"] for one in sent.raise_for_status().json()["results"]}
        finally:
            server.kill()
        assert len(self.ids) == MESSAGES
        return self

    def case(self) -> str:
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(self.good, data)
        done = [self._harm(data) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        self._done, self._server = ", ".join(done), Server(data)
        try:
            return f"{done[0].split()[0]}: {self._outcome(self._server)}"
        finally:
            self._server.kill()

    def _harm(self, data: Path) -> str:
        files = sorted(path for path in data.rglob("*") if path.is_file())
        file = self.mutator.pick(of=files)
        name = file.relative_to(data)
        content = file.read_bytes()
        match self.random.randrange(6):
            case 0:
                file.unlink()
                return f"removed {name}"
            case 1:
                file.write_bytes(b"")
                return f"emptied {name}"
            case 2:
                folder = file.parent
                if folder == data:
                    return self._harm(data)
                shutil.rmtree(folder)
                return f"removed-folder {folder.relative_to(data)}"
            case 3:
                at = self.random.randrange(len(content) + 1)
                file.write_bytes(content[:at])
                return f"cut {name} at {at} of {len(content)}"
            case _:
                file.write_bytes(self.mutator.some(content))
                return f"changed {name}"

    def _outcome(self, server: Server) -> str:
        server.log.unlink(missing_ok=True)
        server.start()
        try:
            server.wait_alive()
        except AssertionError:
            return self._refused(server)
        return self._held(server)

    def _refused(self, server: Server) -> str:
        said = server.log.read_text(errors="replace")
        if not said.strip() or ENDED.search(said):
            raise Broken(f"{self._done}: no sentence for an operator: {said[-2000:]}")
        return "refused"

    def _held(self, server: Server) -> str:
        """It runs: then it has all of them, or it says that it is not ready, or ends with a reason."""
        until = time.monotonic() + START_S
        found = 0
        with httpx.Client(base_url=server.url, timeout=30) as http:
            while time.monotonic() < until:
                try:
                    ready = http.get("/readyz").status_code == 200
                    found = self._found(http)
                except httpx.TransportError:
                    return self._refused(server)
                if ready and found == MESSAGES:
                    return "held"
                time.sleep(0.1)
            if not ready:
                return "not ready"
        raise Broken(f"{self._done}: ready, with {found} of {MESSAGES} messages; {server.tail_of_log()}")

    def _found(self, http: httpx.Client) -> int:
        listed = http.get("/v1/messages", params={"topic": TOPIC, "page_size": 1000})
        if listed.status_code != 200:
            return 0
        return len(self.ids & {row["message_id"] for row in listed.json()["messages"]})

    def judge(self) -> None:
        """Each case is its own judge."""
