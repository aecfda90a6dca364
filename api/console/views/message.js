// One message: when it is due, what it carries, what has happened to it, and what can be done.

import { get, Problem, request } from "../api.js";
import { away, when } from "../clock.js";
import { ask, toast } from "../dialogs.js";
import { h, show } from "../dom.js";
import { counted, duration, epoch, fromField, toField } from "../format.js";
import { choice, field, input, valueOf, zoneHint } from "../forms.js";
import { action, badge, broken, due, facts, headersTable, loading, messageLink, payload, problemBox, table } from "../parts.js";
import { messagePath, settled } from "../shapes.js";

const WAITS = new Set(["accepted", "pending"]);

export function messageView(context, id) {
  const place = h("div", null, loading("the message"));
  const state = h("span", { class: "state" });
  const actions = h("div", { class: "buttons" });
  let carried = null; // what it carried while it waited: the server shows it no longer
  let withheld = null; // why the server does not show it
  const read = async (signal) => {
    if (withheld !== null) return get(messagePath(id), {}, signal);
    const { value, problem } = await settled(get(messagePath(id), { view: "full" }, signal));
    if (!problem) return value;
    if (problem.type !== "not-allowed") throw problem;
    withheld = problem.message;
    return read(signal);
  };
  return {
    title: id,
    element: h("section", { class: "message" },
      h("div", { class: "heading" },
        h("div", null, h("p", { class: "crumb" }, "Message ", state), h("h1", { tabindex: "-1", class: "id" }, broken(id))),
        actions),
      place),
    async refresh(signal) {
      try {
        const message = await read(signal);
        if (message.headers !== undefined) carried = message;
        show(state, badge(message.state));
        show(actions, buttons(message, context));
        show(place, message.operation_id ? operation(message) : content(message, carried, withheld));
      } catch (error) {
        if (!(error instanceof Problem) || ![404, 410].includes(error.document.status)) throw error;
        show(state);
        show(actions);
        show(place, problemBox(error));
      }
      return {};
    },
  };
}

/** What was asked for and not decided at once can be asked about like a message. */
function operation({ operation_id: id, state, target }) {
  return facts(["Operation", h("code", null, id)], ["State", state], ["Message", messageLink(target)]);
}

function content(message, carried, withheld) {
  const isWaiting = WAITS.has(message.state);
  return [
    h("div", { class: "columns" },
      h("div", { class: "stack" },
        h("p", { class: "countdown" }, isWaiting ? ["Due ", away(message.due_at)] : ended(message)),
        facts(
          ["Due", due(message.due_at)],
          message.next_due_at ? ["Next due", due(message.next_due_at)] : null,
          ["Accepted", due(message.accepted_at)],
          message.outcome ? ["Ended", due(message.outcome.at)] : null,
          Number.isFinite(message.outcome?.lateness_ms) ? ["Lateness", duration(message.outcome.lateness_ms)] : null,
          message.outcome?.reason ? ["Reason", message.outcome.reason] : null,
          ["Topic", h("a", { href: `#/topics/${encodeURIComponent(message.topic)}` }, broken(message.topic))],
          ["Partition", String(message.partition)],
          message.own_id ? ["Own id", h("code", null, message.own_id)] : null,
          message.expires_at ? ["Expires", due(message.expires_at)] : null,
          message.repeat ? ["Repeats", repeats(message.repeat)] : null,
          ["Version", String(message.version)],
        ),
        history(message)),
      h("div", { class: "stack" }, carried ? carries(carried, isWaiting) :
        h("p", { class: "empty" }, withheld === null ?
          "Key, value and headers are shown while a message waits. This one has ended." :
          `Key, value and headers are not shown: ${withheld}.`))),
  ];
}

function repeats({ cron, time_zone: zone, every, backoff, missed, times_left: left, occurrence }) {
  return [
    cron ? [h("code", null, cron), ` in ${zone ?? "UTC"}`] : `every ${every}`,
    backoff ? `, each gap ${backoff} times the last` : "",
    Number.isFinite(left) ? `, ${counted(left, "time")} left` : ", for ever",
    Number.isFinite(occurrence) ? h("small", null, ` this is occurrence ${occurrence}`) : null,
    missed ? h("small", null, `, missed times: ${missed}`) : null,
  ];
}

function ended(message) {
  const { outcome } = message;
  return outcome ? [`${outcome.state[0].toUpperCase()}${outcome.state.slice(1)} `, away(outcome.at)] : message.state;
}

function carries(message, isWaiting) {
  return [
    isWaiting ? null : h("p", { class: "fine", "data-key": "old" }, "As it was read here while it waited."),
    payload("Value", message.value, message.value_base64),
    payload("Key", message.key, message.key_base64),
    h("h2", { class: "small" }, "Headers"),
    headersTable(message.headers),
  ];
}

function history(message) {
  const events = message.history ?? [];
  if (events.length === 0) return null;
  const numbered = events.map((event, index) => ({ ...event, index }));
  return h("section", null, h("h2", { class: "small" }, "History"),
    table("History", [
      { name: "What", of: (row) => row.event, kind: "main" },
      { name: "When", of: (row) => when(row.at) },
      { name: "By", of: (row) => row.by ?? "\u2013" },
      { name: "Version", of: (row) => row.version ?? "\u2013", kind: "number" },
    ], numbered, (row) => row.index));
}

function buttons(message, { offer, refresh }) {
  if (message.operation_id || !WAITS.has(message.state)) return null;
  const act = async (asking) => {
    if (await asking) await refresh();
  };
  return [
    action("Deliver now", offer.has("POST /v1/messages/{}:deliver"), () => act(deliverNow(message))),
    action("Reschedule\u2026", offer.has("PATCH /v1/messages/{}"), () => act(reschedule(message, offer))),
    action("Cancel\u2026", offer.has("DELETE /v1/messages/{}"), () => act(cancel(message)), { class: "danger" }),
  ];
}

/** 202: the operation is durable and will be decided; its own page shows the result. */
function done({ status, body }, describe) {
  if (status === 202) toast("Stored, and not decided yet: ", messageLink(body.operation_id));
  else toast(...describe(body));
}

async function deliverNow(message) {
  return ask({
    title: "Deliver it now?",
    body: h("p", null, "It goes to ", h("code", null, message.topic), " at once instead of ", due(message.due_at), "."),
    confirm: "Deliver now",
    act: async () => {
      done(await request("POST", messagePath(message.message_id, ":deliver")), () => ["It is due now, and on its way."]);
    },
  });
}

async function cancel(message) {
  return ask({
    title: "Cancel this message?",
    body: h("p", null, "It will never be delivered. It is due ", due(message.due_at), "."),
    confirm: "Cancel the message",
    isDangerous: true,
    act: async () => {
      done(await request("DELETE", messagePath(message.message_id)), () => ["Cancelled: it will never be delivered."]);
    },
  });
}

async function reschedule(message, offer) {
  const at = "/schedule";
  const fields = h("div", { class: "stack" });
  const draw = (how) => show(fields, how === "delay"
    ? field("Delay from now", `${at}/delay`, input({ value: "1h" }), { hint: "Such as 90s, 1h30m, 1.5d or PT1H." })
    : field("Moment", `${at}/deliver_at`, input({ type: "datetime-local", step: 1, value: toField(epoch(message.due_at)) }), { hint: zoneHint() }));
  draw("delay");
  const options = [["delay", "After a delay"], ["deliver_at", "At a moment"]];
  return ask({
    title: "Deliver it at another time",
    body: [choice("When", "reschedule-when", options, "delay", (event) => draw(event.target.value)), fields],
    confirm: "Reschedule",
    act: async (form) => {
      const delay = valueOf(form, `${at}/delay`);
      const schedule = delay ? { delay } : { deliver_at: fromField(valueOf(form, `${at}/deliver_at`)) };
      const headers = offer.heeds("PATCH /v1/messages/{}", "If-Match") ? { "if-match": `"${message.version}"` } : {};
      const answer = await request("PATCH", messagePath(message.message_id), { body: { schedule }, headers });
      done(answer, (moved) => ["Moved: due ", due(moved.due_at), "."]);
    },
  });
}
