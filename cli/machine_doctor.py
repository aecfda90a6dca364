"""What can be wrong on this machine: settings, disk, folders in use, ports."""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from cli.findings import Finding
from cli.queues import check_data_key
from delayline.config import Settings
from delayline.config.checks import KEYS
from delayline.errors import DelaylineError
from delayline.http.urls import is_loopback

ROOMY = 4
"""Times `store.disk_free_min`: with less free than that, it is worth a word."""

PROBE_S = 2.0
_MIB = 1 << 20


def examine_machine(settings: Settings) -> Iterator[Finding]:
    """Nothing is made or changed."""
    yield folder(settings.data_dir)
    yield disk(settings, _free_bytes(settings.data_dir))
    yield from _locks(settings)
    yield encryption(settings)
    if settings.store.encryption_keys[0]:
        yield swap(Path("/proc/swaps"))
    yield port("api.port", settings.api.host, settings.api.port)
    yield api_address(settings)
    yield from unheeded(settings)
    if settings.mq.kind != "embedded":
        yield internal(settings)


def _existing(path: Path) -> Path:
    """The folder, or the nearest one above it that there is."""
    path = path.resolve()
    return path if path.exists() else _existing(path.parent)


def folder(data_dir: Path) -> Finding:
    """Whether a server could write there."""
    nearest = _existing(data_dir)
    if not nearest.is_dir():
        return Finding("fail", "data_dir", f"{nearest} is no folder", "name another with data_dir")
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(
            "fail", "data_dir", f"{nearest} cannot be written", "give this user the right to, or set data_dir"
        )
    made = "" if nearest == data_dir.resolve() else ", made at the first start"
    return Finding("ok", "data_dir", f"{data_dir.resolve()}{made}")


def _free_bytes(data_dir: Path) -> int:
    return shutil.disk_usage(_existing(data_dir)).free


def disk(settings: Settings, free_bytes: int) -> Finding:
    """Whether the disk has room for what is taken in."""
    least = settings.store.disk_free_min
    detail = f"{free_bytes // _MIB} MiB are free, store.disk_free_min is {least // _MIB} MiB"
    if free_bytes < least:
        return Finding("fail", "disk", detail, "free some, or move data_dir: nothing new is accepted like this")
    if free_bytes < ROOMY * least:
        return Finding("warn", "disk", detail, "below store.disk_free_min nothing new is accepted: watch it")
    return Finding("ok", "disk", detail)


def encryption(settings: Settings) -> Finding:
    """Whether a server could read its data with the key that is set, or without one."""
    try:
        data_key = check_data_key(settings)
    except DelaylineError as error:
        return Finding("fail", "encryption", str(error), "docs/security.md#encryption-at-rest")
    if data_key is not None:
        return Finding("ok", "encryption", "store.encryption_key is that of the data")
    if settings.store.encryption_keys[0]:
        return Finding("ok", "encryption", "begins at the first start")
    return Finding("ok", "encryption", "off: store.encryption_key is not set")


def swap(file: Path) -> Finding:
    """Whether memory, which holds messages and keys in the clear, may go to a disk. `file` is Linux's table."""
    try:
        devices = [line.split()[0] for line in file.read_text().splitlines()[1:]]
    except (OSError, IndexError):
        return Finding("ok", "swap", "unknown on this system")
    if not devices:
        return Finding("ok", "swap", "there is none")
    advice = "memory holds what store.encryption_key encrypts: encrypt the swap, or turn it off"
    return Finding("warn", "swap", f"in use: {', '.join(devices)}", advice)


# --- folders of other processes


def _locks(settings: Settings) -> Iterator[Finding]:
    yield lock("index lock", settings.data_dir / "index")
    if settings.mq.kind == "embedded":
        yield lock("queue lock", settings.data_dir / "queue")
        yield namespace(settings.data_dir / "queue" / "queue.json", settings.namespace)


def lock(check: str, path: Path) -> Finding:
    """Whether a process has the folder open."""
    try:
        with (path / "LOCK").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return Finding("ok", check, f"{path} does not exist yet")
    except BlockingIOError:
        return Finding("ok", check, f"a process is at work in {path}: another one needs a data_dir of its own")
    except OSError as error:
        return Finding("fail", check, f"{path}: {error.strerror}", "give this user the right to read and write it")
    return Finding("ok", check, f"{path} is free")


def namespace(marker: Path, wanted: str) -> Finding:
    """Whether the embedded queue is this installation's."""
    try:
        found = json.loads(marker.read_text())["namespace"]
    except FileNotFoundError:
        return Finding("ok", "queue", "embedded, made at the first start")
    except (OSError, ValueError, KeyError, TypeError):
        return Finding("fail", "queue", f"{marker} cannot be read", "is data_dir the right folder?")
    if found != wanted:
        advice = f"set namespace to {found}, or data_dir to another folder"
        return Finding("fail", "queue", f"the queue belongs to the namespace {found}, not {wanted}", advice)
    return Finding("ok", "queue", "embedded")


# --- ports and the way between processes


def port(check: str, host: str, number: int) -> Finding:
    """Whether a server could listen there, or does."""
    if number == 0:
        return Finding("ok", check, "any free one")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host or None, number, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except PermissionError:
        return Finding(
            "fail", check, f"this user may not listen on {number}", f"choose a port above 1023 with {check}"
        )
    except OSError as error:
        return _taken(check, host, number, error)
    return Finding("ok", check, f"{host}:{number} is free")


def api_address(settings: Settings) -> Finding:
    """Who may send, read and cancel messages over HTTP."""
    host = settings.api.host
    if settings.api.auth == KEYS:
        return _keys(settings)
    if is_loopback(host):
        return Finding("ok", "api.auth", f"none: only this machine reaches {host}")
    advice = "restrict the network to its users, or put an authenticating proxy in front"
    return Finding(
        "warn", "api.auth", f"none: everyone who can reach {host or 'this machine'} may do everything", advice
    )


def _keys(settings: Settings) -> Finding:
    or_certificate = "" if settings.api.client_certificates == "off" else ", or a certificate"
    if settings.access.keys is None:
        return Finding("ok", "api.auth", "certificates: every request needs one")
    if settings.access.session_secret.get_secret_value():
        return Finding("ok", "api.auth", f"keys: every request needs one, or a session{or_certificate}")
    advice = "where several processes answer HTTP, give them the same access.session_secret"
    return Finding("ok", "api.auth", f"keys{or_certificate}; each process knows its own sessions alone", advice)


def _taken(check: str, host: str, number: int, error: OSError) -> Finding:
    import httpx

    try:
        found = httpx.get(f"http://{host}:{number}/v1/info", timeout=PROBE_S).json()["version"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return Finding(
            "warn", check, f"{host}:{number}: {error.strerror}", f"a server needs it: choose another {check}"
        )
    return Finding("ok", check, f"Delayline {found} listens on {host}:{number}")


TOPICS_ASKED_MAX = 100
"""Each is a question of its own to the server."""


def unheeded(settings: Settings) -> Iterator[Finding]:
    """What senders wrote about a delay and the server at `api.port` does not heed; nothing where there is none."""
    import httpx

    try:
        with httpx.Client(base_url=f"http://{settings.api.host}:{settings.api.port}", timeout=PROBE_S) as server:
            topics = [topic["name"] for topic in server.get("/v1/topics").json()["topics"]]
            for topic in topics[:TOPICS_ASKED_MAX]:
                for one in server.get(f"/v1/topics/{quote(topic, safe='')}").json().get("unheeded", ()):
                    detail = f"header {one['header']}, seen {one['seen']} times: {one['detail']}"
                    yield Finding("warn", f"headers of {topic}", detail, "correct the sender, or name the topic")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        return


def internal(settings: Settings) -> Finding:
    """How processes of one installation ask each other."""
    found = settings.internal
    if found.certfile:
        return Finding("ok", "internal", f"{found.reached_at}, with certificates: every process needs one")
    if found.secret.get_secret_value():
        return Finding("ok", "internal", f"{found.reached_at}, with a secret: every process needs the same")
    advice = (
        "for processes on several machines set internal.host and, everywhere, internal.certfile or internal.secret"
    )
    return Finding("ok", "internal", f"{found.reached_at}, no secret: only processes on this machine", advice)
