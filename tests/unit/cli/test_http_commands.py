"""What the commands make of what was typed."""

import pytest

from cli.http_commands import partition_given


@pytest.mark.parametrize(
    ("typed", "sent"), [(None, None), ("3", 3), ("03", 3), ("broker-a:3", "broker-a:3"), ("-1", "-1"), ("", "")]
)
def test_a_partition_is_a_number_or_the_name_that_answers_have(typed: str | None, sent: int | str | None) -> None:
    assert partition_given(typed) == sent
