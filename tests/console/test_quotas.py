"""The page of quotas: who has used how much, for those who may see it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.acceptance.asking import run
from tests.console.conftest import OpenPage
from tests.console.test_login import log_in
from tests.fault.server import Server, http_client

RULES = """
[[rule]]
principals = ["ops/ann"]
topics = ["*"]
acts = ["read", "admin"]

[[rule]]
principals = ["red"]
topics = ["red.*"]
acts = ["send"]

[[quota]]
principals = ["red"]
bytes_per_second = "1B"
bytes_burst = "100B"
times_max = 3
"""


class Limited:
    """A server whose principals have quotas."""

    def __init__(self, folder: Path) -> None:
        rules, self._keys = folder / "rules.toml", folder / "keys.json"
        rules.write_text(RULES)
        self.ann, self.red = self._key("ops/ann"), self._key("red")
        self.server = Server(
            folder / "data", api__auth="keys", access__rules=str(rules), access__keys=str(self._keys)
        )

    def _key(self, principal: str) -> str:
        return run("access", "keys", "create", principal, "--file", str(self._keys)).out.strip()

    def send(self) -> int:
        with http_client(20) as http:
            url = f"{self.server.url}/v1/topics/red.orders/messages"
            headers = {"authorization": f"Bearer {self.red}"}
            return http.post(url, json={"value": "x" * 200}, headers=headers).status_code


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    limited = Limited(tmp_path)
    limited.server.start()
    limited.server.wait_ready()
    yield limited
    limited.server.kill()


def test_an_operator_sees_who_is_in_debt_and_a_tenant_does_not(open_page: OpenPage, limited: Limited) -> None:
    assert [limited.send(), limited.send()] == [201, 429]
    page = open_page("#/quotas", url=limited.server.url)
    log_in(page, limited.ann)
    row = page.get_by_role("table", name="Principals").get_by_role("row", name="red")
    expect(row).to_contain_text("times_max 3")
    expect(row).to_contain_text("of 100")
    expect(row).to_contain_text("in debt")
    expect(page.get_by_role("table", name="Quotas")).to_contain_text("bytes_burst 100B")
    page.get_by_role("button", name="Log out").click()
    log_in(page, limited.red)
    expect(page.locator("body")).to_contain_text("red has no right to `admin` of every topic")
