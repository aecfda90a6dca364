"""What seems to be missing, and may stand where no run can read it: in a part of a buffer that was deleted unread, or
in an audit record that cannot be read. Pure."""

from reconcile.logic.ledger import Category
from reconcile.logic.manifest import Shard
from reconcile.logic.testimony import Found


def doubted(found: Found, shard: Shard | None) -> Found:
    """`shard`: that of the record's place; None where no run reads it. As `unauditable` where it may be elsewhere."""
    if shard is None or found.category != Category.MISSING:
        return found
    is_successor = found.done_ms is not None
    may_be_there = _may_be_lost(found, shard) if is_successor else _may_be_unread(found, shard)
    return found._replace(category=Category.UNAUDITABLE.value) if may_be_there else found


def _may_be_lost(successor: Found, shard: Shard) -> bool:
    """A re-append stands behind the record that it carries on, in the same buffer: a loss that ends at that record or
    before it cannot hold it."""
    is_behind = any(lost.end > successor.offset + 1 for lost in shard.lost)
    return is_behind and successor.done_ms is not None and successor.done_ms < shard.lost_until_ms


def _may_be_unread(absent: Found, shard: Shard) -> bool:
    """Its outcome may be in an audit record that could not be read."""
    return shard.untold_from <= absent.offset < shard.untold_below
