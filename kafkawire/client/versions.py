"""What a broker speaks: asked once per connection, before anything else (KIP-511). Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from delayline import __version__
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode, Unreachable, UnsupportedVersion
from kafkawire.protocol.message import decode
from kafkawire.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse

API_VERSIONS_VERSION = 3
"""The first with features; brokers speak it since 2.4."""

QUESTION = ApiVersionsRequest("delayline", __version__)


class BrokerVersions(NamedTuple):
    """`apis` has the oldest and the newest version of each API, `features` the levels that the cluster has agreed on
    (KIP-584)."""

    broker: str
    apis: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]

    def choose(self, api: ApiKey, newest: int, oldest: int) -> int:
        """The newest version up to `newest` that the broker speaks. Raises UnsupportedVersion below `oldest`."""
        theirs = self.apis.get(api, (0, -1))
        found = min(newest, theirs[1])
        if found < max(oldest, theirs[0]):
            raise UnsupportedVersion(
                f"{self.broker}: {api.name} {theirs[0]}-{theirs[1]}, {oldest}-{newest} is needed"
            )
        return found


def learned(broker: str, body: memoryview) -> BrokerVersions:
    """From the answer to QUESTION. Raises UnsupportedVersion where the broker does not speak this question itself: it
    answers so in the layout of version 0, whatever was asked. Raises Unreachable for another error: another try may
    bring an answer; and Malformed."""
    if int.from_bytes(body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
        raise UnsupportedVersion(f"{broker}: API_VERSIONS {API_VERSIONS_VERSION} is needed")
    answer = decode(ApiVersionsResponse, API_VERSIONS_VERSION, body)
    if answer.error_code:
        raise Unreachable(f"{broker} does not report its versions: error {answer.error_code}")
    return BrokerVersions(
        broker,
        {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys},
        {one.name: one.max_version_level for one in answer.finalized_features},
    )
