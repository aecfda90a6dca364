"""Questions between processes over mutual TLS: who is answered, and what is read where the two ends do not fit."""

import contextlib
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from delay_service.query.owners.directory import Directory
from delay_service.query.owners.errors import Rejected
from delay_service.query.owners.listener import Listener, OwnerRequestHandler
from delay_service.query.owners.routed import RoutedOwners
from delay_service.query.owners.signing import Signer
from delayline.buffer.outcome import Outcome
from delayline.clock import SystemClock
from delayline.http.guard import Guard, HttpLimits
from delayline.process.listening import listen
from delayline.process.tls import Authorities, TlsContext, TlsFiles, watched_context
from delayline.process.watched import Watcher
from delayline.questions.inquiry import OwnerUnavailable, Resolution
from mq.contract import Owner
from tests.brokers.authority import Authority
from tests.unit.delay_service.query.owners.people import FOUND, ID, SHARD, Group, Worker

pytestmark = pytest.mark.slow

CLOCK = SystemClock()
WITHIN_S = 10.0
ANSWER = Resolution(Outcome.APPLIED)


class Ends:
    """A worker that owns the shard, and a process that asks. Each end has files of its own, or no TLS."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self.folder = folder
        self.ca = Authority(folder, "internal")
        self.watcher = Watcher()
        self.worker = Worker("w", SHARD)
        self.worker.answers["decided", (SHARD, 7)] = ANSWER
        self.worker.answers["find", ID] = FOUND
        self.port = 0

    def files(self, certificate: Path, ca: Authority | None = None) -> TlsFiles:
        authorities = Authorities("internal.cafile", str((ca or self.ca).file))
        return TlsFiles("internal.certfile", str(certificate), "", authorities)

    def server(self, files: TlsFiles | None) -> TlsContext | None:
        return None if files is None else watched_context(files, files.server, self.watcher)

    def client(self, files: TlsFiles | None) -> TlsContext | None:
        return None if files is None else watched_context(files, files.client, self.watcher)

    def open(
        self, server: TlsFiles | None, client: TlsFiles | None, connections: int = 64, at: str = ""
    ) -> RoutedOwners:
        """Without a secret."""
        signer, group = Signer("", CLOCK), Group()
        bound = self._stack.enter_context(closing(listen("127.0.0.1", 0, backlog=64, in_use="")))
        self.port = bound.getsockname()[1]
        desk = OwnerRequestHandler(self.worker, signer, CLOCK)
        guard = Guard(HttpLimits(connections_max=connections), CollectorRegistry())
        self._stack.enter_context(Listener(bound, desk, lambda: None, guard, self.server(server)))
        group.table |= {SHARD: Owner("w", at or f"127.0.0.1:{self.port}")}
        directory = self._stack.enter_context(Directory(group, CLOCK))
        directory.refresh()
        return self._stack.enter_context(RoutedOwners(directory, signer, group, CLOCK, tls=self.client(client)))


@pytest.fixture
def ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    monkeypatch.setattr("delay_service.query.owners.routed.DECIDE_S", 2.0)
    with ExitStack() as stack:
        yield Ends(stack, tmp_path)


def decided(owners: RoutedOwners) -> Resolution:
    return owners.decided(SHARD, 7).result(WITHIN_S)


def test_with_certificates_of_one_authority_no_secret_is_needed(ends: Ends) -> None:
    """Names in the certificates mean nothing: addresses of processes come and go."""
    owners = ends.open(ends.files(ends.ca.issue("worker")), ends.files(ends.ca.issue("api")))
    assert decided(owners) == ANSWER
    assert owners.find(ID).result(WITHIN_S) == FOUND


@pytest.mark.parametrize("end", ["server", "client"])
@pytest.mark.parametrize("wrong", ["another authority", "expired"])
def test_an_end_with_a_wrong_certificate_gets_no_answer_and_gives_none(ends: Ends, end: str, wrong: str) -> None:
    another = Authority(ends.folder, "another")
    bad = another.issue("bad") if wrong == "another authority" else ends.ca.issue("bad", lasts=timedelta(seconds=-9))
    good = ends.ca.issue("good")
    server, client = (bad, good) if end == "server" else (good, bad)
    owners = ends.open(ends.files(server), ends.files(client))
    how = r"no TLS with the worker at .*" if end == "server" else "closed the connection; .*"
    with pytest.raises(OwnerUnavailable, match=rf"{how}internal\.cafile of the two processes may not fit"):
        decided(owners)
    assert ends.worker.open == []


def test_a_client_without_a_certificate_gets_no_answer(ends: Ends) -> None:
    """By hand: a process without one does not start."""
    ends.open(ends.files(ends.ca.issue("worker")), ends.files(ends.ca.issue("api")))
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ends.port), 10) as plain:
        encrypted = ends.ca.trusting().wrap_socket(plain, server_hostname="127.0.0.1")
        encrypted.sendall(b"POST /ask/w/decided/100 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        answer = encrypted.recv(1)
    assert answer == b""


def test_a_process_without_tls_learns_that_the_worker_speaks_it(ends: Ends) -> None:
    owners = ends.open(ends.files(ends.ca.issue("worker")), None)
    with pytest.raises(OwnerUnavailable, match=r"closed the connection; .* internal\.certfile"):
        decided(owners)


def test_a_process_with_tls_asks_none_without(ends: Ends) -> None:
    owners = ends.open(None, ends.files(ends.ca.issue("api")))
    with pytest.raises(Rejected, match=r"no TLS with the worker at "):
        decided(owners)


def test_handshakes_that_never_end_keep_no_question_out(ends: Ends) -> None:
    owners = ends.open(ends.files(ends.ca.issue("worker")), ends.files(ends.ca.issue("api")), connections=4)
    with ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(socket.create_connection(("127.0.0.1", ends.port), 10))
        assert decided(owners) == ANSWER


def test_a_new_authority_and_new_certificates_drop_no_question_that_is_open(ends: Ends) -> None:
    worker, client = ends.ca.issue("worker"), ends.ca.issue("api")
    owners = ends.open(ends.files(worker), ends.files(client))
    waiting: Future[Resolution] = owners.decided(SHARD, 8)
    assert decided(owners) == ANSWER
    successor = Authority(ends.folder, "successor")
    shutil.copy(successor.file, ends.ca.file)
    for name in ("worker", "api"):
        successor.issue(name)
    for _ in range(2):
        ends.watcher.look()
    owners.decided(SHARD, 9)  # takes a connection that there is, if any does
    assert decided(owners) == ANSWER, "by a connection with the new ones"
    ends.worker.open[0].set_result(Resolution(Outcome.DELIVERED))
    assert waiting.result(WITHIN_S).outcome == Outcome.DELIVERED, "by the one that was open"


def test_a_file_that_breaks_leaves_the_certificates_before(ends: Ends) -> None:
    worker, client = ends.ca.issue("worker"), ends.ca.issue("api")
    owners = ends.open(ends.files(worker), ends.files(client))
    client.write_bytes(client.read_bytes()[:100])
    ends.ca.file.write_bytes(b"")
    for _ in range(2):
        ends.watcher.look()
    assert decided(owners) == ANSWER


def test_a_process_that_does_not_speak_at_all_is_given_up(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection, and its part of the handshake never comes."""
    monkeypatch.setattr("delay_service.query.owners.remote.CONNECT_S", 0.1)
    monkeypatch.setattr("delay_service.query.owners.routed.DECIDE_S", 0.5)
    with closing(listen("127.0.0.1", 0, backlog=4, in_use="")) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        owners = ends.open(ends.files(ends.ca.issue("worker")), ends.files(ends.ca.issue("api")), at=at)
        with pytest.raises(OwnerUnavailable, match=r"does not answer \(ConnectTimeout\)"):
            decided(owners)
