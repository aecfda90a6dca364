"""Settings as an operator might write them: TOML, environment. Nothing but a ConfigError of one line may come."""

import tomllib
from pathlib import Path

from delayline.config import describe, load_settings
from delayline.errors import ConfigError
from tests.fuzz.campaign import Broken, Campaign

GOOD = """\
namespace = "delayline"
data_dir = "./data"
[mq]
kind = "kafka"
bootstrap_servers = "localhost:9092"
properties = { "security.protocol" = "SSL", "sasl.password" = "secret" }
[dispatch]
batch_records_max = 5000
batch_bytes_max = "4MiB"
stall_max = "5s"
timestamp = "due"
[store]
memory_bytes_max = "256MiB"
near_due = "5s"
[api]
port = 8080
auth = "none"
[internal]
host = "127.0.0.1"
secret = "0123456789abcdef0123"
[delay]
topics = ["orders", "mail-*"]
levels = "1s 5s 10s 2h"
horizon_max = "3650d"
[[delay.rule]]
topics = "mail-*"
default_delay = "15m"
rate_max = 5
[proxy.kafka]
port = 19092
nodes_max = 3
"""
ENVIRONMENT = (
    ("DELAYLINE_API__PORT", "9000"),
    ("DELAYLINE_DELAY__RULE", '[{"topics": ["mail-*"], "rate_max": 5}]'),
    ("DELAYLINE_MQ__PROPERTIES", '{"a": "b"}'),
    ("DELAYLINE_DELAY__TOPICS", "orders,mail-*"),
    ("DELAYLINE_STORE__NEAR_DUE", "5s"),
)
TEXT_MAX = 2_000


class Configuration(Campaign):
    """In this process: thousands of files a second."""

    name = "config"
    covers = ("delayline/config/*",)

    def case(self) -> str:
        text = GOOD.encode()
        if self.random.random() < 0.8:
            text = self._line_changed(text) if self.random.random() < 0.5 else self.mutator.some(text)
        name, value = self.mutator.pick(of=ENVIRONMENT)
        environ = {name: self._text(value)} if self.random.random() < 0.5 else {}
        path = self.folder / "delayline.toml"
        path.write_bytes(text)
        try:
            describe(load_settings(path, {}, environ, self.folder))
        except ConfigError as error:
            if "\n" in str(error) or len(str(error)) > TEXT_MAX:
                raise Broken(f"no sentence for an operator: {error}\nof {text!r} and {environ}") from error
            if "0123456789abcdef0123" in str(error):
                raise Broken(f"a secret is shown: {error}") from error
            return "refused"
        except Exception as error:
            raise Broken(f"{error!r} of {text!r} and {environ}") from error
        return "taken"

    def _line_changed(self, text: bytes) -> bytes:
        lines = text.decode().splitlines()
        at = self.random.randrange(len(lines))
        name, equals, _ = lines[at].partition(" = ")
        word = self.mutator.word().encode("utf-8", "replace").decode()
        quoted = self.mutator.pick(of=(f'"{word}"', word, f"[{word!r}]", str(self.mutator.pick(of=(-1, 0, 2**64)))))
        lines[at] = f"{name}{equals}{quoted}"
        return "\n".join(lines).encode()

    def _text(self, value: str) -> str:
        return self.mutator.some(value.encode()).decode("utf-8", "replace").replace("\x00", "")

    def judge(self) -> None:
        """The good file is still read."""
        path = self.folder / "delayline.toml"
        path.write_text(GOOD)
        assert tomllib.loads(GOOD)
        if load_settings(path, {}, {}, Path(self.folder)).api.port != 8080:
            raise Broken("the good file is read as something else")
