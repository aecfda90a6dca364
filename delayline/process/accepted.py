"""The counter that every frontend has part in: HTTP, and the proxies."""

from prometheus_client import CollectorRegistry, Counter


def accepted_counter(registry: CollectorRegistry) -> Counter:
    """By topic, and the frontend (`via`) through which a message came. Once for each registry."""
    return Counter(
        "delayline_messages_accepted",
        "Messages stored durably, by the frontend they came through.",
        ("topic", "via"),
        registry=registry,
    )
