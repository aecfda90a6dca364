"""Text of others on a terminal, which obeys control characters (C0, C1) and turns lines round (bidi).

What is not printable is shown as its escape: Unicode's categories "other" and "separator", but for the space
(`str.isprintable`).
"""

from collections.abc import Callable


def printable(text: str, chars_max: int | None = None) -> str:
    """The text with escapes as Python writes them, such as `\\x1b` and `\\u202e`; at most `chars_max` of its own
    characters, with a note of how many there are."""
    shown = text if chars_max is None else cut(text, chars_max)
    return _escaped(shown, lambda char: repr(char)[1:-1])


def cut(text: str, chars_max: int) -> str:
    """At most `chars_max` characters; where there are more, with a note of how many there are."""
    return text if len(text) <= chars_max else f"{text[:chars_max]}… ({len(text)} characters)"


def printable_json(text: str) -> str:
    """JSON that a terminal shows as it is, and that reads as the same value: outside of strings all is printable."""
    return _escaped(text, _json_escape)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape(char) for char in text)
