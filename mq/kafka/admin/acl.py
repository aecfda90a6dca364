"""Access control lists as Kafka's authorizer reads them (`StandardAuthorizer`, KIP-11, KIP-290). Pure.

Types of resources and operations have the names of kafka-acls.sh: `transactional-id`, `DescribeConfigs`.
"""

from collections.abc import Iterable
from typing import NamedTuple

LITERAL, PREFIXED = "literal", "prefixed"
ANY_NAME = "*"
"""A literal pattern with this name covers every resource of its type."""

ALL = "All"
IMPLIED = {
    "Describe": frozenset({"Read", "Write", "Delete", "Alter"}),
    "DescribeConfigs": frozenset({"AlterConfigs"}),
}
"""By operation, those that allow it as well. No denial is implied (`AclEntry.impliedOperations`)."""

EVERYBODY = "User:*"


class Pattern(NamedTuple):
    """Which resources: `kind` is topic, group, transactional-id or cluster; `how` is LITERAL or PREFIXED."""

    kind: str
    how: str
    name: str

    def covers(self, other: "Pattern") -> bool:
        """Whether every resource that `other` names is one of these."""
        if self.kind != other.kind:
            return False
        if self.how == PREFIXED:
            return other.name.startswith(self.name) and not other._is_any
        return self._is_any or (self == other)

    def overlaps(self, other: "Pattern") -> bool:
        """Whether some resource may be named by both."""
        if self.kind != other.kind or self.covers(other) or other.covers(self):
            return self.kind == other.kind
        return self._is_any or other._is_any

    @property
    def _is_any(self) -> bool:
        return self.how == LITERAL and self.name == ANY_NAME


class Acl(NamedTuple):
    """An operation, and what it is allowed with, or denied."""

    pattern: Pattern
    operation: str


class Binding(NamedTuple):
    """What brokers hold: whether `principal` may do it from `host`, `*` for every host."""

    acl: Acl
    principal: str
    host: str
    allows: bool


def includes(operation: str, other: str) -> bool:
    """Whether who may do `operation` may do the other one, too."""
    return operation in (other, ALL) or operation in IMPLIED.get(other, ())


def grants(acl: Acl, other: Acl) -> bool:
    """Whether the first ACL allows all that the other one does."""
    return acl.pattern.covers(other.pattern) and includes(acl.operation, other.operation)


def is_granted(wanted: Acl, bindings: Iterable[Binding], principal: str) -> bool:
    """Whether these allow it from every host and for every resource of the pattern. One denial of a part counts."""
    own = [binding for binding in bindings if binding.principal in (principal, EVERYBODY)]
    if any(not binding.allows and _denies(binding.acl, wanted) for binding in own):
        return False
    return any(binding.allows and binding.host == "*" and grants(binding.acl, wanted) for binding in own)


def _denies(denied: Acl, wanted: Acl) -> bool:
    return denied.operation in (wanted.operation, ALL) and denied.pattern.overlaps(wanted.pattern)


def without_implied(acls: Iterable[Acl]) -> list[Acl]:
    """Those that no other one of them includes, in their order and each once."""
    found = list(dict.fromkeys(acls))
    return [acl for acl in found if not any(other != acl and grants(other, acl) for other in found)]
