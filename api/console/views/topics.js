// All topics: what waits, what is late, what has stopped.

import { get, post } from "../api.js";
import { away, nowMs } from "../clock.js";
import { ask, toast } from "../dialogs.js";
import { h, show } from "../dom.js";
import { count, duration, epoch, UNKNOWN } from "../format.js";
import { field, input, valueOf } from "../forms.js";
import { SPANS, sparkline, spanQuery } from "../histogram.js";
import { action, badge, broken, empty, figures, incomplete, loading, shardName, table } from "../parts.js";
import { Lateness, readTopics, settled, topicPath } from "../shapes.js";

const SPARKLINES_MAX = 20;
const SPARKLINES_EVERY_MS = 10_000;
const LATE_MS = 2000;

const most = (name) => (one, other) => (other[name] ?? 0) - (one[name] ?? 0);
const ORDERS = {
  "by name": () => 0, // as the server has them
  "most waiting": most("pending"),
  "most overdue": most("due_backlog"),
  "most ingest lag": most("ingest_lag"),
  "next due": (one, other) => soon(one) - soon(other),
};

function soon(topic) {
  return topic.next_due_at ? epoch(topic.next_due_at) : Number.MAX_VALUE;
}

export function topicsView({ query, info, offer }) {
  const place = h("div", null, loading("topics"));
  const search = h("input", { type: "search", id: "topic-search", autocomplete: "off", value: query.get("name") ?? "" });
  const lateness = new Lateness();
  const ahead = new Ahead(offer);
  let known = null;
  const draw = () => known && show(place, content(known, { text: search.value.trim(), order: ORDERS[order.value] }, info, lateness, ahead));
  const order = h("select", { id: "topic-order" }, Object.keys(ORDERS).map((name) => h("option", { value: name }, name)));
  search.oninput = order.onchange = draw;
  return {
    title: "Topics",
    element: h("section", { class: "topics" },
      h("div", { class: "heading" },
        h("h1", { tabindex: "-1" }, "What waits"),
        h("div", { class: "search" },
          h("label", { for: "topic-search" }, "Find a topic"), search,
          h("label", { for: "topic-order" }, "Order"), order,
          info?.topics_on_first_use && offer.has("POST /v1/topics") ? action("New topic\u2026", true, create) : null)),
      place),
    async refresh(signal) {
      known = await readTopics(signal);
      draw();
      await Promise.all([lateness.renew(signal), ahead.renew(known.topics, signal)]);
      draw();
      return known;
    },
  };
}

async function create() {
  let name = "";
  const made = await ask({
    title: "New topic",
    body: [field("Name", "name", input({ required: true })),
      field("Partitions", "partitions", input({ type: "number", min: 1, value: 4 }))],
    confirm: "Make the topic",
    act: async (form) => {
      name = valueOf(form, "name").trim();
      await post("v1/topics", { name, partitions: Number(valueOf(form, "partitions")) });
      toast(`${name} is made.`);
    },
  });
  if (made) location.hash = `#/topics/${encodeURIComponent(name)}`;
}

/** What the next 24 hours bring to the topics that have most, renewed more rarely than the figures. */
class Ahead {
  constructor(offer) {
    this.isOffered = offer.has("GET /v1/topics/{}/histogram");
    this.byTopic = new Map();
    this.readAtMs = Number.NEGATIVE_INFINITY;
  }

  async renew(topics, signal) {
    if (!this.isOffered || performance.now() - this.readAtMs < SPARKLINES_EVERY_MS) return;
    this.readAtMs = performance.now();
    const fullest = topics.filter((topic) => topic.pending).sort(most("pending")).slice(0, SPARKLINES_MAX);
    const query = spanQuery(SPANS["24 h"], nowMs());
    const read = fullest.map(async ({ name }) => [name, (await settled(get(topicPath(name, "/histogram"), query, signal))).value]);
    this.byTopic = new Map(await Promise.all(read));
  }
}

function content(known, wanted, info, lateness, ahead) {
  if (known.topics.length === 0) return nothing(info);
  const shown = known.topics.filter((topic) => topic.name.includes(wanted.text)).sort(wanted.order);
  return [
    known.complete === false
      ? incomplete({ complete: false, missing_shards: known.topics.flatMap((topic) => (topic.missing_shards ?? [])) }) : null,
    stalls(known.topics),
    known.hasFigures ? overall(known) : null,
    shown.length === 0
      ? empty(`No topic has \u201c${wanted.text}\u201d in its name.`)
      : table("Topics", columns(known, lateness, ahead), shown, (topic) => topic.name),
  ];
}

function nothing(info) {
  const isFirst = info?.topics_on_first_use;
  return empty(isFirst ? "No topic yet. The first message makes one." : "The queue has no topics.",
    isFirst ? h("p", null, h("a", { class: "button primary", href: "#/send" }, "Send a message")) : null);
}

function overall({ topics, as_of: asOf }) {
  const sum = (name) => topics.reduce((total, topic) => total + (topic[name] ?? 0), 0);
  const stalled = topics.reduce((total, topic) => total + topic.stalled.length, 0);
  const oldest = Math.min(...topics.map((topic) => epoch(topic.oldest_due_at)).filter(Number.isFinite));
  const backlog = sum("due_backlog");
  const isReporting = (name) => topics.some((topic) => topic[name] !== undefined);
  return figures(
    ["Waiting", sum("pending"), `in ${topics.filter((topic) => topic.pending).length} of ${topics.length} topics`, "first"],
    ["Due, not delivered", backlog, Number.isFinite(oldest) ? `the oldest ${duration(Math.max(epoch(asOf) - oldest, 0))} late` : "nothing is late", topics.some(isLate) ? "warn" : null],
    ["Not read in yet", sum("ingest_lag"), "ingest lag, records"],
    ["Stalled shards", stalled, stalled ? "see above" : "all go on", stalled ? "bad" : null],
    isReporting("dead") ? ["Dead letters", sum("dead"), null, sum("dead") ? "bad" : null] : null,
  );
}

/** Shards that do not go on, and why: first, because nothing else is as urgent. */
export function stalls(topics) {
  const stalled = topics.flatMap((topic) => (topic.stalled ?? []).map((shard) => ({ topic: topic.name, ...shard })));
  if (stalled.length === 0) return null;
  return h("section", { class: "notice problem", "aria-labelledby": "stalled", "data-key": "stalled" },
    h("h2", { id: "stalled", class: "notice-title" }, stalled.length === 1 ? "One shard has stalled" : `${stalled.length} shards have stalled`),
    h("ul", { class: "stalls" }, stalled.map((shard) =>
      h("li", null, h("code", null, shardName(shard)), " ", h("strong", null, shard.reason),
        shard.detail ? h("span", null, ": ", shard.detail) : null,
        Number.isFinite(shard.retry_in_ms) ? h("small", null, ` tried again in ${duration(shard.retry_in_ms)}`) : null))));
}

function columns(known, lateness, ahead) {
  const name = {
    name: "Topic",
    kind: "main",
    of: (topic) => h("a", { href: `#/topics/${encodeURIComponent(topic.name)}` }, broken(topic.name)),
  };
  const state = { name: "State", kind: "short", of: stateOf };
  const partitions = { name: "Partitions", kind: "number", of: (topic) => count(topic.partitions) };
  if (!known.hasFigures) return [name, partitions, state];
  return [
    name,
    { name: "Waiting", kind: "number strong", of: (topic) => count(topic.pending) },
    { name: "Next 24 h", kind: "graph", of: (topic) => (ahead.byTopic.get(topic.name) ? sparkline(ahead.byTopic.get(topic.name)) : UNKNOWN) },
    { name: "Next due", kind: "short", of: (topic) => (topic.next_due_at ? away(topic.next_due_at) : UNKNOWN) },
    { name: "Overdue", kind: "number", of: overdue },
    { name: "Ingest lag", kind: "number", of: (topic) => count(topic.ingest_lag) },
    { name: "Late, p99", kind: "number", of: (topic) => latenessText(lateness, topic.name, 0.99) },
    partitions,
    state,
  ];
}

/** Quantiles are read off a histogram's buckets: what is known is a bound. */
export function latenessText(lateness, topic, part) {
  const boundMs = lateness.quantile(topic, part);
  if (boundMs === undefined) return UNKNOWN;
  return Number.isFinite(boundMs) ? `\u2264 ${duration(boundMs)}` : "over 1 h";
}

function overdue(topic) {
  return isLate(topic) ? h("strong", { class: "warn" }, count(topic.due_backlog)) : count(topic.due_backlog);
}

/** What has just fallen due is on its way, and figures are half a second old. */
export function isLate(topic) {
  return topic.due_backlog > 0 && nowMs() - epoch(topic.oldest_due_at) > LATE_MS;
}

export function stateOf(topic) {
  if (topic.stalled?.length) return badge("stalled", `${topic.stalled.length} stalled`);
  if (topic.paused) return badge("paused");
  if (topic.complete === false) return badge("expired", "incomplete");
  return h("small", null, topic.delay_enabled ? "takes delays" : "no delays");
}
