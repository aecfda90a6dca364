"""A proxy before scripted servers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.unit.proxy.rocketmq.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Not open yet."""
    with ExitStack() as stack:
        yield Scene(stack, tmp_path)
