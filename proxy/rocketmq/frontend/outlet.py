"""One direction of a connection: frames that pass in parts, as they come, and frames of the proxy's own.

A peer finds the next frame by the length of the one before. So while a frame that passes is not complete, others
wait: bytes in the midst of it would become part of a message, and the rest of it be read as frames.
"""

from collections.abc import Callable, Sequence

from proxy.endpoint import WRITE_BYTES_HIGH, Buffer, Endpoint


class Outlet:
    """`full` is called with True when more than is good waits, and then with False when nothing does."""

    def __init__(self, endpoint: Endpoint, full: Callable[[bool], None]) -> None:
        self._endpoint = endpoint
        self._full = full
        self._is_within = False
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0

    @property
    def waits(self) -> bool:
        """Whether frames wait for the end of one that passes."""
        return bool(self._waiting)

    def pass_on(self, part: Buffer, *, is_within: bool) -> None:
        """`is_within`: the part ends in the midst of a frame."""
        self._endpoint.write([part])
        self._is_within = is_within
        if self._waiting and not is_within:
            waiting, self._waiting = self._waiting, []
            self._endpoint.write(waiting)
            self._waiting_bytes = 0
            self._full(False)

    def write(self, parts: Sequence[Buffer]) -> None:
        """Whole frames."""
        if not self._is_within:
            self._endpoint.write(parts)
            return
        self._waiting += parts
        self._waiting_bytes += sum(map(len, parts))
        if self._waiting_bytes > WRITE_BYTES_HIGH:
            self._full(True)
