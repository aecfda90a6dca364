"""Client processes, and what they have written down."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.brokers.guarded import Guarded
from tests.integration.proxy.java import compiled, program

SOURCE = Path(__file__).with_name("ProofClient.java")
END_S = 180.0
CODECS = ("none", "lz4", "gzip", "zstd", "snappy")
NO_SNAPPY = frozenset({"kafka-python"})
"""Libraries that need another package for it, which tests do not have."""


class Fate(Enum):
    """What a client knows about a record. UNKNOWN -> one of the others, or for ever."""

    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    FAILED = "given up"
    ABORTED = "aborted"


@dataclass(slots=True)
class Note:
    """One record as its sender knows it. `delay_ms` below 0: it was to arrive at once."""

    partition: int
    delay_ms: int
    fate: Fate = Fate.UNKNOWN
    error: str = ""

    @property
    def delayed(self) -> bool:
        return self.delay_ms >= 0


@dataclass(frozen=True)
class Kind:
    """A library and what it is used for."""

    library: str
    transactional: bool = False

    @property
    def label(self) -> str:
        return f"{self.library} {'transactional' if self.transactional else 'idempotent'}"


JAVA, JAVA_TRANSACTIONAL = Kind("java"), Kind("java", True)
LIBRDKAFKA, LIBRDKAFKA_TRANSACTIONAL = Kind("librdkafka"), Kind("librdkafka", True)
KAFKA_PYTHON, AIOKAFKA = Kind("kafka-python"), Kind("aiokafka")


class Client:
    """One process. `topic` is where it sends."""

    def __init__(
        self, kind: Kind, number: int, folder: Path, servers: str, topic: str, load: "Load", seed: int
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self.topic = topic
        self.name = f"{kind.label.replace(' ', '-')}-{number}"
        self._stop = folder / f"{self.name}.stop"
        self._guarded = Guarded(folder / f"{self.name}.log")
        usage = "transactional" if kind.transactional else "idempotent"
        codecs = [codec for codec in CODECS if codec != "snappy" or kind.library not in NO_SNAPPY]
        codec = codecs[(seed + number) % len(codecs)]
        given = [servers, topic, str(load.partitions), self.name, str(seed % (1 << 31)), str(load.rate), codec]
        self._command = [*_program(kind, load), *given, str(load.delay_max_ms), str(self._stop), usage]

    @property
    def log(self) -> Path:
        return self._guarded.log

    @property
    def running(self) -> bool:
        return self._guarded.running

    def start(self) -> None:
        self._guarded.start(self._command)

    def ask_to_end(self) -> None:
        self._stop.touch()

    def wait(self) -> str:
        """What is wrong with its end; empty where nothing is."""
        try:
            code = self._guarded.wait(END_S)
        except subprocess.TimeoutExpired:
            return f"{self.name} did not end, see {self.log}"
        ended = self.log.read_text(errors="replace").endswith("e\n")
        return "" if code == 0 and ended else f"{self.name} ended with {code}, see {self.log}"

    def notes(self) -> dict[int, Note]:
        return read_notes(self.log.read_text(errors="replace").splitlines())


@dataclass(frozen=True)
class Load:
    """What each client does: records per second over so many partitions; delays up to so much (0: one hour). Only
    Java's knows `batch_bytes` and `linger_ms`."""

    partitions: int = 2
    rate: int = 300
    delay_max_ms: int = 0
    batch_bytes: int = 4000
    linger_ms: int = 5


_FATES: Mapping[str, Fate] = {"a": Fate.ACKNOWLEDGED, "f": Fate.FAILED, "x": Fate.ABORTED}


def read_notes(lines: Sequence[str]) -> dict[int, Note]:
    """By number. A log holds what the library prints as well."""
    found: dict[int, Note] = {}
    for line in lines:
        words = line.split(" ", 2)
        if words[0] == "s":
            partition, delay_ms = words[2].split(" ")
            found[int(words[1])] = Note(int(partition), int(delay_ms))
        elif words[0] in _FATES and len(words) > 1 and words[1].isdigit():
            note = found[int(words[1])]
            note.fate, note.error = _FATES[words[0]], " ".join(words[2:])
    return found


def _program(kind: Kind, load: Load) -> list[str]:
    if kind.library == "java":
        batching = f"-Dbatch.size={load.batch_bytes}", f"-Dlinger.ms={load.linger_ms}"
        return program(SOURCE.stem, compiled(SOURCE), *batching)
    return [sys.executable, "-m", "tests.fault.proxy.producer", kind.library]
