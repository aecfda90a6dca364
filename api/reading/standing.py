"""How topics and their shards stand, as documents."""

from collections.abc import Mapping, Sequence

from api.bodies.answers import ShardView, StallOut, TopicOut
from api.reading.survey import shard_out
from api.sending.sender import partition_label
from delayline.questions.inquiry import ShardFigures
from delayline.records.message import Shard
from delayline.times import format_moment
from mq.contract import TopicInfo

Figures = Mapping[Shard, ShardFigures]


def topic_out(info: TopicInfo, known: Figures, missing: Sequence[Shard], now_ms: int, *, enabled: bool) -> TopicOut:
    """The sums over the shards that an owner answers for; null if messages may wait in a shard without one."""
    owned = [known[shard] for shard in sorted(known) if shard.topic == info.name]
    figures = [one for one in owned if is_running(one)]
    next_due_ms = min((one.next_due_ms for one in figures if one.next_due_ms is not None), default=None)
    unknown = bool(missing) and not figures
    return TopicOut(
        name=info.name,
        partitions=len(info.partitions),
        delay_enabled=enabled,
        pending=None if unknown else sum(one.pending for one in figures),
        repeats=None if unknown else sum(one.repeats for one in figures),
        due_backlog=None if unknown else sum(one.backlog for one in figures),
        oldest_due_at=_passed(next_due_ms, now_ms),
        next_due_at=_moment(next_due_ms),
        ingest_lag=None if unknown else sum(one.ingest_lag for one in figures),
        stalled=[stall for one in owned if (stall := _stall(one)) is not None],
        paused=None if unknown else any(one.paused for one in figures),
        complete=not missing,
        missing_shards=[shard_out(shard) for shard in missing],
    )


def is_running(figures: ShardFigures) -> bool:
    """Whether the shard has been taken over, so that its figures mean something."""
    return figures.owner_epoch > 0


def shard_view(shard: Shard, figures: ShardFigures | None, now_ms: int) -> ShardView:
    """One shard; None where no owner answers for it."""
    partition = partition_label(shard.partition)
    if figures is None:
        return ShardView(partition=partition, state="missing")
    stall = _stall(figures)
    state = "stalled" if stall else "running" if figures.ready else "catching-up"
    if not is_running(figures):
        return ShardView(partition=partition, state=state, stalled=stall)
    return ShardView(
        partition=partition,
        state=state,
        pending=figures.pending,
        repeats=figures.repeats,
        due_backlog=figures.backlog,
        oldest_due_at=_passed(figures.next_due_ms, now_ms),
        next_due_at=_moment(figures.next_due_ms),
        ingest_lag=figures.ingest_lag,
        owner_epoch=figures.owner_epoch,
        next_offset=figures.next_offset,
        low_offset=figures.low_offset,
        paused=figures.paused,
        stalled=stall,
    )


def _stall(figures: ShardFigures) -> StallOut | None:
    if figures.stalled is None:
        return None
    partition = partition_label(figures.shard.partition)
    return StallOut(partition, figures.stalled, figures.detail, figures.retry_ms)


def _moment(moment_ms: int | None) -> str | None:
    return None if moment_ms is None else format_moment(moment_ms)


def _passed(moment_ms: int | None, now_ms: int) -> str | None:
    return _moment(moment_ms) if moment_ms is not None and moment_ms <= now_ms else None
