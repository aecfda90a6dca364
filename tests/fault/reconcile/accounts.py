"""The ledger, against what the senders know and what a consumer of the topics has counted."""

from collections import Counter
from collections.abc import Callable, Sequence

from delayline.buffer.facts import MESSAGE, BufferFact, fact_of
from delayline.records.headers import REPLACES
from delayline.records.message import Shard
from delayline.records.record import decode_body
from delayline.schedule.rules import DEFAULT_RULES
from reconcile.report.summary import Ledger, Summary
from tests.fault.kafka.clients import Fate
from tests.fault.kafka.scene import Scene
from tests.fault.reconcile.changes import Changes, Kind


def facts(scene: Scene, topic: str) -> list[tuple[int, int, bytes, BufferFact]]:
    """Of every record of a buffer that the consumer has seen: shard, offset, body, and what it is."""
    return [
        (
            shard,
            seen.offset,
            seen.body,
            fact_of(Shard(topic, str(shard)), seen.offset, seen.at_ms, seen.body, DEFAULT_RULES),
        )
        for shard in range(scene.size.partitions)
        for seen in scene.reader.seen[scene.names.buffer(topic), shard]
    ]


def values(scene: Scene) -> Counter[bytes]:
    """What stands in the targets, and how often."""
    shards = (scene.reader.seen[shard] for shard in scene.shards)
    return Counter(decode_body(seen.body).value or b"" for shard in shards for seen in shard)


def firsts(scene: Scene) -> Counter[bytes]:
    """What stands in the buffers as it was accepted, and how often."""
    found: Counter[bytes] = Counter()
    for topic in scene.topics:
        for _, _, body, fact in facts(scene, topic):
            if fact.kind == MESSAGE and REPLACES not in body:
                found[decode_body(body).value or b""] += 1
    return found


def carried_on(scene: Scene) -> Counter[tuple[str, int, int]]:
    """By place, how many records carry on the one that stands there."""
    found: Counter[tuple[str, int, int]] = Counter()
    for topic in scene.topics:
        for shard, _, _, fact in facts(scene, topic):
            if fact.replaces is not None:
                found[topic, shard, fact.replaces.offset] += 1
    return found


def unbalanced(scene: Scene, changes: Changes, others: Sequence[bytes], summary: Summary) -> list[str]:
    """Where the ledger is not what was accepted and seen; `others` were acknowledged as well."""
    return [*_of_senders(scene, changes, others), *_of_topics(scene, summary), *_of_changes(scene, changes, summary)]


def _of_senders(scene: Scene, changes: Changes, others: Sequence[bytes]) -> list[str]:
    """Each acknowledged message was accepted once, and nothing else was but what is of unknown fate."""
    stands, sent = firsts(scene), scene.ledger.sent
    acknowledged = {tag for tag, one in sent.items() if one.fate is Fate.ACKNOWLEDGED}
    acknowledged |= changes.acknowledged | set(others)
    acknowledged -= scene.evidence().forgotten()
    unknown = {tag for tag, one in sent.items() if one.fate is Fate.UNKNOWN} | (
        changes.sent.keys() - changes.acknowledged
    )
    doubled = [tag for tag, count in stands.items() if count != 1]
    strange = stands.keys() - acknowledged - unknown
    wrong = [f"acknowledged, and not in a buffer: {tag!r}" for tag in sorted(acknowledged - stands.keys())[:5]]
    wrong += [f"stands in the buffers {stands[tag]} times: {tag!r}" for tag in sorted(doubled)[:5]]
    return [*wrong, *(f"nobody has sent it: {tag!r}" for tag in sorted(strange)[:5])]


def _of_topics(scene: Scene, summary: Summary) -> list[str]:
    wrong = []
    if sorted(topic.topic for topic in summary.topics) != sorted(scene.topics):
        wrong.append(f"the ledger's topics are {[topic.topic for topic in summary.topics]}")
    for topic in summary.topics:
        ledger, seen = topic.ledger, [fact for *_, fact in facts(scene, topic.topic)]
        messages = sum(fact.kind == MESSAGE for fact in seen)
        targets = sum(len(scene.reader.seen[shard]) for shard in scene.shards if shard[0] == topic.topic)
        pairs = {
            "accepted": (ledger.accepted, messages),
            "other records": (topic.other_records, len(seen) - messages),
            "delivered": (ledger.delivered, targets),
        }
        for name in ("pending", "missing", "unauditable", "surplus", "difference"):
            pairs[name] = (getattr(ledger, name), 0)
        wrong += [
            f"{topic.topic}: {name}: {in_ledger} in the ledger, {is_so} seen"
            for name, (in_ledger, is_so) in pairs.items()
            if in_ledger != is_so
        ]
    return wrong


def _of_changes(scene: Scene, changes: Changes, summary: Summary) -> list[str]:
    """What was confirmed is so."""
    ledger, stands, delivered = total(summary), firsts(scene), values(scene)
    dead = sum(len(seen) for (name, _), seen in scene.reader.seen.items() if name == scene.names.dead)
    brief = [tag for tag, kind in changes.sent.items() if kind is Kind.BRIEF and tag in stands]
    expired = sum(delivered[tag] == 0 for tag in brief)
    confirmed, asked = len(changes.cancelled), changes.asked[Kind.CANCELLED]
    wrong = [f"cancelled, and delivered: {tag!r}" for tag in sorted(changes.cancelled) if delivered[tag]]
    wrong += [
        f"moved, and delivered {delivered[tag]} times: {tag!r}"
        for tag in sorted(changes.moved)
        if delivered[tag] != 1
    ]
    if not confirmed <= ledger.cancelled <= asked:
        wrong.append(f"cancelled: {ledger.cancelled} in the ledger, {confirmed} were confirmed and {asked} asked for")
    if ledger.dead != dead:
        wrong.append(f"dead: {ledger.dead} in the ledger, {dead} dead letters")
    if ledger.expired != expired:
        wrong.append(f"expired: {ledger.expired} in the ledger, {expired} with a deadline were not delivered")
    return wrong


def total(summary: Summary) -> Ledger:
    """Of all topics."""

    def summed(of: Callable[[Ledger], int]) -> int:
        return sum(of(topic.ledger) for topic in summary.topics)

    names = Ledger.__struct_fields__
    return Ledger(**{name: summed(lambda ledger, name=name: getattr(ledger, name)) for name in names})
