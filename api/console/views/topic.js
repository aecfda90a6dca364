// One topic: what it waits for, shard by shard, what it delivered last, and what can be done with all of it.

import { get, LONG_MS, post, request } from "../api.js";
import { away, nowMs, whenShort } from "../clock.js";
import { ask, counting, toast } from "../dialogs.js";
import { h, show } from "../dom.js";
import { count, counted, duration, epoch, UNKNOWN } from "../format.js";
import { field, input, valueOf } from "../forms.js";
import { histogram, SPANS, spanQuery } from "../histogram.js";
import { action, badge, broken, empty, figures, incomplete, keyText, loading, messageLink, problemBox, shardName, shortened, table } from "../parts.js";
import { Lateness, optional, readTopic, topicPath } from "../shapes.js";
import { undoButton, Undos } from "../undo.js";
import { isLate, latenessText, stalls, stateOf } from "./topics.js";

const NEXT = 10;
const NEWEST = 10;

export function topicView(context, name) {
  const { offer } = context;
  const lateness = new Lateness();
  const undos = new Undos(name, context);
  const parts = Object.fromEntries(["state", "actions", "head", "chart", "shards", "next", "newest"].map((part) => [part, h("div", { class: part })]));
  show(parts.head, loading("the topic"));
  let span = "24 h";
  const readChart = optional((signal) => get(topicPath(name, "/histogram"), spanQuery(SPANS[span], nowMs()), signal));
  const readNext = optional((signal) => get("v1/messages", { topic: name, page_size: NEXT }, signal));
  const readNewest = optional((signal) => get(topicPath(name, "/records"), { limit: NEWEST }, signal));
  const view = {
    title: name,
    element: frame(name, { ...parts, undos: undos.place }, spans(span, async (chosen) => {
      span = chosen;
      await context.refresh();
    })),
    async refresh(signal) {
      const topic = await readTopic(name, offer, signal);
      show(parts.state, stateOf(topic));
      show(parts.actions, buttons(topic, context, undos));
      show(parts.head, incomplete(topic), stalls([topic]), unheeded(topic), overview(topic, lateness));
      show(parts.shards, shards(topic));
      const [chart, next, newest] = await Promise.all([
        readChart(signal),
        readNext(signal),
        readNewest(signal),
        lateness.renew(signal),
      ]);
      show(parts.chart, chart.problem ? problemBox(chart.problem) : [incomplete(chart.value), histogram(chart.value)]);
      show(parts.next, next.problem ? problemBox(next.problem) : waiting(next.value));
      show(parts.newest, newest.problem ? problemBox(newest.problem) : records(newest.value.records));
      show(parts.head, incomplete(topic), stalls([topic]), unheeded(topic), overview(topic, lateness));
      await undos.renew(signal);
      return topic;
    },
  };
  return view;
}

function frame(name, parts, chooser) {
  const named = encodeURIComponent(name);
  const part = (title, aside, place) =>
    h("section", { class: "part" }, h("div", { class: "part-head" }, h("h2", null, title), aside), place);
  return h("section", { class: "topic" },
    h("div", { class: "heading" },
      h("div", null, h("div", { class: "crumb" }, "Topic ", parts.state), h("h1", { tabindex: "-1" }, broken(name))),
      parts.actions),
    parts.head,
    parts.undos,
    part("When it is due", chooser, parts.chart),
    part("Next", h("a", { href: `#/messages?topic=${named}` }, "All that wait"), parts.next),
    part("Shards", null, parts.shards),
    part("In the topic, newest", h("a", { href: `#/topics/${named}/dead` }, "Dead letters"), parts.newest));
}

function spans(chosen, choose) {
  const buttons = Object.keys(SPANS).map((span) => h("button", {
    type: "button",
    class: "quiet",
    "aria-pressed": String(span === chosen),
    onclick: (event) => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.target));
      choose(span);
    },
  }, span));
  return h("div", { class: "segmented", role: "group", "aria-label": "How far ahead" }, buttons);
}

function unheeded(topic) {
  return (topic.unheeded ?? []).map(({ header, seen, detail }) => h("p", { class: "notice warn", role: "status" },
    `Header ${shortened(header)}, seen ${counted(seen, "time")}: ${detail}.`));
}

function overview(topic, lateness) {
  if (topic.pending === undefined) {
    return h("p", { class: "fine" }, `${counted(topic.partitions, "partition")}. This installation does not report the state of its topics.`);
  }
  const late = topic.oldest_due_at ? `the oldest ${duration(Math.max(nowMs() - epoch(topic.oldest_due_at), 0))} late` : "nothing is late";
  return figures(
    ["Waiting", topic.pending, topic.next_due_at ? ["next ", away(topic.next_due_at)] : "nothing to come", "first"],
    topic.repeats ? ["Of them, repeats", topic.repeats, "delivered again and again"] : null,
    ["Due, not delivered", topic.due_backlog, late, isLate(topic) ? "warn" : null],
    ["Not read in yet", topic.ingest_lag, "ingest lag, records"],
    ["Lateness, p99", latenessText(lateness, topic.name, 0.99), lateness.quantile(topic.name, 0.99) === undefined ? "no delivery by this process" : "of what this process delivered"],
    topic.dead === undefined ? null : ["Dead letters", topic.dead, null, topic.dead ? "bad" : null],
  );
}

function shards(topic) {
  if (!topic.shards) return h("p", { class: "fine" }, "This installation does not report single shards.");
  return table("Shards", [
    { name: "Partition", kind: "main", of: (shard) => String(shard.partition) },
    { name: "State", of: shardState },
    { name: "Waiting", kind: "number", of: (shard) => count(shard.pending ?? Number.NaN) },
    { name: "Overdue", kind: "number", of: (shard) => count(shard.due_backlog ?? Number.NaN) },
    { name: "Next due", kind: "short", of: (shard) => (shard.next_due_at ? away(shard.next_due_at) : UNKNOWN) },
    { name: "Ingest lag", kind: "number", of: (shard) => count(shard.ingest_lag ?? Number.NaN) },
    { name: "Owner epoch", kind: "number", of: (shard) => count(shard.owner_epoch ?? Number.NaN) },
  ], topic.shards, (shard) => shard.partition);
}

function shardState({ state, stalled, paused }) {
  if (paused) return badge("paused");
  if (state === "running") return h("small", null, state);
  const tone = { stalled: "stalled", missing: "dead" }[state] ?? "expired";
  return [badge(tone, state), stalled ? h("small", null, ` ${stalled.reason}: ${stalled.detail}`) : null];
}

function waiting(list) {
  if (list.messages.length === 0) return [incomplete(list), empty("Nothing waits in this topic.")];
  return [incomplete(list), table("Next messages", [
    { name: "Due", kind: "number", of: (message) => whenShort(message.due_at) },
    { name: "Away", kind: "short", of: (message) => away(message.due_at) },
    { name: "Message", kind: "main", of: (message) => messageLink(message.message_id) },
    { name: "Key", of: keyText },
  ], list.messages, (message) => message.message_id)];
}

function records(found) {
  if (found.length === 0) return empty("Nothing has arrived yet.");
  const headerOf = (record, name) => record.headers.find((header) => header.name === name)?.value;
  return table("Newest records", [
    { name: "Stored", kind: "number", of: (record) => whenShort(record.timestamp) },
    { name: "Place", kind: "main", of: (record) => h("code", null, `${record.partition}:${record.offset}`) },
    { name: "Key", of: keyText },
    { name: "Value", kind: "value", of: (record) => h("code", null, valueText(record)) },
    { name: "Delayed as", of: (record) => (headerOf(record, "delayline-id") ? messageLink(headerOf(record, "delayline-id")) : UNKNOWN) },
  ], [...found].reverse(), (record) => `${record.partition}:${record.offset}`);
}

function valueText({ value, value_base64: base64 }) {
  return shortened(value ?? (base64 === undefined ? UNKNOWN : `base64 ${base64}`), 120);
}

function buttons(topic, { offer, info, refresh }, undos) {
  const act = async (asking) => {
    const isDone = await asking;
    undos.forget(); // a purge may have been done without an answer
    if (isDone) await refresh();
  };
  const has = (name) => offer.has(`POST /v1/topics/{}:${name}`);
  return h("div", { class: "buttons" },
    h("a", { class: "button", href: `#/send?topic=${encodeURIComponent(topic.name)}` }, "Send"),
    topic.paused
      ? action("Resume", has("resume"), () => act(resume(topic.name)))
      : action("Pause\u2026", has("pause"), () => act(pause(topic.name))),
    action("Purge\u2026", has("purge"), () => act(purge(topic.name, refresh)), { class: "danger" }),
    info?.topics_on_first_use && offer.has("DELETE /v1/topics/{}")
      ? action("Delete\u2026", true, async () => {
        if (await remove(topic.name)) location.hash = "#/topics";
      }, { class: "danger" })
      : null);
}

/** Each shard decides for itself: what those that have not yet will do is stored. */
function decided({ complete, missing_shards: missing }, done) {
  return complete === false ? `${done} Not yet in ${missing.map(shardName).join(", ")}: it is stored there and will happen.` : done;
}

function pause(name) {
  return ask({
    title: `Pause ${name}?`,
    body: h("p", null, "Messages are taken in and wait. Nothing of this topic is delivered until it is resumed; what falls due meanwhile is delivered then."),
    confirm: "Pause the topic",
    act: async () => {
      toast(decided(await post(topicPath(name, ":pause")), `${name} is paused.`));
    },
  });
}

async function resume(name) {
  return ask({
    title: `Resume ${name}?`,
    body: h("p", null, "What has fallen due meanwhile is delivered at once."),
    confirm: "Resume the topic",
    act: async () => {
      toast(decided(await post(topicPath(name, ":resume")), `${name} goes on.`));
    },
  });
}

/** A name that has to be typed before it is done. */
function typing(name) {
  return ({ form }) => {
    form.addEventListener("submit", (event) => {
      if (valueOf(form, "confirm") === name) return;
      event.stopImmediatePropagation();
      event.preventDefault();
      form.querySelector('[data-pointer="confirm"] .fault').textContent = `Type ${name} here.`;
      form.querySelector('[data-pointer="confirm"] input').focus();
    }, { capture: true });
  };
}

/** What waits is cancelled only where the box is ticked; else the server refuses while anything waits. */
function remove(name) {
  const force = h("input", { type: "checkbox", id: "delete-force" });
  return ask({
    title: `Delete ${name}?`,
    body: [h("p", null, "The topic goes, with everything that was delivered into it. This cannot be undone."),
      h("p", null, force, " ", h("label", { for: "delete-force" }, "Cancel what still waits first")),
      field("Type the topic's name to confirm", "confirm", input())],
    confirm: "Delete the topic",
    isDangerous: true,
    setUp: typing(name),
    act: async () => {
      const query = force.checked ? { force: true } : {};
      const { body } = await request("DELETE", topicPath(name), { query, timeoutMs: LONG_MS });
      toast(body.cancelled ? `${name} is deleted, ${counted(body.cancelled, "message")} cancelled.` : `${name} is deleted.`);
    },
  });
}

/** All that waits goes: the name has to be typed, and the server is asked first how much that is. */
function purge(name, refresh) {
  const path = topicPath(name, ":purge");
  const { body, isReady } = counting(
    async () => (await request("POST", path, { query: { dry_run: true }, timeoutMs: LONG_MS })).body,
    ({ matched }) => `${counted(matched, "message waits", "messages wait")} now.`,
  );
  return ask({
    title: `Purge ${name}?`,
    body: [body, h("p", null, "Everything that waits in this topic is cancelled. What has been delivered stays."),
      field("Type the topic's name to confirm", "confirm", input())],
    confirm: "Purge the topic",
    isDangerous: true,
    isReady,
    setUp: typing(name),
    act: async () => {
      const { body: done } = await request("POST", path, { timeoutMs: LONG_MS });
      toast(decided(done, `${counted(done.cancelled, "message")} cancelled.`), " ", undoButton(name, done, refresh));
    },
  });
}
