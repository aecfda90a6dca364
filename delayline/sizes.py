"""Sizes as text: `64MiB`. B, KiB MiB GiB TiB are powers of 1024, kB MB GB TB of 1000."""

import re

from delayline.errors import MalformedDirective

_SIZE = re.compile(r"([0-9]{1,18})(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)")
_BINARY_UNITS = {"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
_UNITS = _BINARY_UNITS | {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3}


def parse_size_bytes(text: str) -> int:
    """Raises MalformedDirective."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise MalformedDirective('expected a size with its unit, such as "64MiB"')
    return int(found[1]) * _UNITS[found[2]]


def format_size(size_bytes: int) -> str:
    """In the largest binary unit of which it is a whole number."""
    if size_bytes == 0:
        return "0B"
    unit = next(name for name, factor in _BINARY_UNITS.items() if size_bytes >= factor and size_bytes % factor == 0)
    return f"{size_bytes // _BINARY_UNITS[unit]}{unit}"
