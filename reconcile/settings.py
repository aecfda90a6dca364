"""The settings of a run of the job, beside the installation's own settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from delayline.errors import ConfigError, MalformedDirective
from delayline.times import parse_duration_ms

AGAINST = ("audit", "targets")
KEEP_ROWS_MS_MIN = 86_400_000
"""A repair may be planned for as long (`runs.REPAIRED_WITHIN_MS`)."""

READERS = ("kafka", "kafka-connector", "rocketmq", "embedded", "parquet")


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """`output`: a folder, or a URI; `reader`: of READERS, None for that of the installation's queue; `input`: the
    archive that the reader `parquet` reads. What is delivered more than `late_after_ms` after its due time is late; a
    topic whose shards have reported nothing for `stalled_after_ms` cannot be judged; up to `threshold` findings in
    the windows judged are tolerated. `against`: the audit, or the target topics themselves, and then what was due in
    the last `since_ms`. `keep_rows_ms`: how long rows of closed hours are kept, None for ever. `master`: Spark's,
    None for this machine's cores, or that of spark-submit. `push_metrics` and `webhook`: addresses that get the
    result (notices.py), None for those of the installation's settings."""

    output: str
    reader: str | None = None
    input: str | None = None
    late_after_ms: int = 60_000
    stalled_after_ms: int = 3_600_000
    threshold: int = 0
    against: str = "audit"
    since_ms: int = 86_400_000
    keep_rows_ms: int | None = None
    master: str | None = None
    push_metrics: str | None = field(default=None, repr=False)
    webhook: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.output:
            raise ConfigError("--output: a folder or a URI is needed.")
        if self.reader is not None and self.reader not in READERS:
            raise ConfigError(f"--reader: expected {', '.join(READERS[:-1])} or {READERS[-1]}, not {self.reader!r}.")
        if (self.reader == "parquet") != (self.input is not None):
            raise ConfigError("--input: the folder of an archive goes with --reader parquet.")
        if self.against not in AGAINST:
            raise ConfigError(f"--against: expected {' or '.join(AGAINST)}, not {self.against!r}.")
        if self.keep_rows_ms is not None and self.keep_rows_ms < KEEP_ROWS_MS_MIN:
            raise ConfigError("--keep-rows: at least 1d.")
        if self.threshold < 0:
            raise ConfigError("--threshold: it cannot be negative.")

    @property
    def is_uri(self) -> bool:
        """Whether `output` is for Hadoop's file systems."""
        return bool(urlsplit(self.output).scheme)


def read_settings(given: Mapping[str, Any]) -> JobSettings:
    """From what stands on a command line: durations as text, and None where nothing was given. Raises ConfigError."""
    if given.get("since") is not None and given.get("against") != "targets":
        raise ConfigError("--since: it goes with --against targets.")
    if given.get("keep_rows") is not None and given.get("against") == "targets":
        raise ConfigError("--keep-rows: it does not go with --against targets, which changes nothing in the ledger.")
    durations = {f"{name}_ms": _duration(name, given.get(name)) for name in _DURATIONS}
    others = {name: value for name, value in given.items() if f"{name}_ms" not in durations}
    return JobSettings(**{name: value for name, value in (others | durations).items() if value is not None})


_DURATIONS = ("late_after", "stalled_after", "since", "keep_rows")


def _duration(name: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_duration_ms(text)
    except MalformedDirective as error:
        raise ConfigError(f"--{name.replace('_', '-')}: {error}, not {text!r}.") from error
