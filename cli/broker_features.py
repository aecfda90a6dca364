"""The features that a cluster has agreed on (KIP-584). librdkafka does not report them, the proxy's connections
do."""

import asyncio
from collections.abc import Mapping

from delayline import __version__
from delayline.clock import Clock
from delayline.config import Settings
from delayline.errors import DelaylineError
from kafkawire.client.address import parse_servers
from kafkawire.client.aio import connect
from kafkawire.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.security.access import read_access

ANSWER_S = 5.0
API_VERSIONS_VERSION = 3
"""The first one with features."""


def features_of(settings: Settings, clock: Clock) -> Mapping[str, int] | str:
    """By name, the level that is in force; why it is not known, where it is not."""
    try:
        return asyncio.run(_ask(settings, clock))
    except DelaylineError as error:
        return str(error)


async def _ask(settings: Settings, clock: Clock) -> Mapping[str, int]:
    """Of the first server that answers. Raises DelaylineError."""
    access = read_access(settings.mq.client_properties())
    trouble: DelaylineError | None = None
    for address in parse_servers(settings.mq.bootstrap_servers):
        try:
            connection = await connect(address, access, f"{settings.namespace}-doctor", ANSWER_S, clock)
            asked = ApiVersionsRequest("delayline", __version__)
            answer = await connection.ask(asked, API_VERSIONS_VERSION, ApiVersionsResponse, ANSWER_S)
        except DelaylineError as error:
            trouble = error
            continue
        connection.close()
        return {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert trouble is not None, "there is at least one server"
    raise trouble
