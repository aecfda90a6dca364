"""Which URLs of other servers may be asked: what is sent there, and what is believed of the answer."""

import ipaddress
from urllib.parse import urlsplit

_NEVER = frozenset(' "<>\\^`{|}#@')
"""No part of a URL as it stands (RFC 3986, 2), a fragment, or a user."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_safe_url(url: str, *, with_query: bool = False) -> bool:
    """Whether it is https, or http that does not leave this machine; with a query only where that is allowed."""
    if not url.isascii() or not url.isprintable() or not _NEVER.isdisjoint(url) or ("?" in url and not with_query):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
