"""A server that needs keys, with a key for each principal that a test has rules for."""

from collections.abc import Iterable
from pathlib import Path

from delayline.access.acts import Act
from delayline.access.hashing import Hasher
from delayline.access.keys import AccessKey, AccessKeys, new_token
from tests.fault.server import Server
from tests.unit.api.access.held import allowing

ROOT = "root"
"""A principal that may do everything; each of these servers has it."""


class KeyedServer(Server):
    """In a folder of its own, not started. `key` has the key of each principal."""

    def __init__(self, folder: Path, principals: Iterable[str], rules: str) -> None:
        self.key: dict[str, str] = {}
        keys, hasher = [], Hasher()
        for principal in (ROOT, *principals):
            token = new_token()
            self.key[principal] = str(token)
            keys.append(AccessKey(token.key_id, principal, hasher.hash(token.secret), 0))
        (folder / "keys.json").write_bytes(AccessKeys(keys).encoded())
        (folder / "rules.toml").write_text(rules + allowing(ROOT, *Act, topics="*"))
        files = {"access__rules": str(folder / "rules.toml"), "access__keys": str(folder / "keys.json")}
        super().__init__(folder / "data", api__auth="keys", **files)

    def shown_by(self, principal: str) -> dict[str, str]:
        """The header with its key."""
        return {"authorization": f"Bearer {self.key[principal]}"}
