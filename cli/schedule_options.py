"""Options of a schedule, for every command that takes one: named as the fields of the HTTP API."""

from typing import Annotated, Any

import typer

Delay = Annotated[str | None, typer.Option(help="Duration such as 90s, 1h30m or PT1H.")]
At = Annotated[str | None, typer.Option(help="Moment: RFC 3339 with offset, or epoch milliseconds.")]
Level = Annotated[int | None, typer.Option(help="RocketMQ delay level.")]
Cron = Annotated[str | None, typer.Option(help="Repeat: 5 fields, or 6 with seconds first.")]
TimeZone = Annotated[str | None, typer.Option(help="With --cron: an IANA time zone such as Europe/Berlin; else UTC.")]
Every = Annotated[str | None, typer.Option(help="Repeat: a duration of at least 1s.")]
Times = Annotated[int | None, typer.Option(help="With --cron or --every: how many deliveries; default: no end.")]
Backoff = Annotated[float | None, typer.Option(help="With --every: a factor by which the gaps grow.")]
Missed = Annotated[str | None, typer.Option(help="With --cron or --every, of what has passed: all, latest or none.")]
Ttl = Annotated[str | None, typer.Option(help="Not delivered later than this duration after the due time.")]
ExpireAt = Annotated[str | None, typer.Option(help="Not delivered after this moment.")]
OwnId = Annotated[str | None, typer.Option(help="An id of your own: at most one pending message has it.")]
OnConflict = Annotated[
    str | None,
    typer.Option(help="With --own-id, if a pending message has it: keep that one (default), or replace it."),
]


def schedule_of(
    *,
    delay: str | None = None,
    at: str | None = None,
    level: int | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
    every: str | None = None,
    times: int | None = None,
    backoff: float | None = None,
    missed: str | None = None,
    ttl: str | None = None,
    expire_at: str | None = None,
    own_id: str | None = None,
    on_conflict: str | None = None,
) -> dict[str, Any]:
    """The schedule object for these options; empty where none is given."""
    fields = {
        "delay": delay,
        "deliver_at": moment_of(at),
        "level": level,
        "cron": cron,
        "time_zone": time_zone,
        "every": every,
        "times": times,
        "backoff": backoff,
        "missed": missed,
        "ttl": ttl,
        "expire_at": moment_of(expire_at),
        "own_id": own_id,
        "on_conflict": on_conflict,
    }
    return {field: value for field, value in fields.items() if value is not None}


def moment_of(typed: str | None) -> str | int | None:
    """Digits are epoch milliseconds."""
    return int(typed) if typed and typed.isdecimal() else typed
