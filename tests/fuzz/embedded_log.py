"""Files of the embedded queue and of the index, changed, cut, emptied, removed, replaced by folders, links and pipes,
and put back from an older copy, while no server runs.

A server that starts on them has every message that was acknowledged; one that does not start prints the reason, and
has changed nothing. Where it offers `--accept-loss`, that works. A scrub changes nothing either.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Self

import httpx

from tests.acceptance.seen import Seen, seen
from tests.fault.server import COMMAND, ROOT, Server, environment, variables
from tests.fuzz.campaign import Broken, Campaign

MESSAGES = 300
TOPIC = "orders"
START_S = 40.0
WITNESSES = {"queue", "queue.mark", "index.mark"}
"""Older copies of all of these agree with each other (docs/adr/0018-high-water-mark.md)."""

ENDED = re.compile(r"Traceback \(most recent call last\)|panicked|SIGABRT|Fatal Python error")


class EmbeddedLog(Campaign):
    """Each case is a start of a server on a copy of one data folder."""

    name = "embedded"
    covers = ("mq/embedded/*", "store/*")
    judge_every_s = 0.0

    def __init__(self, random: Random, folder: Path) -> None:
        super().__init__(random, folder)
        self.good, self.earlier = folder / "good", folder / "earlier"
        self.ids: set[str] = set()

    def __enter__(self) -> Self:
        server = Server(self.good)
        for part in (MESSAGES // 3, MESSAGES - MESSAGES // 3):
            server.start()
            server.wait_ready()
            try:
                self._send(server, part)
            except BaseException:
                server.kill()
                raise
            if not self.earlier.exists():
                server.stop()
                shutil.copytree(self.good, self.earlier)
        server.kill()
        assert len(self.ids) == MESSAGES
        return self

    def _send(self, server: Server, count: int) -> None:
        with httpx.Client(base_url=server.url, timeout=30) as http:
            for n in range(count // 10):
                body = [{"value": n, "schedule": {"delay": "10h"}} for _ in range(10)]
                sent = http.post(f"/v1/topics/{TOPIC}/messages", json={"messages": body})
                self.ids |= {one["message"]["message_id"] for one in sent.raise_for_status().json()["results"]}

    def case(self) -> str:
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(self.good, data, symlinks=True)
        if self.random.randrange(3) == 0:
            done = [self._put_back(data)]
        else:
            done = [self._harm(data) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        self._done, self._server = ", ".join(done), Server(data)
        try:
            return f"{done[0].split()[0]}: {self._outcome(self._server)}"
        finally:
            self._server.kill()

    def _put_back(self, data: Path) -> str:
        """Older copies of some of what lies in `data_dir`, but not of everything that knows how far the log went."""
        names = sorted(path.name for path in self.earlier.iterdir())
        chosen = [name for name in names if self.random.randrange(2)]
        if set(chosen) >= WITNESSES:
            chosen.remove(self.mutator.pick(of=sorted(WITNESSES)))
        for name in chosen:
            if (data / name).is_dir():
                shutil.rmtree(data / name)
                shutil.copytree(self.earlier / name, data / name)
            else:
                shutil.copy2(self.earlier / name, data / name)
        return f"put-back {' '.join(chosen)}"

    def _harm(self, data: Path) -> str:
        files = sorted(path for path in data.rglob("*") if path.is_file())
        file = self.mutator.pick(of=files)
        name = file.relative_to(data)
        content = file.read_bytes()
        match self.random.randrange(9):
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
            case 4:
                file.unlink()
                file.mkdir()
                return f"folder {name}"
            case 5:
                file.unlink()
                file.symlink_to(data / "nowhere" / "at-all")
                return f"link {name}"
            case 6:
                file.unlink()
                os.mkfifo(file)
                return f"pipe {name}"
            case _:
                file.write_bytes(self.mutator.some(content))
                return f"changed {name}"

    def _outcome(self, server: Server) -> str:
        before = seen(server.data_dir)
        self._scrub(server.data_dir)
        self._unchanged(server, before, "a scrub")
        server.log.unlink(missing_ok=True)
        server.start()
        try:
            server.wait_alive()
        except AssertionError:
            refusal = self._refused(server)
            self._unchanged(server, before, "a start that was refused")
            return f"{refusal}, {self._way_out(server)}" if "--accept-loss" in self._output(server) else refusal
        return self._held(server)

    def _scrub(self, data: Path) -> None:
        environ = environment(**variables({"data_dir": str(data)}))
        ran = subprocess.run(
            [sys.executable, *COMMAND, "scrub"], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
        )
        if ran.returncode not in (0, 1, 3) or ENDED.search(ran.stdout + ran.stderr):
            raise Broken(f"{self._done}: scrub ended with {ran.returncode}: {ran.stdout}{ran.stderr}")

    def _unchanged(self, server: Server, before: Mapping[str, Seen], by: str) -> None:
        after = seen(server.data_dir)
        if changed := sorted(name for name in before.keys() | after if before.get(name) != after.get(name)):
            raise Broken(f"{self._done}: {by} has changed {', '.join(changed)}; {self._output(server)}")

    def _way_out(self, server: Server) -> str:
        """With what it asks for it starts: not with all messages, but ready."""
        server.kill()
        server.log.unlink(missing_ok=True)
        server.flags = ("--accept-loss",)
        server.start()
        try:
            server.wait_alive()
        except AssertionError:
            raise Broken(
                f"{self._done}: --accept-loss does not go on: {self._refused(server)}, {self._output(server)}"
            ) from None
        return "accepted"

    def _output(self, server: Server) -> str:
        return server.log.read_text(errors="replace")[-2000:] if server.log.exists() else ""

    def _refused(self, server: Server) -> str:
        output = self._output(server)
        if not output.strip() or ENDED.search(output):
            raise Broken(f"{self._done}: no sentence for an operator: {output}")
        return "refused"

    def _held(self, server: Server) -> str:
        """It runs: then it has all of them, or it reports that it is not ready, or ends with a reason."""
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
