"""Handshakes that succeed, fail and never end, and certificates that change."""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
import uvloop

from delayline.errors import ConfigError
from delayline.http.places import Places
from delayline.process import tls
from delayline.process.listening import listen
from delayline.process.watched import Watcher
from tests.brokers.authority import Authority
from tests.brokers.certificates import make_certificate

RUNS = [asyncio.run, uvloop.run]
every_loop = pytest.mark.parametrize("run", RUNS, ids=["asyncio", "uvloop"])


def sockets() -> int:
    """How many this process has open."""
    return sum(os.path.realpath(f"/proc/self/fd/{one}").count("socket:") for one in os.listdir("/proc/self/fd"))


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Port:
    """A port on 127.0.0.1 whose certificate is in `folder`."""

    def __init__(
        self, folder: Path, places_max: int = 8, per_address_max: int = 8, clients: tls.Authorities | None = None
    ) -> None:
        self.folder = folder
        self.watcher = Watcher()
        self.put("first")
        certificate, key = str(folder / "now.crt"), str(folder / "now.key")
        found = tls.read_listener(certificate, key, "api.certfile", self.watcher, clients)
        assert found is not None
        self.tls = found
        self.places = Places(places_max, per_address_max)
        self.refused = 0
        self.clients: list[Client] = []

    def put(self, name: str) -> None:
        make_certificate(self.folder, name, "127.0.0.1")
        for suffix in ("crt", "key"):
            shutil.copy(self.folder / f"{name}.{suffix}", self.folder / f"now.{suffix}")

    def look(self) -> None:
        """Twice: what has changed must stay as it is."""
        for _ in range(2):
            self.watcher.look()

    def _count(self) -> None:
        self.refused += 1

    async def serve(self, work: Callable[[], Awaitable[None]]) -> None:
        listener = listen("127.0.0.1", 0, backlog=128, in_use="")
        self.number: int = listener.getsockname()[1]
        before = sockets()
        server = tls.TlsServer(listener, self.tls, self.places, Echo, self._count)
        try:
            await asyncio.wait_for(work(), 30)
            for client in self.clients:
                client.writer.transport.abort()
            await asyncio.wait_for(self._until_closed(before), 10)
        finally:
            server.close()
            await server.wait_closed()

    async def _until_closed(self, sockets_before: int) -> None:
        while sockets() > sockets_before:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)

    async def plain(self) -> "Client":
        return await self.client()

    async def encrypted(self, trusted: str) -> "Client":
        context = ssl.create_default_context(cafile=str(self.folder / f"{trusted}.crt"))
        return await self.client(context)

    async def client(self, context: ssl.SSLContext | None = None) -> "Client":
        client = Client(*await asyncio.open_connection("127.0.0.1", self.number, ssl=context))
        self.clients.append(client)
        return client

    async def until_free(self) -> None:
        while self.places.taken:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def echoed(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self.reader.readexactly(len(data))

    async def is_ended(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True


@every_loop
def test_behind_the_handshake_bytes_come_and_go(run: Callable[..., None], tmp_path: Path) -> None:
    port = Port(tmp_path)

    async def work() -> None:
        clients = [await port.encrypted("first") for _ in range(20)]
        await port.until_free()
        for client in clients:
            assert await client.echoed(b"x" * 100_000) == b"x" * 100_000

    run(port.serve(work))


@every_loop
def test_what_is_no_handshake_ends_the_connection_and_frees_its_place(
    run: Callable[..., None], tmp_path: Path
) -> None:
    port = Port(tmp_path)

    async def work() -> None:
        client = await port.plain()
        client.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await client.reader.read()  # an alert, perhaps
        assert await client.is_ended()
        await port.until_free()

    run(port.serve(work))


@every_loop
def test_a_client_that_leaves_in_its_handshake_frees_its_place(run: Callable[..., None], tmp_path: Path) -> None:
    port = Port(tmp_path)

    async def work() -> None:
        for sent in (b"", b"\x16\x03\x01\x02\x00"):
            client = await port.plain()
            client.writer.write(sent)
            client.writer.close()
        await asyncio.sleep(0.05)
        await port.until_free()

    run(port.serve(work))


@every_loop
def test_a_handshake_that_does_not_end_is_ended(
    run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_WITHIN_S", 0.2)
    port = Port(tmp_path)

    async def work() -> None:
        silent = await port.plain()
        slow = await port.plain()
        slow.writer.write(b"\x16\x03\x01\x02\x00")
        assert await silent.is_ended()
        assert await slow.is_ended()
        await port.until_free()

    run(port.serve(work))


@every_loop
def test_silent_clients_do_not_keep_others_out(run: Callable[..., None], tmp_path: Path) -> None:
    """The one that has waited longest goes."""
    port = Port(tmp_path, places_max=3, per_address_max=3)

    async def work() -> None:
        silent = [await port.plain() for _ in range(20)]
        client = await port.encrypted("first")
        assert await client.echoed(b"here") == b"here"
        assert port.places.taken <= 3
        assert port.refused >= 17
        assert await silent[0].is_ended()

    run(port.serve(work))


@every_loop
def test_a_new_certificate_is_shown_to_new_connections_and_ends_no_other(
    run: Callable[..., None], tmp_path: Path
) -> None:
    port = Port(tmp_path)

    async def work() -> None:
        before = await port.encrypted("first")
        port.put("second")
        port.watcher.look()
        assert await (await port.encrypted("first")).echoed(b"not yet") == b"not yet"
        port.watcher.look()
        after = await port.encrypted("second")
        with pytest.raises(ssl.SSLCertVerificationError):
            await port.encrypted("first")
        assert await before.echoed(b"still here") == b"still here"
        assert await after.echoed(b"new") == b"new"

    run(port.serve(work))


@every_loop
@pytest.mark.parametrize("damage", ["half a file", "another's key", "no file", "a pipe"])
def test_files_that_cannot_be_used_leave_the_certificate_that_was(
    run: Callable[..., None], tmp_path: Path, damage: str
) -> None:
    port = Port(tmp_path)
    make_certificate(tmp_path, "second", "127.0.0.1")
    certificate, key = tmp_path / "now.crt", tmp_path / "now.key"
    if damage == "half a file":
        certificate.write_bytes((tmp_path / "second.crt").read_bytes()[:200])
    elif damage == "another's key":
        shutil.copy(tmp_path / "second.key", key)
    else:
        certificate.unlink()
        if damage == "a pipe":
            os.mkfifo(certificate)

    async def work() -> None:
        for _ in range(2):
            port.look()
            assert await (await port.encrypted("first")).echoed(b"x") == b"x"
        certificate.unlink(missing_ok=True)
        shutil.copy(tmp_path / "second.crt", certificate)
        shutil.copy(tmp_path / "second.key", key)
        port.look()
        assert await (await port.encrypted("second")).echoed(b"x") == b"x"

    run(port.serve(work))


def test_at_the_start_there_must_be_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^api\.certfile: .*No such file"):
        tls.read_listener(str(tmp_path / "none"), "", "api.certfile", Watcher())
    assert tls.read_listener("", "", "api.certfile", Watcher()) is None


# --- certificates of clients


def asking(folder: Path, *, required: bool = True) -> tuple[Authority, Port]:
    """An authority, and a port that asks for its certificates."""
    authority = Authority(folder, "clients")
    return authority, Port(
        folder, clients=tls.Authorities("api.client_cafile", str(authority.file), required=required)
    )


class Talk:
    """What a client gets that shows a certificate, or none."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def is_taken(self, shown: Path | None) -> bool:
        context = ssl.create_default_context(cafile=str(self._port.folder / "first.crt"))
        if shown is not None:
            context.load_cert_chain(shown)
        try:
            client = await self._port.client(context)
            return await client.echoed(b"x") == b"x"
        except (OSError, asyncio.IncompleteReadError):
            return False


@every_loop
def test_with_client_certificates_required_only_those_of_the_authority_get_in(
    run: Callable[..., None], tmp_path: Path
) -> None:
    authority, port = asking(tmp_path)
    good, old = authority.issue("good"), authority.issue("old", lasts=timedelta(seconds=-5))
    another = Authority(tmp_path, "another").issue("stranger")

    async def work() -> None:
        talk = Talk(port)
        assert [await talk.is_taken(shown) for shown in (good, old, another, None)] == [True, False, False, False]
        await port.until_free()

    run(port.serve(work))


@every_loop
def test_where_certificates_are_asked_for_a_client_without_one_gets_in_and_with_a_wrong_one_does_not(
    run: Callable[..., None], tmp_path: Path
) -> None:
    authority, port = asking(tmp_path, required=False)
    good, another = authority.issue("good"), Authority(tmp_path, "another").issue("stranger")

    async def work() -> None:
        talk = Talk(port)
        assert [await talk.is_taken(shown) for shown in (good, None, another)] == [True, True, False]

    run(port.serve(work))


@every_loop
def test_another_authority_in_the_file_counts_for_new_connections(run: Callable[..., None], tmp_path: Path) -> None:
    authority, port = asking(tmp_path)
    before, successor = authority.issue("before"), Authority(tmp_path, "successor")
    after = successor.issue("after")

    async def work() -> None:
        talk = Talk(port)
        context = ssl.create_default_context(cafile=str(tmp_path / "first.crt"))
        context.load_cert_chain(before)
        open_one = await port.client(context)
        assert await open_one.echoed(b"x") == b"x"
        shutil.copy(successor.file, authority.file)
        port.look()
        assert [await talk.is_taken(shown) for shown in (before, after)] == [False, True]
        assert await open_one.echoed(b"x") == b"x"
        resumed = await asyncio.wait_for(_resumed(port, context, open_one), 10)
        assert not resumed

    run(port.serve(work))


async def _resumed(port: Port, context: ssl.SSLContext, before: Client) -> bool:
    """Whether a ticket from before gets a client in that shows no other right."""
    shown = before.writer.get_extra_info("ssl_object")
    assert shown is not None
    plain = socket.create_connection(("127.0.0.1", port.number))

    def talk() -> bool:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1", session=shown.session) as again:
                again.sendall(b"x")
                return again.recv(1) == b"x"
        except OSError:
            return False

    return await asyncio.get_running_loop().run_in_executor(None, talk)


@every_loop
def test_a_revoked_certificate_is_refused_once_the_list_has_it(run: Callable[..., None], tmp_path: Path) -> None:
    authority = Authority(tmp_path, "clients")
    kept, lost = authority.issue("kept"), authority.issue("lost")
    clients = tls.Authorities("api.client_cafile", str(authority.file), str(authority.publish()))
    port = Port(tmp_path, clients=clients)

    async def work() -> None:
        talk = Talk(port)
        assert [await talk.is_taken(shown) for shown in (kept, lost)] == [True, True]
        authority.revoke("lost")
        authority.publish()
        port.look()
        assert [await talk.is_taken(shown) for shown in (kept, lost)] == [True, False]
        authority.publish(lasts=timedelta(seconds=-1))
        port.look()
        assert not await talk.is_taken(kept), "an old list may lack the newest ones"

    run(port.serve(work))


def test_files_of_authorities_that_are_none_are_refused_by_the_name_of_their_setting(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "clients")
    server, revoked = authority.issue("server"), authority.publish()
    empty = tmp_path / "empty"
    empty.write_text("# nothing\n")
    for file, lists in ((empty, ""), (revoked, ""), (tmp_path / "none", ""), (authority.file, authority.file)):
        clients = tls.Authorities("api.client_cafile", str(file), str(lists))
        with pytest.raises(ConfigError, match=r"^api\.client_cafile: "):
            tls.read_listener(str(server), "", "api.certfile", Watcher(), clients)


def test_tls_begins_at_1_2(tmp_path: Path) -> None:
    """Whatever the system's configuration of OpenSSL allows."""
    authority = Authority(tmp_path, "a")
    files = tls.TlsFiles("s", str(authority.issue("one")), "", tls.Authorities("s", str(authority.file)))
    assert {files.server().minimum_version, files.client().minimum_version} == {ssl.TLSVersion.TLSv1_2}


def test_the_password_of_a_key_is_not_asked_for_at_the_terminal(tmp_path: Path) -> None:
    """It is refused: no one sits there."""
    make_certificate(tmp_path, "one", "127.0.0.1")
    command = ["openssl", "rsa", "-aes256", "-passout", "pass:x"]
    subprocess.run([*command, "-in", "one.key", "-out", "locked.key"], cwd=tmp_path, check=True, capture_output=True)
    ran = subprocess.run(
        [sys.executable, "-c", _READ, str(tmp_path / "one.crt"), str(tmp_path / "locked.key")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
    )
    assert "ConfigError: api.certfile: " in ran.stderr
    assert "pass phrase" not in ran.stderr + ran.stdout


_READ = """
import sys
from delayline.process.tls import read_listener
from delayline.process.watched import Watcher
read_listener(*sys.argv[1:], "api.certfile", Watcher())
"""
