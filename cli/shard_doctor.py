"""Shards that have stalled, as the server that runs here reports them; nothing where none runs."""

from collections.abc import Iterator

import httpx

from cli.findings import Finding
from delayline.config import Settings

TIMEOUT_S = 6.0
"""More than a server waits for owners that do not answer."""


def examine_shards(settings: Settings) -> Iterator[Finding]:
    host = "127.0.0.1" if settings.api.host in ("0.0.0.0", "::") else settings.api.host
    try:
        answer = httpx.get(f"http://{host}:{settings.api.port}/v1/topics", timeout=TIMEOUT_S)
        topics = answer.raise_for_status().json()["topics"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return
    for topic in topics:
        for stall in topic["stalled"]:
            shard = f"{topic['name']} {stall['partition']}"
            detail = f"{shard}: {stall['reason']}, {stall['detail']}"
            yield Finding("fail", "shard", detail, f"`delayline shard inspect {shard}` shows what to do")
