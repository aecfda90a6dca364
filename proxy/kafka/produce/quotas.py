"""A client's quota, and its delayed records.

Like a broker, the proxy carries out a request whatever it costs, and then answers `throttle_time_ms` (KIP-13) and
reads nothing more of the connection for as long (KIP-219). Clients wait by themselves; those that do not, or come by
another connection, get deeper into debt, up to `DEBT_MAX_S`. Records that are not delayed are not counted here: the
broker counts them.
"""

from math import ceil
from typing import TYPE_CHECKING

from delayline.access.ledger import Account
from delayline.access.quotas import Limit
from kafkawire.protocol.errors import ErrorCode
from proxy.kafka.produce.produces import ClientProduce, PartitionBatch
from proxy.kafka.produce.screen import Refusal, Seen

if TYPE_CHECKING:
    from proxy.kafka.hub import Hub
    from proxy.kafka.produce.upstream import Upstream

DEBT_MAX_S = 60.0
"""A principal that owes more is refused, with an error that clients try again after: large requests, or many
connections, would otherwise have no bound."""


PAUSE_MAX_S = 5.0
"""A connection that is not read does not show that its client has closed it, and keeps its place meanwhile; what is
not delayed waits on it, too; and a request in flight must be answered before its client gives up (30 s). Brokers
bound their pauses by a window of some seconds as well. What is owed beyond it stays owed."""


class ConnectionQuota:
    """Of one connection."""

    def __init__(self, hub: "Hub", upstream: "Upstream") -> None:
        self._hub = hub
        self._upstream = upstream

    def account(self) -> Account | None:
        """Of whom the connection is; None where no quota is for it. Hot: once per Produce."""
        ledger = self._hub.ledger
        return None if ledger is None else ledger.account(self._upstream.principal)

    def refusal(self, partition: PartitionBatch, seen: Seen) -> Refusal | None:
        """Why the delayed records of a batch are not taken."""
        account = partition.production.account
        if account is None:
            return None
        if account.wait_s > DEBT_MAX_S:
            limit = Limit.BYTES if account.quota.bytes is not None else Limit.REQUESTS
            self._pause(partition.production, account)
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, str(account.used_up(limit, account.wait_s)))
        pending_max = account.quota.pending_max
        if pending_max is None or not seen.adds:
            return None
        full = self._hub.full(partition.topic, adds=seen.adds, pending_max=pending_max)
        return (
            None if full is None else Refusal(ErrorCode.POLICY_VIOLATION, str(account.refusal(Limit.PENDING, full)))
        )

    def pay(self, production: ClientProduce, size: int) -> None:
        """For delayed records of so many bytes; the request itself is paid once."""
        account = production.account
        if account is None:
            return
        if not production.is_paid:
            production.is_paid = True
            account.pay_request()
        account.pay_bytes(size)
        self._pause(production, account)

    def _pause(self, production: ClientProduce, account: Account) -> None:
        wait_s = min(account.wait_s, PAUSE_MAX_S)
        if wait_s > 0:
            production.throttle_time_ms = max(production.throttle_time_ms, ceil(wait_s * 1000))
            self._upstream.mute(account, wait_s)
