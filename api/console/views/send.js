// A message by hand: now, later, or again and again.

import { get, post, Problem, request } from "../api.js";
import { when } from "../clock.js";
import { h, show } from "../dom.js";
import { fromField, zoneName } from "../format.js";
import { choice, clearFaults, field, input, select, submitting, textarea, valueOf, zoneHint } from "../forms.js";
import { badge, due, facts, messageLink } from "../parts.js";
import { topicPath } from "../shapes.js";

const WHEN = [
  ["now", "Now"],
  ["delay", "After a delay"],
  ["deliver_at", "At a moment"],
  ["cron", "By cron"],
  ["every", "Every so often"],
];
const NUMBERS = new Set(["times", "backoff"]);
const FORMS = [["json", "JSON"], ["text", "Text"], ["base64", "Bytes in base64"], ["none", "No bytes at all"]];

export function sendView({ query, offer, info }) {
  const offered = (name) => offer.field("ScheduleIn", name);
  const place = h("div", { class: "answer" });
  const preview = h("div", { class: "preview", role: "status" });
  const names = h("datalist", { id: "topic-names" });
  const timing = h("div", { class: "timing" });
  const headers = h("div", { class: "headers" });
  const form = h("form", { class: "send", novalidate: true },
    h("div", { class: "columns" },
      h("div", { class: "stack" },
        field("Topic", "topic", input({ list: "topic-names", value: query.get("topic") ?? "", required: true }), {
          hint: info?.topics_on_first_use ? "Made by the first message, where there is none." : "One that the queue has.",
        }), names,
        choice("The value is", "value-form", FORMS, "json", () => drawForm(form)),
        field("Value", "/value", textarea({ rows: 8 }), { wide: true, hint: "Sent as you write it; JSON is sent as compact JSON." }),
        field("Key", "/key", input(), { hint: "Text; messages of one key go to one partition. Empty: none." }),
        field("Partition", "/partition", input({ inputmode: "numeric" }), { hint: "Empty: the key decides, else partitions take turns." }),
        h("fieldset", { "data-pointer": "/headers" }, h("legend", null, "Headers"), headers, h("p", { class: "fault" }),
          h("button", { type: "button", onclick: () => addHeader(headers) }, "Add a header"))),
      h("div", { class: "stack" },
        choice("When", "when", WHEN.map(([value, text]) => [value, text, !isOffered(value, offered)]), "delay", () => {
          drawTiming(timing, form, offered);
          renew();
        }),
        timing, preview,
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Send")),
        place)));
  const sending = new Sending(offer);
  let timer;
  const renew = () => {
    clearTimeout(timer);
    timer = setTimeout(() => foresee(form, preview), 250);
  };
  timing.oninput = renew;
  form.onsubmit = (event) => {
    event.preventDefault();
    submitting(form, place, async () => show(place, sent(await sending.send(form))), sending.advice(form));
  };
  drawTiming(timing, form, offered);
  return {
    title: "Send",
    isStill: true,
    isWrittenIn: true, // what stands in the form would be lost if it were made anew
    element: h("section", null, h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, "Send a message")), form),
    async refresh(signal) {
      const { topics } = await get("v1/topics", {}, signal);
      show(names, topics.map(({ name }) => h("option", { value: name })));
      return {};
    },
  };
}

/** Where the server knows a request again by its key, one whose answer was lost can be sent again without harm. */
class Sending {
  constructor(offer) {
    this.isOffered = offer.heeds("POST /v1/topics/{}/messages", "Idempotency-Key");
    this.last = {};
  }

  async send(form) {
    const [path, body] = [topicPath(topicIn(form), "/messages"), bodyOf(form)];
    const text = typeof body === "string" ? body : JSON.stringify(body);
    if (this.last.path !== path || this.last.text !== text) this.last = { path, text, key: newKey() };
    const headers = this.isKept(form) ? { "idempotency-key": `"${this.last.key}"` } : {};
    const answer = await request("POST", path, { body: text, headers });
    this.last = {};
    return answer.body;
  }

  advice(form) {
    return this.isKept(form) ? "It is unknown whether the message is stored. Send it again as it is: it is delivered once." : undefined;
  }

  /** Nobody checks the keys of messages that go straight to their topic, so that they are refused. */
  isKept(form) {
    return this.isOffered && chosen(form, "when") !== "now";
  }
}

function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function isOffered(when, offered) {
  return when === "now" || offered(when);
}

/** An empty topic would be another path: refused here, since the server never sees it. */
function topicIn(form) {
  const topic = valueOf(form, "topic").trim();
  if (topic) return topic;
  throw new Problem({
    type: "/problems/invalid-request",
    title: "No topic",
    status: 400,
    detail: "a message needs a topic",
    errors: [{ pointer: "topic", code: "missing", detail: "a message needs a topic" }],
  });
}

function chosen(form, name) {
  return form.querySelector(`input[name="${name}"]:checked`)?.value;
}

function drawForm(form) {
  const how = chosen(form, "value-form");
  const control = form.querySelector('[data-pointer^="/value"] textarea');
  control.disabled = how === "none";
  control.closest("[data-pointer]").dataset.pointer = how === "base64" ? "/value_base64" : "/value";
}

function drawTiming(place, form, offered) {
  const how = chosen(form, "when") ?? "delay";
  const at = "/schedule";
  const fields = {
    now: [],
    delay: [field("Delay", `${at}/delay`, input({ value: "30s" }), { hint: "Such as 90s, 1h30m, 1.5d or PT1H." })],
    deliver_at: [field("Moment", `${at}/deliver_at`, input({ type: "datetime-local", step: 1 }), { hint: zoneHint() })],
    cron: [
      field("Cron", `${at}/cron`, input({ value: "0 9 * * 1-5" }), { hint: "Five fields, or six with seconds first." }),
      field("Time zone", `${at}/time_zone`, input({ value: zoneName() }), { hint: "Such as Europe/Berlin." }),
    ],
    every: [
      field("Every", `${at}/every`, input({ value: "1h" }), { hint: "A duration, such as 15m or 1d." }),
      field("First after", `${at}/delay`, input(), { hint: "A duration. Empty: one such span from now." }),
    ],
  }[how];
  const repeats = how === "cron" || how === "every";
  const more = how === "now" ? [] : [
    repeats && offered("times") && field("Times", `${at}/times`, input({ inputmode: "numeric" }), { hint: "Empty: for ever." }),
    how === "every" && offered("backoff") && field("Backoff", `${at}/backoff`, input({ inputmode: "decimal" }), { hint: "A factor above 1: each gap is longer than the last." }),
    repeats && offered("missed") && field("Missed times", `${at}/missed`, select([["", "make up for the latest"], ["all", "make up for all"], ["none", "leave them out"]], ""), { hint: "Those that passed while nobody could deliver." }),
    offered("own_id") && field("Own id", `${at}/own_id`, input(), { hint: "Unique among what waits for this key." }),
    offered("on_conflict") && field("If the own id waits already", `${at}/on_conflict`,
      select([["", "keep the one that waits"], ["replace", "replace it"]], "")),
    offered("ttl") && field("Time to live", `${at}/ttl`, input(), { hint: "A duration, from the due time on: later than that it is not delivered." }),
    offered("expire_at") && field("Expires at", `${at}/expire_at`, input({ type: "datetime-local", step: 1 }), { hint: zoneHint() }),
  ];
  show(place);
  show(place, fields, more, how === "now" ? null : missing(offered));
}

function missing(offered) {
  const names = { cron: "cron", every: "repeats", own_id: "own ids", ttl: "expiry" };
  const absent = Object.keys(names).filter((name) => !offered(name)).map((name) => names[name]);
  return absent.length ? h("p", { class: "fine" }, `Not available on this installation: ${absent.join(", ")}.`) : null;
}

function addHeader(place) {
  const index = place.children.length;
  const remove = h("button", { type: "button", class: "quiet", onclick: () => row.remove() }, "Remove");
  const row = h("div", { class: "header-row" },
    h("label", null, h("span", null, "Name"), h("input", { type: "text", class: "header-name", autocomplete: "off" })),
    h("label", null, h("span", null, "Value"), h("input", { type: "text", class: "header-value", autocomplete: "off" })), remove);
  row.dataset.index = index;
  place.append(row);
  row.querySelector("input").focus();
}

/** The body of the request, or its text. */
function bodyOf(form) {
  const body = {};
  const value = form.querySelector('[data-pointer^="/value"] textarea').value;
  const how = chosen(form, "value-form");
  if (how === "json") checkJson(value);
  else if (how === "text") body.value = value;
  else if (how === "base64") body.value_base64 = value.trim();
  if (valueOf(form, "/key")) body.key = valueOf(form, "/key");
  if (valueOf(form, "/partition")) body.partition = asNumber(valueOf(form, "/partition"));
  const headers = [...form.querySelectorAll(".header-row")].map((row) => ({
    name: row.querySelector(".header-name").value,
    value: row.querySelector(".header-value").value,
  }));
  if (headers.length) body.headers = headers;
  body.schedule = scheduleOf(form);
  return how === "json" ? withValue(body, value) : body;
}

/** The value goes out as it was written: reading it here would round its long numbers. */
function withValue(body, text) {
  const rest = JSON.stringify(body).slice(1);
  return `{"value":${text}${rest === "}" ? "" : ","}${rest}`;
}

function scheduleOf(form) {
  if (chosen(form, "when") === "now") return { delay_ms: 0 }; // without a schedule the topic's default delay counts
  const schedule = {};
  for (const place of form.querySelectorAll(".timing [data-pointer]")) {
    const name = place.dataset.pointer.slice("/schedule/".length);
    const control = place.querySelector("input, select");
    const text = control.value.trim();
    if (text === "") continue;
    if (control.type === "datetime-local") schedule[name] = fromField(text);
    else schedule[name] = NUMBERS.has(name) ? asNumber(text) : text;
  }
  return schedule;
}

/** What is no number goes out as text, and the server reports it at its field. */
function asNumber(text) {
  return /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text;
}

/** What is no JSON would make the whole body none: the server could not report what is wrong with it. */
function checkJson(text) {
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Problem({
      type: "/problems/invalid-body",
      title: "The value is no JSON",
      status: 400,
      detail: "send it as text, or mend it",
      errors: [{ pointer: "/value", code: "malformed", detail: error.message }],
    });
  }
}

/** When it would be due, as the server reckons. Only errors in the times are shown. */
async function foresee(form, place) {
  const schedule = scheduleOf(form);
  if (chosen(form, "when") === "now" || Object.keys(schedule).length === 0) return show(place);
  try {
    const { immediate, due_at: moments } = await post("v1/schedules:preview", { schedule });
    clearFaults(form);
    show(place, immediate ? "At once." : foreseen(moments));
  } catch (error) {
    show(place, error instanceof Problem ? error.document.detail : error.message);
  }
}

function foreseen([first, ...rest]) {
  if (rest.length === 0) return ["Due ", due(first)];
  return [h("span", null, "Due ", due(first), ", then"), h("ul", { class: "times" }, rest.map((text) => h("li", null, when(text))))];
}

function sent(message) {
  return h("div", { class: "notice good", role: "status" },
    h("p", { class: "notice-title" }, message.deduplicated ? "It waits already" : "Durable"),
    facts(
      ["State", badge(message.state)],
      ["Message", message.message_id ? messageLink(message.message_id) : "straight to its topic, without an id"],
      ["Partition", String(message.partition)],
      message.due_at ? ["Due", due(message.due_at)] : null,
      message.own_id ? ["Own id", h("code", null, message.own_id)] : null,
    ));
}
