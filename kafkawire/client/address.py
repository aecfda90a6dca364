"""Where brokers are, and bootstrap.servers."""

from typing import NamedTuple

from delayline.errors import ConfigError

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """Where a node is found."""

    host: str
    port: int


def parse_servers(text: str) -> tuple[Address, ...]:
    """`host:port` with commas between, as in bootstrap.servers. Raises ConfigError."""
    found = tuple(_server(one.strip()) for one in text.split(",") if one.strip())
    if not found:
        raise ConfigError("mq.bootstrap_servers: at least one server is needed, as host:port.")
    return found


def _server(text: str) -> Address:
    text = text.rpartition("://")[2]
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"mq.bootstrap_servers: {text!r} is not host:port.")
    return Address(host.strip("[]"), int(port))
