"""Where rules and keys come from, for what decides by them."""

from typing import Protocol

from delayline.access.keys import AccessKeys
from delayline.access.rules import AccessRules


class AccessSource(Protocol):
    """The rules and the keys of an installation as they are now. Asked per request: must be quick."""

    @property
    def rules(self) -> AccessRules: ...

    @property
    def keys(self) -> AccessKeys: ...
