"""The job as a client of Spark Connect: what is refused, and before what. Sessions are fakes; `make spark-connect`
tries the real one."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from delayline.clock import ManualClock
from delayline.config import Settings, load_settings
from delayline.errors import ConfigError
from reconcile import entry
from reconcile.directory.files import LocalFiles
from reconcile.errors import NoAnswer
from reconcile.settings import JobSettings
from reconcile.spark import connect
from reconcile.spark.session import SETTINGS, open_session

SERVER = "sc://127.0.0.1:15002"


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", SERVER)
    for name in connect.PROXIES:
        monkeypatch.delenv(name, raising=False)


class Frame:
    def __init__(self, rows: list[tuple[str]]) -> None:
        self._rows = rows

    def collect(self) -> list[tuple[str]]:
        return self._rows


class Session:
    """A client's: no JVM. `sees`: whether the server has the same folders; `heard`: its settings."""

    def __init__(self, sees: bool = True, heard: dict[str, str] | None = None) -> None:
        self._sees, self._heard = sees, heard or {}
        self.read = self.conf = self

    def text(self, uri: str) -> Frame:
        if not self._sees:
            raise AnalysisException("[PATH_NOT_FOUND] Path does not exist")
        return Frame([(line,) for line in Path(uri.removeprefix("file://")).read_text().splitlines()])

    def get(self, key: str, default: str | None) -> str | None:
        return self._heard.get(key, default)


class Builder:
    """`SparkSession.Builder`, which gives this session."""

    def __init__(self, session: Any) -> None:
        self.session_of = session

    def appName(self, name: str) -> "Builder":
        return self

    def config(self, map: dict[str, str]) -> "Builder":
        return self

    def getOrCreate(self) -> Any:
        if isinstance(self.session_of, Exception):
            raise self.session_of
        return self.session_of


def settings(folder: Path, **given: str) -> Settings:
    return load_settings(None, {}, given, folder)


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (
            JobSettings(output="s3a://bucket/ledger"),
            "--output: it is the business of Spark's own process",
        ),
        (JobSettings(output="ledger", master="local[2]"), f"--master: SPARK_REMOTE names a Spark already ({SERVER})"),
        (
            JobSettings(output="ledger", reader="kafka-connector"),
            "--reader: it is the business of Spark's own process",
        ),
    ],
)
def test_what_needs_a_jvm_is_refused_before_anything_starts(
    job: JobSettings, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "session_of", lambda job: pytest.fail("Spark was started"))
    nobody: Any = None
    kafka = {"DELAYLINE_MQ__KIND": "kafka", "DELAYLINE_MQ__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    with pytest.raises(ConfigError) as refused:
        entry.start(job, settings(tmp_path, **kafka), ManualClock(0), nobody, nobody)
    assert str(refused.value).startswith(sentence)
    monkeypatch.delenv("SPARK_REMOTE")
    connect.check(job, job.reader or "kafka")


def test_java_is_needed_where_spark_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not connect.needs_java()
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    assert connect.needs_java()
    monkeypatch.delenv("SPARK_REMOTE")
    assert connect.needs_java()


def test_a_server_that_does_not_answer_is_shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(NoAnswer, match=r"no answer from 127\.0\.0\.1:\d+ \(Connection refused\)"):
            open_session(None)


# --- with a server that answers


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{server.getsockname()[1]}/;token=t")
        yield


@pytest.mark.usefixtures("answering")
def test_a_session_is_the_servers_with_what_results_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(heard=SETTINGS)
    monkeypatch.setattr(SparkSession, "Builder", lambda: Builder(session))
    assert open_session(None) is session
    assert connect.is_connected(open_session(None))


@pytest.mark.usefixtures("answering")
def test_a_server_that_would_come_to_other_results_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(heard={**SETTINGS, "spark.sql.ansi.enabled": "false"})
    monkeypatch.setattr(SparkSession, "Builder", lambda: Builder(session))
    with pytest.raises(ConfigError, match=r"does not let spark\.sql\.ansi\.enabled be true, and has false"):
        open_session(None)


@pytest.mark.usefixtures("answering")
def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ImportError("[PACKAGE_NOT_INSTALLED] grpcio >= 1.48.1 must be installed")
    monkeypatch.setattr(SparkSession, "Builder", lambda: Builder(missing))
    with pytest.raises(ConfigError, match=r"Spark Connect needs more packages: .*grpcio >= 1\.48\.1"):
        open_session(None)


def test_a_folder_that_the_server_does_not_see_is_refused(tmp_path: Path) -> None:
    files: Any = LocalFiles(tmp_path)
    session: Any = Session(sees=False)
    with pytest.raises(ConfigError, match="the server of SPARK_REMOTE does not see file://"):
        connect.check_shared(session, files)
    connect.check_shared(Session(), files)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_spark_of_ones_own_is_not_asked_what_it_sees(tmp_path: Path) -> None:
    session = Session(sees=False)
    session._jvm = object()  # type: ignore[attr-defined]
    connect.check_shared(session, LocalFiles(tmp_path))  # type: ignore[arg-type]
