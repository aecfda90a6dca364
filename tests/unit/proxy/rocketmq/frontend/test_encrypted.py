"""TLS on both sides of the proxy."""

import ssl
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from delayline.process.tls import read_listener
from delayline.process.watched import Watcher
from rocketmq.client.settings import ClientSettings
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from tests.brokers.certificates import make_certificate
from tests.unit.proxy.rocketmq.scene import Scene, Wire, message


def test_clients_and_servers_may_be_reached_over_tls(tmp_path: Path) -> None:
    make_certificate(tmp_path, "one", "127.0.0.1")
    certificate, key = str(tmp_path / "one.crt"), str(tmp_path / "one.key")
    trusting = ssl.create_default_context(cafile=certificate)
    serving = read_listener(certificate, key, "proxy.rocketmq.certfile", Watcher())
    broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker.load_cert_chain(certificate, key)
    with ExitStack() as stack:
        scene = Scene(stack, tmp_path, broker)
        client = ClientSettings(scene.settings.client.name_servers, tls=trusting)
        scene.settings = replace(scene.settings, client=client, listener_tls=serving)
        scene.open()
        with closing(Wire(scene.port + 4, trusting)) as encrypted:
            assert encrypted.ask(message(DELAY="1")).code == 0
            large = Command(Request.HEART_BEAT, {}, bytes(1_000_000), opaque=9)
            assert encrypted.ask(large).opaque == 9
        with closing(Wire(scene.port + 4)) as plain:
            plain.send(Command(Request.HEART_BEAT))
            assert plain.is_closed()
