"""The limits of the HTTP ports of a process, as the settings have them and its file descriptors allow them."""

from delayline.config import Settings
from delayline.http.descriptors import connections_of, raise_limit
from delayline.http.guard import HttpLimits
from delayline.process import logs

API_PART, INTERNAL_PART = 0.5, 0.25
"""Of the descriptors that are no reserve; the rest is for clients of the Kafka proxy."""

log = logs.get(__name__)


def api_limits(settings: Settings) -> HttpLimits:
    """Of the port that everybody may reach: of the API, or for health and metrics."""
    api = settings.api
    return HttpLimits(
        connections_max=_within("api.connections_max", api.connections_max, API_PART),
        address_share_percent=api.address_share_percent,
        head_bytes_max=api.head_bytes_max,
        head_fields_max=api.head_fields_max,
        head_timeout_s=api.head_timeout / 1000,
        idle_timeout_s=api.idle_timeout / 1000,
        send_timeout_s=api.send_timeout / 1000,
    )


def internal_limits(settings: Settings) -> HttpLimits:
    """Of the port for the other processes of the installation; they come from few addresses."""
    wanted = settings.internal.connections_max
    return HttpLimits(connections_max=_within("internal.connections_max", wanted, INTERNAL_PART))


def _within(key: str, wanted: int, part: float) -> int:
    descriptors = raise_limit()
    allowed = connections_of(descriptors, wanted, part)
    if allowed < wanted:
        sentence = f"fewer connections than {key} allows: raise RLIMIT_NOFILE"
        log.warning(sentence, allowed=allowed, descriptors=descriptors)
    return allowed


def api_hosts(settings: Settings, *bound: str) -> tuple[str, ...]:
    """The names under which HTTP clients may reach this process: those that are set, and those it listens on."""
    return (*settings.api.hosts, *(name for name in bound if name))
