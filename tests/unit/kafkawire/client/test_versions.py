"""What a broker speaks, from its own answer."""

import pytest

from kafkawire.client.versions import API_VERSIONS_VERSION, learned
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode, Malformed, Unreachable, UnsupportedVersion
from kafkawire.protocol.message import encode
from kafkawire.protocol.messages.cluster import ApiVersion, ApiVersionsResponse, FinalizedFeature


def encoded(answer: ApiVersionsResponse) -> memoryview:
    return memoryview(b"".join(encode(answer, API_VERSIONS_VERSION)))


def test_the_newest_version_that_both_speak_is_chosen() -> None:
    answer = ApiVersionsResponse(0, [ApiVersion(3, 5, 13)], finalized_features=[FinalizedFeature("f", 2, 1)])
    versions = learned("one:1", encoded(answer))
    assert versions.features == {"f": 2}
    assert (versions.choose(ApiKey.METADATA, 12, 9), versions.choose(ApiKey.METADATA, 14, 9)) == (12, 13)


@pytest.mark.parametrize("keys", [[], [ApiVersion(3, 5, 1)], [ApiVersion(3, 13, 20)], [ApiVersion(3, -5, -1)]])
def test_a_broker_that_does_not_speak_what_is_needed_is_named(keys: list[ApiVersion]) -> None:
    with pytest.raises(UnsupportedVersion, match=r"one:1: METADATA .*, 9-12 is needed"):
        learned("one:1", encoded(ApiVersionsResponse(api_keys=keys))).choose(ApiKey.METADATA, 12, 9)


def test_a_broker_that_does_not_speak_the_question_is_too_old() -> None:
    with pytest.raises(UnsupportedVersion, match="one:1: API_VERSIONS 3 is needed"):
        learned("one:1", memoryview(ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")))


def test_an_error_is_no_answer_about_versions() -> None:
    with pytest.raises(Unreachable, match="error -1"):
        learned("one:1", encoded(ApiVersionsResponse(ErrorCode.UNKNOWN_SERVER_ERROR)))


def test_an_answer_that_is_cut_off_cannot_be_read() -> None:
    with pytest.raises(Malformed):
        learned("one:1", encoded(ApiVersionsResponse(0, [ApiVersion(3, 5, 13)]))[:-1])
