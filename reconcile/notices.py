"""What a run reports to others over HTTP: its metrics to a Prometheus Pushgateway, and what is wrong to a webhook.

A missing answer changes nothing: not what was judged, and not the exit code. It is reported, by host and not by
address, which may hold a secret. Answers are not read, redirects not followed, and all of it ends in time, whatever
the other side does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from delayline.config import Settings
from delayline.errors import ConfigError
from reconcile.exits import Exit
from reconcile.logic.plan import Cluster
from reconcile.report.metrics import render_metrics
from reconcile.report.summary import Finding, NotJudged, Summary

TIMEOUT_S = 5.0
"""For each of: connect, send, hear something."""

PAUSES_S = (1.0, 3.0)
"""Before it is tried again, for as often as there are pauses."""

WITHIN_S = 30.0
"""All of it: also where the other side sends a byte now and then."""

BODY_BYTES_MAX = 64 * 1024
LISTED_MAX = (20, 5, 1, 0)
"""So many findings, topics and reasons; fewer where the body would be too large."""
TEXT_CHARS_MAX = 500

VERSION = 1
JOB = "delayline-reconcile"


class Failed(Exception):
    """Why, without the address."""


class Unsent(NamedTuple):
    """A notice that was not delivered."""

    what: str
    host: str
    why: str


Hear = Callable[[Unsent], None]


@dataclass(frozen=True, kw_only=True)
class Recipient:
    """Addresses that get notices. Neither is shown."""

    option: str
    url: str = field(repr=False)
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url:
            raise ConfigError(f"{self.option}: expected http://HOST... or https://HOST....")
        if not self.token.isascii() or not self.token.isprintable():
            raise ConfigError(f"{self.option}: its token is no text that a header can hold.")

    @property
    def host(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


class Limits(NamedTuple):
    """How long the other side may take."""

    timeout_s: float
    pauses_s: Sequence[float]
    within_s: float


LIMITS = Limits(TIMEOUT_S, PAUSES_S, WITHIN_S)


class TopicNotice(msgspec.Struct, frozen=True):
    """`fresh`: what the exit code speaks of, by category."""

    topic: str
    state: str
    reason: str | None
    fresh: dict[str, int]


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What a webhook gets. `run`, and what follows from it, is null or empty where a run has failed; `why` has then
    the reason. Lists are bounded, and the whole number has a field of its own; what is worst comes first."""

    v: int = VERSION
    exit_code: int
    verdict: str  # the exit code's name
    namespace: str
    cluster: Cluster | None = None
    run: int | None = None
    at_ms: int | None = None
    against: str = "audit"
    why: str | None = None
    fresh: dict[str, int] = {}
    topics: list[TopicNotice] = []
    topics_total: int = 0
    findings: list[Finding] = []
    findings_total: int = 0
    not_judged: list[NotJudged] = []
    not_judged_total: int = 0


class Notices:
    """Of one run. `hear` gets those who could not be."""

    def __init__(
        self,
        namespace: str,
        metrics: Recipient | None = None,
        webhook: Recipient | None = None,
        hear: Hear = lambda unsent: None,
        limits: Limits | None = None,
    ) -> None:
        self._namespace, self._metrics, self._webhook = namespace, metrics, webhook
        self._hear, self._limits = hear, limits or LIMITS

    def ended(self, summary: Summary) -> None:
        """A run has ended, and its ledger is written."""
        if self._metrics and summary.against == "audit":
            self._try("metrics not pushed", self._metrics, self._push, summary)
        if self._webhook and summary.exit_code != Exit.CLEAN:
            self._try("webhook not called", self._webhook, self._post, notice_of(summary))

    def failed(self, exit_code: Exit, why: str) -> None:
        """A run has not come to a judgement."""
        if self._webhook:
            notice = Notice(exit_code=exit_code, verdict=_name(exit_code), namespace=self._namespace, why=_cut(why))
            self._try("webhook not called", self._webhook, self._post, notice)

    def _push(self, recipient: Recipient, summary: Summary) -> None:
        url = f"{recipient.url.rstrip('/')}/metrics/job/{JOB}/namespace/{quote(self._namespace, safe='')}"
        headers = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}
        send("PUT", url, render_metrics(summary), _with_token(headers, recipient), self._limits)

    def _post(self, recipient: Recipient, notice: Notice) -> None:
        headers = _with_token({"content-type": "application/json"}, recipient)
        send("POST", recipient.url, body_of(notice), headers, self._limits)

    def _try(self, what: str, recipient: Recipient, notify: Callable[[Recipient, Any], None], of: Any) -> None:
        try:
            notify(recipient, of)
        except Failed as error:
            self._hear(Unsent(what, recipient.host, str(error)))


def notices(push_metrics: str | None, webhook: str | None, settings: Settings, hear: Hear) -> Notices:
    """From the command line, else from the settings. Raises ConfigError."""
    section = settings.reconcile
    metrics_url, webhook_url = section.push_metrics.get_secret_value(), section.webhook.get_secret_value()
    return Notices(
        settings.namespace,
        _recipient("--push-metrics", push_metrics or metrics_url, section.push_token.get_secret_value()),
        _recipient("--webhook", webhook or webhook_url, section.webhook_token.get_secret_value()),
        hear,
    )


def _recipient(option: str, url: str, token: str) -> Recipient | None:
    return Recipient(option=option, url=url, token=token) if url else None


def _with_token(headers: Mapping[str, str], recipient: Recipient) -> Mapping[str, str]:
    return {**headers, "authorization": f"Bearer {recipient.token}"} if recipient.token else headers


# --- what is sent


def notice_of(summary: Summary) -> Notice:
    """Of a run that has ended; whole."""
    fresh: dict[str, int] = {}
    for topic in summary.topics:
        for category, count in topic.fresh.items():
            fresh[category] = fresh.get(category, 0) + count
    topics = [TopicNotice(one.topic, one.state.value, _cut(one.reason), one.fresh) for one in summary.topics]
    topics.sort(key=lambda one: (not one.fresh, one.state == "judged"))
    return Notice(
        exit_code=summary.exit_code,
        verdict=_name(summary.exit_code),
        namespace=summary.cluster.namespace,
        cluster=summary.cluster,
        run=summary.run,
        at_ms=summary.at_ms,
        against=summary.against,
        fresh=fresh,
        topics=topics,
        topics_total=len(summary.topics),
        findings=[msgspec.structs.replace(one, detail=_cut(one.detail)) for one in summary.findings],
        findings_total=summary.findings_total,
        not_judged=[msgspec.structs.replace(one, why=_cut(one.why) or "") for one in summary.not_judged],
        not_judged_total=len(summary.not_judged),
    )


def body_of(notice: Notice) -> bytes:
    """JSON, of `BODY_BYTES_MAX` at most: as many of each list as there is room for."""
    for count in LISTED_MAX:
        lists = {name: getattr(notice, name)[:count] for name in ("topics", "findings", "not_judged")}
        body = msgspec.json.encode(msgspec.structs.replace(notice, **lists))
        if len(body) <= BODY_BYTES_MAX:
            break
    return body


def _name(exit_code: int) -> str:
    return Exit(exit_code).name.lower().replace("_", " ")


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 3]}..."


# --- how it is sent


def send(method: str, url: str, body: bytes, headers: Mapping[str, str], limits: Limits) -> None:
    """Until it is taken, or there are no tries left, or no time. Raises Failed."""
    result: list[Failed | None] = []
    over = Event()

    def run() -> None:
        result.append(_tried(method, url, body, headers, limits, over))

    thread = Thread(target=run, name="notice", daemon=True)
    thread.start()
    thread.join(limits.within_s)
    over.set()
    if not result:
        raise Failed(f"no whole answer within {limits.within_s:g} s")
    if result[0] is not None:
        raise result[0]


def _tried(
    method: str, url: str, body: bytes, headers: Mapping[str, str], limits: Limits, over: Event
) -> Failed | None:
    """What the last try came to; None where it was taken."""
    import httpx  # here: a run without notices would wait 60 ms for it

    for pause_s in (*limits.pauses_s, None):
        try:
            with (
                httpx.Client(timeout=limits.timeout_s, follow_redirects=False) as client,
                client.stream(method, url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            failed = Failed(f"no answer ({type(error).__name__})")
        else:
            if status < 300:
                return None
            failed = Failed(f"it answers {status}{', and redirects are not followed' if status < 400 else ''}")
            if status < 500 and status not in (408, 429):
                return failed
        if pause_s is None or over.wait(pause_s):
            break
    return failed
