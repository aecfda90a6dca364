"""Which worker has which shard: the same answer for all that know the same members.

Rendezvous hashing (Thaler and Ravishankar, 1998) with a bound: each member takes the shards that rate it highest, and
no more than its fair share. When one comes or goes, most shards stay where they are.
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b

from delayline.records.message import Shard


def share_of(member: str, members: Collection[str], shards: Iterable[Shard]) -> set[Shard]:
    """The shards of `member`, which is one of `members`."""
    return {shard for shard, owner in _owners(sorted(members), sorted(shards)).items() if owner == member}


def _owners(members: list[str], shards: list[Shard]) -> dict[Shard, str]:
    """The first members in a fixed order have one more, where the number does not divide."""
    fewest, more = divmod(len(shards), len(members))
    by_rate = sorted(members, key=lambda member: _rate(member, ""))
    room = {member: fewest + (number < more) for number, member in enumerate(by_rate)}
    owners: dict[Shard, str] = {}
    for shard in shards:
        best = max((member for member in members if room[member]), key=lambda member: _rate(member, "/".join(shard)))
        owners[shard] = best
        room[best] -= 1
    return owners


def _rate(member: str, shard: str) -> bytes:
    return blake2b(f"{member} {shard}".encode(), digest_size=8).digest()
