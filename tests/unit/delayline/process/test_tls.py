"""Handshakes that succeed, fail and never end, and certificates that change."""

import asyncio
import os
import shutil
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop

from delayline.clock import ManualClock
from delayline.errors import ConfigError
from delayline.http.places import Places
from delayline.process import tls
from delayline.process.listening import listen
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

    def __init__(self, folder: Path, places_max: int = 8, per_address_max: int = 8) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.put("first")
        certificate, key = str(folder / "now.crt"), str(folder / "now.key")
        self.tls = tls.ListenerTls(certificate, key, "api.certfile", self.clock)
        self.places = Places(places_max, per_address_max)
        self.refused = 0
        self.clients: list[Client] = []

    def put(self, name: str) -> None:
        make_certificate(self.folder, name, "127.0.0.1")
        for suffix in ("crt", "key"):
            shutil.copy(self.folder / f"{name}.{suffix}", self.folder / f"now.{suffix}")

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
        return await self._client()

    async def encrypted(self, trusted: str) -> "Client":
        context = ssl.create_default_context(cafile=str(self.folder / f"{trusted}.crt"))
        return await self._client(context)

    async def _client(self, context: ssl.SSLContext | None = None) -> "Client":
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
        assert await (await port.encrypted("first")).echoed(b"within the second") == b"within the second"
        port.clock.advance(1000)
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
            port.clock.advance(1000)
            assert await (await port.encrypted("first")).echoed(b"x") == b"x"
        certificate.unlink(missing_ok=True)
        shutil.copy(tmp_path / "second.crt", certificate)
        shutil.copy(tmp_path / "second.key", key)
        port.clock.advance(1000)
        assert await (await port.encrypted("second")).echoed(b"x") == b"x"

    run(port.serve(work))


def test_at_the_start_there_must_be_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^api\.certfile: .*No such file"):
        tls.read_listener(str(tmp_path / "none"), "", "api.certfile", ManualClock())
    assert tls.read_listener("", "", "api.certfile", ManualClock()) is None
