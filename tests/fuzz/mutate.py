"""Input that somebody could have meant, and what is made of it: bytes, texts and JSON values, from one generator."""

import json
import math
from collections.abc import Sequence
from random import Random
from typing import Any

NUMBERS = (
    0,
    -1,
    1,
    127,
    128,
    255,
    256,
    32_767,
    65_535,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
)
WORDS = (
    "", " ", "\x00", "\n", "\r\n", "/", "..", "%00", "%2f",
    "%", "ä", "\ud800", "💣", "NaN", "-0", "+1", "1e999", "null",
    "true", "[]", "{}", "5s", "-5s", "5 sec", "1y", "99999999999999999999s", "0x10", "२s", "cancel", "reschedule",
    "orders", "__consumer_offsets", "delayline.audit", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59+25:00",
    "* * * * *", "@yearly", "0 0 31 2 *", "*/0 * * * *", "a" * 300, "a" * 70_000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, True, False, *NUMBERS, 1e308, -1e-308, math.inf, 0.1, *WORDS, [], {}, [[]], {"": {}})
DEPTH = 2_000


class Mutator:
    """All choices come from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def some(self, data: bytes) -> bytes:
        """One to four changes."""
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            data = self._once(data)
        return data

    def _once(self, data: bytes) -> bytes:
        random = self.random
        at = random.randrange(len(data) + 1)
        length = random.choice((1, 1, 2, 4, 8, 64))
        match random.randrange(7):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + data[at + length :]
            case 2:
                return data[:at] + random.randbytes(length) + data[at:]
            case 3:
                return data[:at] + data[at : at + length] * random.choice((2, 3, 50)) + data[at + length :]
            case 4:
                width = random.choice((1, 2, 4, 8))
                number = random.choice(NUMBERS) & ((1 << 8 * width) - 1)
                return data[:at] + number.to_bytes(width, random.choice(("big", "little"))) + data[at + width :]
            case 5:
                return data[:at] + self.word().encode("utf-8", "surrogatepass") + data[at:]
            case _:
                return data[:at] + bytes(b ^ 1 << random.randrange(8) for b in data[at : at + 1]) + data[at + 1 :]

    def word(self) -> str:
        return self.random.choice(WORDS)

    def value(self, like: Any) -> Any:
        """A JSON value with one place in it changed, dropped, or added."""
        if isinstance(like, dict) and like and self.random.random() < 0.85:
            name = self.random.choice(list(like))
            match self.random.randrange(8):
                case 0:
                    return {key: value for key, value in like.items() if key != name}
                case 1:
                    return {**like, self._misspelt(name): like[name]}
                case _:
                    return {**like, name: self.value(like[name])}
        if isinstance(like, list) and like and self.random.random() < 0.85:
            at = self.random.randrange(len(like))
            return [*like[:at], self.value(like[at]), *like[at + 1 :], *like[: self.random.choice((0, 0, 1))]]
        return self.random.choice(VALUES)

    def _misspelt(self, name: str) -> str:
        at = self.random.randrange(len(name) + 1)
        return self.random.choice(
            (name.upper(), name[:at] + "x" + name[at:], name[:at] + name[at + 1 :], self.word())
        )

    def json(self, like: Any) -> bytes:
        """A changed value as text, now and then with the text changed as well, or nested beyond all reason."""
        if self.random.random() < 0.02:
            return b"[" * DEPTH + b"]" * self.random.choice((0, DEPTH))
        text = json.dumps(self.value(like)).encode()
        return self.some(text) if self.random.random() < 0.3 else text

    def pick(self, *, of: Sequence[Any]) -> Any:
        return self.random.choice(of)
