"""What is done with memory that is free again."""

import platform

import pytest

from proxy.memory import keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_glibc_takes_the_settings() -> None:
    assert keep_freed_memory()
