"""Transactions that have ended, and of whose end some partition has never heard.

Their records, and everything behind them, stay hidden from readers of what is committed, and their offsets pending:
Kafka calls them hanging (KIP-664). A coordinator that has decided sends every partition a marker. To a partition that
has no leader at that moment it sends none, takes it for deleted, and calls the transaction complete
(`TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue`, seen on 4.3.1): when the only replica in sync is away,
and, for all partitions at once, when all brokers were killed and come back while their old sessions run out.

Nothing here is guessed. The coordinator reports how a transaction ended (DescribeTransactions), and each partition
reports whether the transaction is still open there (DescribeProducers). A missing marker is written as the
coordinator would have written it (WriteTxnMarkers). That changes nothing else, and may be done twice. A producer that
goes on under the same id makes the coordinator forget how the last transaction ended, and its next marker ends what
is still open, rightly or wrongly. So this comes before a producer takes an id, see `recover`. A sweep finds the
transactions of ids that stay unused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from threading import Lock
from typing import TypeVar

from delayline.clock import Clock
from delayline.names import Names
from delayline.process import logs
from kafkawire.client.metadata import NO_LEADER, TRANSACTION, Nodes
from kafkawire.client.steps import Place
from kafkawire.protocol.errors import AnswerLost, ErrorCode, NotAllowed, PeerError, Unreachable
from kafkawire.protocol.message import Message
from kafkawire.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MarkedTopic,
    Marker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from mq.errors import QueueUnavailable
from mq.kafka.data_path.finishing import OFFSETS_TOPIC
from mq.kafka.data_path.transaction_states import (
    INTERRUPTED,
    NO_TRANSACTION,
    OUTCOMES,
    READABLE,
    UNDER_WAY,
    WRITTEN,
    Busy,
    OpenTransaction,
    Seen,
    Verdict,
    active_producers,
    answer_of,
    error_of,
    log_ends,
    offsets_row,
)

A = TypeVar("A", bound=Message)
T = TypeVar("T")

AGAIN_S, AGAIN_MAX_S = 0.01, 0.2

FENCE_S = 2.0
"""How long to wait for open transactions to be aborted; a caller with less time goes on without it."""

SWEEP_S = 10.0
"""Between two sweeps: what is open at both although its coordinator ended it, hangs. Markers take milliseconds."""

log = logs.get(__name__)


class Hanging:
    """Any thread may call it. Looks at an installation's own topics, at those that it delivers to, and at the groups'
    offsets. `pause` waits for so many seconds; true means that nothing is to be waited for any more."""

    def __init__(
        self, nodes: Nodes, names: Names, timeout_s: float, clock: Clock, pause: Callable[[float], object]
    ) -> None:
        self._nodes = nodes
        self._names = names
        self._timeout_s = timeout_s
        self._clock = clock
        self._pause = pause
        self._lock = Lock()
        self._unfinished: dict[Verdict, frozenset[Place]] = {}  # where partitions had no leader to be asked
        self._before: frozenset[OpenTransaction] = frozenset()  # seen by the last sweep
        self._logged: frozenset[OpenTransaction] = frozenset()
        self._forbidden = ""
        self._offsets_rows = 0  # partitions of the groups' offsets

    def close(self) -> None:
        self._nodes.close()

    # --- mq.kafka.data_path.finishing.Finisher

    def recover(self, transactional_id: str) -> bool:
        """What could not be reached is left to a sweep. Raises QueueUnavailable."""
        with self._lock, _translated_errors(f"how {transactional_id} has ended"):
            return self._patiently(partial(self._recover, transactional_id), self._timeout_s)

    def unheard(self, transactional_id: str, group: str | None) -> frozenset[Place]:
        if not self._unfinished:
            return frozenset()
        unfinished = tuple(self._unfinished.items())
        places = frozenset[Place]().union(
            *(left for one, left in unfinished if one.transactional_id == transactional_id)
        )
        foreign = {(OFFSETS_TOPIC, row) for row in range(self._offsets_rows)}
        if group is not None and self._offsets_rows:
            foreign.discard((OFFSETS_TOPIC, offsets_row(group, self._offsets_rows)))
        return places - foreign

    # --- for ids under which no producer goes on

    def sweep(self) -> None:
        """Finish the transactions of any producer that have ended, were open at the last sweep and still are. Missing
        permissions are logged once. Raises QueueUnavailable."""
        with self._lock, _translated_errors("what hangs"):
            try:
                self._sweep()
            except NotAllowed as error:
                if str(error) != self._forbidden:
                    log.warning("transactions that hang may stay so", detail=str(error))
                self._forbidden = str(error)
                raise

    def _sweep(self) -> None:
        seen = self._look()
        lasting, self._before = seen.standing & self._before, seen.standing
        verdicts, under_way = self._verdicts({found.producer_id for found in lasting})
        waiting = {verdict.producer_id for verdict in self._unfinished}
        self._finish_rest(seen)
        for verdict in verdicts:
            if verdict.producer_id not in waiting:
                self._finish(verdict, seen)
        self._logged &= lasting
        for found in lasting - self._logged:
            if found.producer_id not in under_way and not any(one.may_be_about(found) for one in verdicts):
                log.error("a transaction hangs of which no coordinator knows how it ended", **_fields(found))
                self._logged |= {found}

    def _recover(self, transactional_id: str) -> bool:
        described = self._described(transactional_id)
        verdict = self._decided(described)
        if verdict is None and described.transaction_state in UNDER_WAY and self._names.is_writer(transactional_id):
            return self._abort(described)
        seen = self._look() if verdict is not None or self._unfinished else Seen(frozenset(), frozenset())
        self._finish_rest(seen)
        return verdict is not None and self._finish(verdict, seen)

    def _abort(self, described: DescribedTransaction) -> bool:
        """To take the id aborts what is open, in the partitions that have a leader then; unless its
        producer was quicker, and has committed it."""
        places = frozenset((topic.topic, row) for topic in described.topics for row in topic.partitions)
        whose = described.transactional_id, described.producer_id, described.producer_epoch + 1
        try:
            committed = self._patiently(partial(self._interrupt, described.transactional_id), FENCE_S)
        except (Unreachable, AnswerLost) as error:
            log.debug("not fenced yet", detail=str(error))
            return False
        if committed is None:
            return True
        is_fenced = self._try_fence(described.transactional_id)
        self._carry_out(Verdict(*whose, committed=committed, places=places), self._look())
        return is_fenced

    def _interrupt(self, transactional_id: str) -> bool | None:
        """Begin to take the id while a transaction is open: the broker answers that it is to be tried again. Whether
        it was committed; None where it had ended before, so that the id is taken, and its outcome is not known any
        more."""
        try:
            self._fence(transactional_id)
        except Busy:
            state = self._described(transactional_id).transaction_state
            if state not in INTERRUPTED:
                raise
            return INTERRUPTED[state]
        return None

    def _finish(self, verdict: Verdict, seen: Seen) -> bool:
        """Whether the id's producers had to be fenced for it: where the next transaction's records look like those of
        this one, or may do so by the time that they are seen."""
        unclear = any(verdict.may_be_about(found) and not verdict.is_about(found) for found in seen.standing)
        if not (unclear or self._unheard(verdict, seen)) or not self._names.is_writer(verdict.transactional_id):
            self._carry_out(verdict, seen)
            return False
        if self._decided(self._described(verdict.transactional_id)) != verdict:
            return False  # its producer has gone on: what stands open is under way
        is_fenced = self._try_fence(verdict.transactional_id)
        self._carry_out(verdict._replace(fenced=is_fenced), self._look())
        return is_fenced

    def _carry_out(self, verdict: Verdict, seen: Seen) -> None:
        left = self._unheard(verdict, seen) | self._mark(verdict, seen.standing)
        if left:
            self._unfinished[verdict] = left

    def _unheard(self, verdict: Verdict, seen: Seen) -> frozenset[Place]:
        """The partitions that may need to hear of it and cannot be asked, but for those that have had no leader since
        before it began."""
        places = seen.unseen if verdict.places is None else seen.unseen & verdict.places
        earlier = (left for one, left in self._unfinished.items() if one.producer_id == verdict.producer_id)
        return places.difference(*earlier)

    def _finish_rest(self, seen: Seen) -> None:
        """What was decided while partitions could not be reached."""
        for verdict, places in list(self._unfinished.items()):
            refused = self._mark(verdict, [found for found in seen.standing if found.place in places])
            self._unfinished[verdict] = places & (seen.unseen | refused)
            if not self._unfinished[verdict]:
                del self._unfinished[verdict]

    # --- what coordinators answer

    def _described(self, transactional_id: str) -> DescribedTransaction:
        with self._coordinating(transactional_id) as node:
            answer = self._ask(node, DescribeTransactionsRequest([transactional_id]), DescribeTransactionsResponse)
            found = next(iter(answer.transaction_states), DescribedTransaction(error_code=NO_TRANSACTION))
            if found.error_code not in (0, NO_TRANSACTION):
                raise error_of(found.error_code, f"the transactions of {transactional_id}")
        return found

    @contextmanager
    def _coordinating(self, transactional_id: str) -> Iterator[int]:
        """The id's coordinator, which is looked for again when it gives no good answer, or none."""
        node = self._nodes.coordinator(TRANSACTION, transactional_id)
        try:
            yield node
        except PeerError:
            self._nodes.forget_coordinator(TRANSACTION, transactional_id)
            raise

    def _decided(self, found: DescribedTransaction) -> Verdict | None:
        committed = OUTCOMES.get(found.transaction_state)
        if committed is None:
            return None
        return Verdict(found.transactional_id, found.producer_id, found.producer_epoch, committed)

    def _verdicts(self, producers: set[int]) -> tuple[list[Verdict], set[int]]:
        """Of those whose ids the brokers still know; and the producers of transactions that are under way."""
        verdicts: list[Verdict] = []
        under_way: set[int] = set()
        for node in self._nodes.ids() if producers else ():
            request = ListTransactionsRequest(producer_id_filters=sorted(producers))
            for one in self._ask(node, request, ListTransactionsResponse).transaction_states:
                found = self._described(one.transactional_id)
                verdict = self._decided(found)
                if verdict is not None:
                    verdicts.append(verdict)
                elif found.transaction_state in UNDER_WAY:
                    under_way.add(one.producer_id)
        return verdicts, under_way

    def _try_fence(self, transactional_id: str) -> bool:
        """Not while markers of its last transaction wait for replicas: a producer that takes the id then waits for
        them, too."""
        try:
            self._patiently(partial(self._fence, transactional_id), FENCE_S)
        except (Unreachable, AnswerLost) as error:
            log.debug("not fenced yet", detail=str(error))
            return False
        return True

    def _fence(self, transactional_id: str) -> None:
        request = InitProducerIdRequest(transactional_id, int(self._timeout_s * 1000))
        with self._coordinating(transactional_id) as node:
            answer = self._ask(node, request, InitProducerIdResponse)
            if answer.error_code:
                raise error_of(answer.error_code, f"fencing {transactional_id}")

    # --- what partitions answer

    def _look(self) -> Seen:
        leaders = self._nodes.all_leaders()
        targets = {self._names.target(topic) for topic, _ in leaders}
        self._offsets_rows = sum(topic == OFFSETS_TOPIC for topic, _ in leaders)
        by_leader: dict[int, list[Place]] = {}
        for place, leader in leaders.items():
            if place[0] == OFFSETS_TOPIC or place[0] in targets or self._names.is_own(place[0]):
                by_leader.setdefault(leader, []).append(place)
        seen = Seen(frozenset(), frozenset(by_leader.pop(NO_LEADER, ())))
        for leader, places in by_leader.items():
            try:
                seen = seen.beside(self._look_at(leader, places))
            except (Unreachable, AnswerLost) as error:
                log.debug("a leader's partitions cannot be looked at", node=leader, detail=str(error))
                seen = seen.beside(Seen(frozenset(), frozenset(places)))
        return seen

    def _look_at(self, leader: int, places: Sequence[Place]) -> Seen:
        """A partition that does not answer, because its leader is only about to be it, has not been seen."""
        with closing(self._nodes.connect(leader)) as asked:
            readable, written = (log_ends(asked, places, level) for level in (READABLE, WRITTEN))
            seen = readable.keys() & written.keys()
            held_up = [place for place in seen if readable[place] < written[place]]
            producers = active_producers(asked, held_up) if held_up else {}
        standing = (
            OpenTransaction(
                leader,
                place,
                one.producer_id,
                one.producer_epoch,
                max(0, one.coordinator_epoch),
                one.current_txn_start_offset,
            )
            for place, active in producers.items()
            for one in active
            if one.current_txn_start_offset >= 0
        )
        silent = set(held_up) - producers.keys()
        return Seen(frozenset(standing), frozenset(set(places) - seen | silent))

    def _mark(self, verdict: Verdict, standing: Iterable[OpenTransaction]) -> frozenset[Place]:
        """Where it could not be written now: too few replicas are in sync, or the leader has changed again. Raises
        NotAllowed."""
        refused: set[Place] = set()
        for found in filter(verdict.is_about, standing):
            topic, row = found.place
            topics = [MarkedTopic(topic, [row])]
            marker = Marker(found.producer_id, found.epoch, verdict.committed, topics, found.coordinator_epoch)
            try:
                answer = self._ask(found.leader, WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse)
                codes = [one.error_code for of in answer.markers for at in of.topics for one in at.partitions]
                if codes == [ErrorCode.INVALID_PRODUCER_EPOCH]:
                    continue  # the coordinator's own marker was quicker
                if codes != [0]:
                    code = codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR
                    raise error_of(code, f"writing the marker that {topic}, partition {row} lacks")
            except (Unreachable, AnswerLost) as error:
                log.warning("a transaction still hangs", detail=str(error), **_fields(found))
                refused.add(found.place)
            else:
                end = "committed" if verdict.committed else "aborted"
                log.warning("finished a transaction that was hanging", end=end, **_fields(found))
        return frozenset(refused)

    # --- asking

    def _ask(self, node: int, request: Message, answer: type[A]) -> A:
        with closing(self._nodes.connect(node)) as asked:
            return answer_of(asked, request, answer)

    def _patiently(self, call: Callable[[], T], within_s: float) -> T:
        """Coordinators and leaders that are only coming back to themselves are asked again."""
        give_up_s, wait_s = self._clock.monotonic_s() + within_s, AGAIN_S
        while True:
            try:
                return call()
            except (Unreachable, AnswerLost):
                if self._clock.monotonic_s() + wait_s > give_up_s or self._pause(wait_s):
                    raise
                wait_s = min(2 * wait_s, AGAIN_MAX_S)


@contextmanager
def _translated_errors(what: str) -> Iterator[None]:
    try:
        yield
    except PeerError as error:
        raise QueueUnavailable(f"{what}: {error}") from error


def _fields(found: OpenTransaction) -> dict[str, object]:
    """For a line of the log."""
    topic, row = found.place
    return {"topic": topic, "partition": row, "producer_id": found.producer_id, "from_offset": found.first_offset}
