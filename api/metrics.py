"""The API's own metrics."""

from prometheus_client import CollectorRegistry, Counter

from delayline.process.accepted import accepted_counter
from delayline.schedule.unheeded import UnheededNames


class Metrics:
    """Counters on the installation's registry. Labels called `topic` hold topics that exist, so their number is the
    queue's affair; `type` and `mode` are closed sets."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.accepted = accepted_counter(registry)
        self.unconfirmed_failures = Counter(
            "delayline_http_unconfirmed_failures",
            "Messages sent with mode=async or oneway that could not be stored; their clients were not notified.",
            ("topic",),
            registry=registry,
        )
        self.problems = Counter(
            "delayline_http_problems", "Problems answered, by problem type.", ("type",), registry=registry
        )
        self.unheeded = UnheededNames(registry)
