"""What clients may take of the Kafka proxy beside what every proxy bounds: decompressed records, and a login."""

import pytest

from kafkawire.batch.compression import Allowance, compress
from kafkawire.batch.head import Codec
from kafkawire.protocol.errors import BatchTooLarge
from kafkawire.protocol.messages.cluster import SaslAuthenticateResponse
from proxy.kafka.frontend.answers import is_login


def test_batches_of_one_request_share_what_they_may_decompress_to() -> None:
    bomb = compress(Codec.GZIP, bytes(600), b"")
    allowance = Allowance(1000)
    allowance.decompress(Codec.GZIP, bomb, 1000)
    assert allowance.decompress(Codec.NONE, bytes(900), 1000) == bytes(900)
    with pytest.raises(BatchTooLarge):
        allowance.decompress(Codec.GZIP, bomb, 1000)


@pytest.mark.parametrize(
    ("code", "data", "passed"),
    [
        (0, b"", True),
        (0, b"v=abc", True),
        (0, b"r=nonce,s=salt,i=4096", False),
        (0, b'{"status":"x"}', False),
        (58, b"", False),
    ],
)
def test_a_login_has_passed_with_the_last_answer_that_has_no_error(code: int, data: bytes, passed: bool) -> None:
    assert is_login(SaslAuthenticateResponse(error_code=code, auth_bytes=data)) is passed
