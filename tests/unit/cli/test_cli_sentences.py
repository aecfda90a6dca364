"""What the command line makes of a problem: it names the option that was typed, not the field of the request."""

import pytest

from cli.http_client import sentence


@pytest.mark.parametrize(
    ("pointer", "detail", "shown"),
    [
        ("/partitions", "`partitions` is a number from 1 to 4096", "`--partitions` is a number from 1 to 4096"),
        ("?bucket", "`bucket`: whole minutes", "`--bucket`: whole minutes"),
        ("?to", "`to`: take a larger `bucket`", "`--to`: take a larger `--bucket`"),
        ("?page_token", "`page_token` is none", "`--page-token` is none"),
        ("?page_size", "`page_size` is a number from 1 to 1000", "`--limit` is a number from 1 to 1000"),
        ("/value", "`from` is a word of the value", "`from` is a word of the value"),
    ],
)
def test_a_problem_names_the_option_that_was_typed(pointer: str, detail: str, shown: str) -> None:
    problem = {"title": "Not valid", "detail": detail, "errors": [{"pointer": pointer}]}
    assert sentence(problem) == f"Not valid: {shown}"
