"""RocketMQ's own client in a process of its own: commands to it, and what its consumers get."""

import base64
import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from rocketmq.wire.acl import AclCredentials
from tests.brokers.java import compiled
from tests.conftest import required

SOURCE = Path(__file__).with_name("JavaClient.java")
LOGBACK = Path(__file__).parents[1] / "brokers" / "rocketmq-logback.xml"
WITHIN_S = 120.0
COMMIT, ROLLBACK, UNKNOWN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"
"""Outcomes of a transaction (`LocalTransactionState`)."""

T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """A message as Java's `MessageExt` shows it. `consumer`: who got it; "" where it was asked for."""

    body: bytes
    properties: Mapping[str, str]
    topic: str
    queue: int
    flag: int
    sys_flag: int
    born_ms: int
    stored_ms: int
    seen_ms: int
    reconsume_times: int
    msg_id: str
    consumer: str = ""


Got = Callable[[int], list[Seen]]
"""What a consumer has got, once it is so many at least."""


class Thrown(AssertionError):
    """By Java's client: its text is the exception's."""


class JavaClient:
    """Ends with `close`, or with this process. It signs with an `account`. Raises Unavailable where there is no
    Java."""

    def __init__(self, name_server: str, folder: Path, account: AclCredentials | None = None) -> None:
        options = [
            f"-Duser.home={folder}",
            f"-Drocketmq.client.localOffsetStoreDir={folder}",
            f"-Drmq.logback.configurationFile={LOGBACK}",
            "-Drocketmq.client.rebalance.waitInterval=500",
            f"-Dcom.rocketmq.remoting.client.connect.timeout={WITHIN_S * 1000:.0f}",
            "-Dcom.rocketmq.recall.default.trace.enable=true",
        ]
        command = [*compiled(SOURCE, folder, *options), name_server, *(account or ())[:2]]
        self._log = folder / "java.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._changed = threading.Condition()
        self._numbers = count()
        self._answers: list[dict[str, Any]] = []
        self._got: list[Seen] = []
        self._streamed: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @contextmanager
    def consuming(self, group: str, topic: str, *, tags: str = "*", **how: Any) -> Iterator[Got]:
        """A consumer that reads from the beginning, in one thread. `sql` is a filter instead of tags; `orderly`,
        `broadcasting` and `pop` (the broker's address) are ways of RocketMQ's to consume; the first `failures`
        attempts of each message fail, and come again after a second, up to `retries` times."""
        name = f"consumer-{next(self._numbers)}"
        self.ask("consume", name=name, group=group, topic=topic, tags=tags, **how)
        yield lambda count: self._got_by(name, count)
        self.ask("stop", name=name)

    def send(self, topic: str, body: bytes, **what: Any) -> str:
        """By its producer; the id. See `sent`."""
        return str(self.sent(topic, body, **what)["msg_id"])

    def sent(self, topic: str, body: bytes, **what: Any) -> dict[str, Any]:
        """By its producer; the answer. `level`, `delay_ms`, `delay_sec` and `deliver_ms` are RocketMQ's own delays,
        `batch` makes a batch of it, and `how` is `async` or `one-way`, which has no answer."""
        return dict(self.ask("send", topic=topic, body=base64.b64encode(body).decode(), **what))

    def stream(self, topic: str, *, threads: int, pause_ms: int, seed: int) -> None:
        """Send by so many threads, in every way, until `hush`. The body of a message is its tag."""
        self.ask("stream", topic=topic, threads=threads, pause_ms=pause_ms, seed=seed)

    def hush(self) -> list[dict[str, Any]]:
        """End the stream. Of each message: `tag`, the `way` in which it was sent, `delay_ms` or `deliver_ms` where it
        has one, the `attempts` that its client made, and its `failure`, empty for one that was acknowledged, or
        sent one-way."""
        self.ask("hush")
        return self._streamed

    def transact(
        self, topic: str, body: bytes, *, group: str, outcome: str = UNKNOWN, check: str = COMMIT, **what: Any
    ) -> dict[str, Any]:
        """A half message by the producer of this group, and its outcome; `check` is what the group's producer here
        answers from now on, when a broker asks for outcomes that are unknown. Java's client refuses RocketMQ's delays
        there; directives of ours are properties."""
        what = {"properties": {}, **what, "group": group, "outcome": outcome, "check": check}
        return dict(self.ask("transact", topic=topic, body=base64.b64encode(body).decode(), **what))

    def checked(self, group: str, count: int) -> list[Seen]:
        """Half messages whose outcome the group's producer here was asked for, once they are so many at least."""
        return self._got_by(group, count)

    def recall(self, topic: str, handle: str) -> str:
        """By its producer; the id."""
        return str(self.ask("recall", topic=topic, handle=handle))

    def trace(self) -> None:
        """Producers and consumers that begin after this write what they do to RocketMQ's topic of traces."""
        self.ask("trace")

    def traced(self, msg_id: str) -> list[dict[str, Any]]:
        """What that has about a message: the `type` of an act (`Pub`, `SubBefore`, `SubAfter`, `EndTransaction`,
        `Recall`), its `success`, the `group` of the client, and the `topic`, but not with `Sub...`."""
        try:
            return list(self.ask("traced", id=msg_id))
        except Thrown as error:
            if "CODE: 208 " not in str(error):
                raise
            return []  # not yet

    def view(self, topic: str, msg_id: str) -> Seen:
        """What an administrator finds by a message's id."""
        return _seen(self.ask("view", topic=topic, id=msg_id))

    def find(self, topic: str, key: str) -> list[Seen]:
        """What an administrator finds by a message's key."""
        return list(map(_seen, self.ask("find", topic=topic, key=key)))

    def ask(self, do: str, **command: Any) -> Any:
        assert self._process.stdin is not None
        before = len(self._answers)
        self._process.stdin.write(json.dumps({"do": do, **command}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._wait(lambda: self._answers[before:], bool)[0]
        if "error" in line:
            raise Thrown(f"{do} {command}: {line['error']}")
        return line["answer"]

    def _got_by(self, consumer: str, count: int) -> list[Seen]:
        return self._wait(lambda: _of(consumer, self._got), lambda found: len(found) >= count)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            with self._changed:
                if "consumer" in line:
                    self._got.append(_seen(line))
                elif "tag" in line:
                    self._streamed.append(line)
                else:
                    self._answers.append(line)
                self._changed.notify_all()

    def _wait(self, ask: Callable[[], T], wanted: Callable[[T], bool]) -> T:
        with self._changed:
            is_there = self._changed.wait_for(lambda: wanted(ask()), WITHIN_S)
            assert is_there, f"there is only {ask()}; the client's log ends:\n{self._log.read_text()[-3000:]}"
            return ask()


def _of(consumer: str, got: Iterable[Seen]) -> list[Seen]:
    return [one for one in got if one.consumer == consumer]


def _seen(line: dict[str, Any]) -> Seen:
    return Seen(**{**line, "body": base64.b64decode(line["body"])})


def by_body(seen: Iterable[Seen]) -> dict[str, Seen]:
    """Each came once."""
    messages = list(seen)
    found = {one.body.decode(): one for one in messages}
    assert len(found) == len(messages), "a message came twice"
    return found


@contextmanager
def java_client(name_server: str, folder: Path, account: AclCredentials | None = None) -> Iterator[JavaClient]:
    """Skips where there can be none, and fails instead where CI is set."""
    with required("Java client"):
        client = JavaClient(name_server, folder, account)
    with closing(client):
        yield client
