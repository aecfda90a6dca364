"""Names in which `*` and `?` stand for other characters."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

EVERY = "*"
STAR, MARK = re.escape("*"), re.escape("?")

Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Patterns = Annotated[tuple[Pattern, ...], msgspec.Meta(min_length=1, max_length=1000)]


def any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """A pattern that matches from the beginning to the end. `[` and `]` stand for themselves."""
    return _compiled(_wild(one, ".") for one in patterns)


def principals_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """The same, in which nothing stands for the first colon of a name but `*` alone."""
    return _compiled(_wild(one, ".") if one == EVERY else _of_kind(one) for one in patterns)


def _of_kind(pattern: str) -> str:
    kind, colon, rest = pattern.partition(":")
    return _wild(kind, "[^:]") + colon + _wild(rest, ".")


def _wild(pattern: str, any_one: str) -> str:
    return re.escape(pattern).replace(STAR, f"{any_one}*").replace(MARK, any_one)


def _compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(patterns)})\\Z", re.DOTALL)
