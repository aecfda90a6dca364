"""Frames to the RocketMQ proxy, in both directions: from clients, and from a broker that is scripted.

The canary goes through the proxy into the topic that is attacked, and must reach its buffer as it was sent.
"""

import os
import socket
import struct
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Self

from delayline.questions.inquiry import Gone
from proxy.rocketmq.sends import delays
from rocketmq.errors import WireError
from rocketmq.wire.acl import AclCredentials, signed
from rocketmq.wire.batch import decode_batch, encode_batch, member
from rocketmq.wire.codes import Request
from rocketmq.wire.command import IS_ONE_WAY, Command, Encoding, answer_to, encode_frame
from rocketmq.wire.headers.admin import GetRouteInfo
from rocketmq.wire.headers.send import RecallMessage, SendMessage
from rocketmq.wire.ids import RecallHandle
from rocketmq.wire.properties import decode_properties
from rocketmq.wire.stored import encode_message
from tests.fuzz.campaign import Broken, Campaign, resident_bytes
from tests.unit.proxy.rocketmq.scene import (
    BROKER,
    BUFFER,
    CLIENT,
    OTHER,
    OWN,
    Scene,
    Wire,
    done,
    half_of,
    message,
    send_of,
)
from tests.unit.rocketmq.peer import PeerLink

RESIDENT_MAX = 2 << 30
ANSWER_S = 20.0
PROPERTIES: tuple[dict[str, str], ...] = (
    {"DELAY": "1"}, {"DELAY": "x"}, {"TIMER_DELAY_MS": "5"}, {"TIMER_DELIVER_MS": "9" * 19}, {"delay": "1h"},
    {"delay-cron": "* * * * *"}, {"delay-op": "cancel", "delay-ref": "x"}, {"TRAN_MSG": "true"},
    {"TRAN_MSG": "true", "PGROUP": "p", "delay": "1h"}, {"TRAN_MSG": "TRUE", "DELAY": "1"}, {"a": "b"}, {},
)  # fmt: skip


class RocketmqProxy(Campaign):
    """Two proxies, in threads of this process; before one of them brokers check accounts."""

    name = "rocketmq"
    covers = ("proxy/rocketmq/*", "rocketmq/wire/*")

    def __init__(self, random: Random, folder: Path) -> None:
        super().__init__(random, folder)
        self._stack = ExitStack()
        self._numbers = count(1)

    def __enter__(self) -> Self:
        self.open, self.guarded = self._scene("open"), self._scene("guarded")
        self.guarded.guard()
        for scene in (self.open, self.guarded):
            scene.open()
        self.judge()
        return self

    def _scene(self, name: str) -> Scene:
        (folder := self.folder / name).mkdir()
        scene = Scene(self._stack, folder)
        scene.owners = _Owners()
        scene.broker.others = self._answer
        return scene

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- what is sent

    def case(self) -> str:
        scene = self.mutator.pick(of=(self.open, self.guarded))
        port = self.mutator.pick(of=(scene.port, scene.port + 4, scene.port + 4))
        account = self.mutator.pick(of=(CLIENT, CLIENT, OTHER)) if scene is self.guarded else None
        frames = b"".join(self._frame(account) for _ in range(self.random.choice((1, 1, 2, 20))))
        return f"{'name server' if port == scene.port else 'broker'}: {self._sent(port, frames)}"

    def _frame(self, account: AclCredentials | None) -> bytes:
        """A sound one, or changed in its payload, or with another length."""
        command = replace(self._command(), opaque=next(self._numbers), encoding=self.mutator.pick(of=tuple(Encoding)))
        if account is not None:
            command.fields = signed(command.fields, command.body, account)
        payload = b"".join(encode_frame(command))[4:]
        payload = self.mutator.some(payload) if self.random.random() < 0.6 else payload
        length = len(payload) if self.random.random() < 0.9 else self.mutator.pick(of=(0, -1, 2**31 - 1, 7, 1 << 20))
        return struct.pack(">i", length) + payload

    def _command(self) -> Command:
        also = self.mutator.pick(of=PROPERTIES)
        match self.random.randrange(7):
            case 0:
                members = [member(b"x", {"UNIQ_KEY": "K", **self.mutator.pick(of=PROPERTIES)}) for _ in range(3)]
                body = encode_batch(members)
                return send_of("orders", self.mutator.some(body) if self.random.random() < 0.5 else body, batch=True)
            case 1:
                text = "".join(f"{name}\x01{value}\x02" for name, value in also.items())
                return Command(Request.SEND_MESSAGE, SendMessage("p", "orders", 0, 0, 5, 0, text).to_fields(), b"x")
            case 2:
                more = (self.mutator.pick(of=("0", "x")), self.mutator.pick(of=("0", "9" * 18)))
                handle = RecallHandle("orders", BROKER, 5, "K", more).encode()
                return Command(Request.RECALL_MESSAGE, RecallMessage("orders", handle).to_fields())
            case 3:
                return Command(Request.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo("orders").to_fields())
            case 4:
                codes = (34, 11, 37, 39, 200_050 % 32_768, 304, 106)
                return Command(self.mutator.pick(of=codes), {"topic": "orders"}, b"{}")
            case _:
                return message(also=also, body=self.random.randbytes(self.random.choice((0, 9, 30_000))))

    def _answer(self, link: PeerLink, command: Command) -> None:
        """A broker's, at times damaged, at times a push."""
        answer = b"".join(encode_frame(answer_to(command, 0, {"a": "b"}, b"body")))
        match self.random.randrange(8):
            case 0:
                link.send_bytes(answer[:4] + self.mutator.some(answer[4:]))
            case 1:
                link.send(Command(Request.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}))
                link.send_bytes(answer)
            case 2:
                half = encode_message(half_of(BUFFER))
                body = half if self.random.random() < 0.5 else self.mutator.some(half)
                link.send(Command(Request.CHECK_TRANSACTION_STATE, {"topic": "t"}, body, flag=IS_ONE_WAY))
                link.send_bytes(answer)
            case _:
                link.send_bytes(answer)

    def _sent(self, port: int, data: bytes) -> str:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
            connection.settimeout(ANSWER_S)
            with suppress(ConnectionError):
                connection.sendall(data)
                with suppress(OSError):  # closed by then
                    connection.shutdown(socket.SHUT_WR)
                try:
                    return "answered" if connection.recv(1 << 16) else "closed"
                except TimeoutError:
                    raise Broken(f"neither answered nor closed within {ANSWER_S:.0f} s: {data[:2000]!r}") from None
        return "closed"

    # --- what holds for others

    def judge(self) -> None:
        if (resident := resident_bytes(os.getpid())) > RESIDENT_MAX:
            raise Broken(f"{resident >> 20} MiB resident")
        canary = message(body=b"canary %d" % self.random.getrandbits(60), DELAY="1")
        canary.fields = signed(canary.fields, canary.body, CLIENT)
        for scene in (self.open, self.guarded):
            with closing(Wire(scene.port + 4)) as client:
                answer = client.ask(canary)
            if answer.code != 0 or not any(canary.body in bodies for bodies in self._buffered(scene)):
                raise Broken(f"a good message was not stored: {answer}")
            scene.broker.peer.seen.clear()

    def _buffered(self, scene: Scene) -> list[list[bytes]]:
        found: list[list[bytes]] = []
        for one in scene.broker.peer.seen:
            is_own = one.fields.get("AccessKey") == OWN.access_key
            if scene is self.guarded and one.fields.get("b") == BUFFER and not is_own:
                raise Broken(f"a request for the buffer in a client's name: {one}")
            if one.fields.get("b") == BUFFER and one.code == Request.SEND_MESSAGE_V2:
                properties = decode_properties(one.fields.get("i", ""))
                if properties.get("TRAN_MSG") != "true" or not delays.NAMES.isdisjoint(properties):
                    raise Broken(f"neither a batch nor a half message that a broker keeps: {one}")
            elif one.fields.get("b") == BUFFER:
                try:
                    found.append([bytes(each.body) for each in decode_batch(one.body)])
                except WireError as error:
                    raise Broken(f"the proxy has sent a batch that cannot be read: {one}") from error
        return found


class _Owners:
    """Every message has ended."""

    def find(self, _: Any) -> Any:
        return done(Gone())
