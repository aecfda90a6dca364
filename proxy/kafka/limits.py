"""Limits beside those of every proxy (`proxy.limits`): before a login, and of compressed records."""

from dataclasses import dataclass

from kafkawire.batch.compression import Allowance

INLINE_BYTES = 64 * 1024
INLINE_PLAIN_BYTES = 1 << 20
"""Compressed records of one request, as they came and decompressed, that are looked at on the event loop: about two
milliseconds. What takes more goes to a thread."""

THREADS_MAX = 2
"""Requests that are decompressed beside the event loop at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaLimits:
    """Sizes in bytes. Of a login: while the brokers demand one and it has not succeeded."""

    login_frame_bytes_max: int = 512 * 1024  # brokers: sasl.server.max.receive.size
    login_timeout_s: float = 30.0
    plain_bytes_max: int = 64 << 20  # decompressed records of one request

    def allowance(self) -> Allowance:
        return Allowance(self.plain_bytes_max)
