"""The whole way under kills of everything: clients -> two proxies -> buffers -> three workers -> target topics.

The first half is judged as in the other parts: every record in its place, once, in order (`judge`). The second half
goes to the judge of the simulation, as in `tests.fault.kafka`: what stood in a buffer was delivered once, in order,
unaltered and not before it was due, and has its outcome row.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from random import Random

from delayline.records.record import decode_body
from tests.brokers.kafka import Kafka
from tests.fault.kafka.clients import Fate as SentFate
from tests.fault.kafka.clients import Place, Sent
from tests.fault.kafka.evidence import Evidence
from tests.fault.kafka.figures import chances, waits
from tests.fault.kafka.nemesis import KILLS as WORKER_KILLS
from tests.fault.kafka.nemesis import KILLS_OPEN, Nemesis
from tests.fault.kafka.reader import At, Seen
from tests.fault.kafka.scene import NAMESPACE, Scene, Size, scene
from tests.fault.proxy.clients import AIOKAFKA, JAVA, JAVA_TRANSACTIONAL, LIBRDKAFKA, Client, Fate, Load, Note
from tests.fault.proxy.judge import Log, Logs, Notes, Verdict, judge
from tests.fault.proxy.parts import Outcome
from tests.fault.proxy.proxies import Pair, before_kafka
from tests.simulation.checker import check

KINDS = (JAVA, JAVA_TRANSACTIONAL, LIBRDKAFKA, AIOKAFKA)
LOAD = Load(partitions=4, rate=100, delay_max_ms=4000)
SIZE = Size(topics=2, partitions=LOAD.partitions)
LONGER = 2.0
"""Than the other parts: a worker that was killed is missed for a session, and shards have to be taken over."""

SEALED = b"delayline-id"
TOGETHER = "SIGKILL of a proxy and a worker at the same time"

__all__ = ["KILLS_OPEN", "TOGETHER", "WORKER_KILLS", "play"]


def play(seed: int, folder: Path, duration_s: float) -> Outcome:
    """Raises Unavailable where there can be no broker."""
    started_s = time.monotonic()
    rnd = Random(seed)
    with closing(Kafka()) as kafka, ExitStack() as stack:
        kafka.start()
        made = stack.enter_context(scene(kafka, SIZE, seed, folder))
        pair = before_kafka(kafka.bootstrap_servers, 1, NAMESPACE, ",".join(made.topics), folder, rnd, made.tally)
        stack.callback(pair.close)
        made.start()
        pair.start()
        clients = [
            Client(kind, number, folder, pair.address, made.topics[number % len(made.topics)], LOAD, seed)
            for number, kind in enumerate(KINDS)
        ]
        for client in clients:
            client.start()
        failures = _trouble(made, pair, rnd, duration_s, seed)
        failures += _end(made, pair, clients)
        verdict = _judge(made, clients)
        failures += made.failures + pair.failures
        labels = [client.kind.label for client in clients]
        waited = waits(_second_half(made))
        remarks = [
            f"{waited.closest_ms} ms at least from due to the broker's stamp",
            f"{waited.longest_ms} ms at most from due to a reader of the target having it",
        ]
        return Outcome(labels, made.tally, verdict, failures, time.monotonic() - started_s, remarks)


def _trouble(made: Scene, pair: Pair, rnd: Random, duration_s: float, seed: int) -> list[str]:
    """Kills of proxies, of workers (some with an open transaction), of both at once; the broker once, half way."""
    nemesis = Nemesis(made, Random(f"{seed} end to end"))

    def together() -> None:
        worker = rnd.choice(made.workers)
        nemesis.dispatch(worker)
        pair.kill_one()
        made.tally[TOGETHER] += 1
        nemesis.raise_all()

    deeds = (
        [pair.kill_one] * 5 + [pair.kill_both] + [nemesis.kill] * 2 + [nemesis.kill_in_transaction] + [together] * 3
    )

    def half() -> None:
        """A kill of a proxy, and others for as long as there is time: any of them may take all of it."""
        end_s = time.monotonic() + duration_s * LONGER / 2
        pair.kill_one()
        while time.monotonic() < end_s:
            pair.supervise()
            nemesis.rest(0.2, 2)
            rnd.choice(deeds)()
        pair.supervise()

    try:
        nemesis.rest(3, 4)
        half()
        nemesis.kill_broker()
        half()
    except AssertionError as error:
        return [str(error)]
    return []


def _end(made: Scene, pair: Pair, clients: Sequence[Client]) -> list[str]:
    for client in clients:
        client.ask_to_end()
    failures = [text for client in clients if (text := client.wait())]
    made.tally["seconds until nothing was pending"] += round(made.drain())
    pair.supervise()
    return failures


# --- judged


def _judge(made: Scene, clients: Sequence[Client]) -> Verdict:
    """Topic by topic the first half; then the second."""
    verdict = Verdict()
    everything = {client.name: client.notes() for client in clients}
    for topic in made.topics:
        notes = {client.name: everything[client.name] for client in clients if client.topic == topic}
        found = judge(notes, _first_half(made, topic))
        verdict.broken += found.broken
        verdict.chances.update(found.chances)
    _note_in_ledger(made, clients, everything)
    evidence = _second_half(made)
    history = evidence.history()
    verdict.broken += [(violation.rule, str(violation)) for violation in check(history)]
    verdict.chances["delivered"] += chances(evidence, history).delivered
    return verdict


def _first_half(made: Scene, topic: str) -> Logs:
    """What came to the target at once, and what came to the buffer."""
    found: dict[tuple[Log, int], list[bytes]] = {}
    for number in range(SIZE.partitions):
        found[Log.TARGET, number] = [value for value, _ in _immediate(made.reader.seen[topic, number])]
        buffered = made.reader.seen[made.names.buffer(topic), number]
        found[Log.BUFFER, number] = [value for value, _ in _of_clients(buffered)]
    return found


def _immediate(records: Sequence[Seen]) -> Iterator[tuple[bytes, Seen]]:
    for seen in records:
        body = decode_body(seen.body)
        if all(name != SEALED for name, _ in body.headers):
            yield body.value or b"", seen


def _of_clients(records: Sequence[Seen]) -> Iterator[tuple[bytes, Seen]]:
    """Without what workers write into buffers."""
    for seen in records:
        body = decode_body(seen.body)
        if not any(name.startswith(b"delayline-") for name, _ in body.headers):
            yield body.value or b"", seen


def _note_in_ledger(made: Scene, clients: Sequence[Client], everything: Notes) -> None:
    """The delayed ones, each with its place in the buffer: the proxy returns no offsets."""
    places: dict[bytes, Place] = {}
    for topic in made.topics:
        for number in range(SIZE.partitions):
            for value, seen in _of_clients(made.reader.seen[made.names.buffer(topic), number]):
                places[value] = Place(number, seen.offset, seen.at_ms)
    for client in clients:
        for number, note in everything[client.name].items():
            if note.delayed:
                tag = f"{client.name}-{number}".encode()
                made.ledger.sent[tag] = _sent(tag, client.topic, note, places.get(tag))


def _sent(tag: bytes, topic: str, note: Note, place: Place | None) -> Sent:
    sent = Sent(tag, topic, (None, tag, ()), delay_ms=note.delay_ms)
    if note.fate is Fate.ABORTED:
        sent.fate = SentFate.ABORTED
    elif place is not None:
        sent.acknowledge(place)  # it is in the buffer: it must be delivered, whatever the client knows
    return sent


def _second_half(made: Scene) -> Evidence:
    """Targets without what came to them at once."""
    seen: Mapping[At, Sequence[Seen]] = made.evidence().seen
    kept: dict[At, Sequence[Seen]] = defaultdict(list, seen)
    for shard in made.shards:
        at_once = {one.offset for _, one in _immediate(seen[shard])}
        kept[shard] = [one for one in seen[shard] if one.offset not in at_once]
    return replace(made.evidence(), seen=kept)
