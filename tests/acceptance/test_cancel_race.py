"""Cancels that race the due instant: nobody hears one thing and gets the other.

RACES=10000 for more of them; the seed is printed.
"""

import pytest

from tests.acceptance.asking import delivered
from tests.acceptance.racing import race
from tests.fault.server import Server


@pytest.mark.slow
def test_a_cancel_that_is_confirmed_is_kept_and_one_that_is_refused_came_too_late(server: Server) -> None:
    race(server.url, "orders", lambda: delivered(server.url))
