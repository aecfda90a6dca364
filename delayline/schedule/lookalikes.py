"""Header names that were most likely meant as directives: `Delay`, `dely-ms`, `delay-foo`.

    misspelt   differs from a directive by case, by `_` for `-`, or by one letter (added, left out, replaced, or two
               neighbours exchanged: optimal string alignment, Damerau 1964). A topic that takes delays refuses it
    unknown    begins with `delay-` and is like no directive: an application's own, or a directive of a later version.
               It is counted and warned of, or refused: `delay.unknown`

Only names that begin with the directive's own first letter count, so that a header `relay` stays an application's.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from delayline.records.headers import ECHOED, RESERVED
from delayline.schedule.directives import directive_names

PREFIX = b"delay-"
_OURS = b"delayline-"
NAME_CHARS_SHOWN_MAX = 64
"""Of a client's own text, in an error or a log line."""


class Likeness(StrEnum):
    MISSPELT = "misspelt"
    UNKNOWN = "unknown"


class Lookalike(NamedTuple):
    """A header's name as it was sent, and the directive that it is like; None where it is like none."""

    name: str
    nearest: str | None

    @property
    def likeness(self) -> Likeness:
        return Likeness.UNKNOWN if self.nearest is None else Likeness.MISSPELT

    @property
    def sentence(self) -> str:
        """For its sender."""
        if self.nearest is None:
            return f"`{self.name}` is no directive, and delay.unknown refuses other names under `delay-`"
        return f"`{self.name}` is no directive; `{self.nearest}` is one"


@lru_cache(4096)
def lookalike(name: bytes, aliases: tuple[str, ...]) -> Lookalike | None:
    """None for a directive itself, and for a name that is an application's own. Hot: once per header of the records
    that are looked at; remembered, as applications use a handful of names."""
    names = directive_names(aliases)
    if name in names or name in RESERVED or name in ECHOED or len(name) > NAME_CHARS_SHOWN_MAX:
        return None
    plain = _plain(name)
    near = [known for known in names if _is_near(plain, _plain(known))]
    nearest = min(near, key=lambda known: (_plain(known) != plain, known.isupper(), known), default=None)
    if nearest is None and (not plain.startswith(PREFIX) or plain.startswith(_OURS)):
        return None
    return Lookalike(name.decode("utf-8", "replace"), None if nearest is None else nearest.decode())


def lookalikes(names: Sequence[bytes], aliases: tuple[str, ...]) -> list[Lookalike]:
    """Those among the names of a message's headers."""
    found = (lookalike(name, aliases) for name in names)
    return [one for one in found if one is not None]


def _plain(name: bytes) -> bytes:
    return name.lower().replace(b"_", b"-")


def _is_near(given: bytes, known: bytes) -> bool:
    """Whether one edit at most makes one of the other. Both are lower case."""
    if given == known:
        return True
    if given[:1] != known[:1] or abs(len(given) - len(known)) > 1:
        return False
    at = next((n for n, (a, b) in enumerate(zip(given, known, strict=False)) if a != b), min(len(given), len(known)))
    rest, other = given[at:], known[at:]
    exchanged = len(rest) > 1 and rest[:2] == other[1::-1] and rest[2:] == other[2:]
    return exchanged or rest[1:] == other[1:] or rest[1:] == other or rest == other[1:]
