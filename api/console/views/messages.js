// Messages that wait, or that ended lately: filters, pages, and what can be done with all that match.

import { get, LONG_MS, post, Problem } from "../api.js";
import { away, whenShort } from "../clock.js";
import { ask, counting, toast } from "../dialogs.js";
import { h, show } from "../dom.js";
import { count, counted, duration, fromField, toField, epoch, UNKNOWN, zoneName } from "../format.js";
import { clearFaults, field, input, select, showProblem, valueOf } from "../forms.js";
import { action, badge, empty, facts, incomplete, keyText, loading, messageLink, paging, table } from "../parts.js";
import { undoButton } from "../undo.js";

const LIST = "GET /v1/messages";
const STATES = ["pending", "delivered", "cancelled", "expired", "dead", "duplicate", "superseded"];
const FILTERS = ["topic", "key", "own_id", "state", "due_after", "due_before"];
const PAGE_SIZE = 50;

export function messagesView(context) {
  const { query, offer, go } = context;
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const pages = [query.get("page_token") ?? ""]; // the way back: the API's pages lead only forward
  const place = h("div", { class: "answer" }, loading("messages"));
  const fault = h("div", { class: "answer" });
  const form = filterForm(filter, offer, (wanted) => go(`#/messages?${wanted}`));
  const view = {
    title: "Messages",
    element: h("section", null,
      h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, "Messages"), byId(go)), form, fault, place),
    async refresh(signal) {
      const page_token = pages.at(-1);
      try {
        const list = await get("v1/messages", { ...filter, page_size: PAGE_SIZE, page_token }, signal);
        clearFaults(form);
        show(fault);
        show(place, content(list, filter, context, pages));
        return list;
      } catch (error) {
        if (!(error instanceof Problem) || error.document.status >= 503) throw error;
        this.isStill = true; // asking the same again brings the same
        show(place);
        showProblem(form, fault, error);
        return {};
      }
    },
  };
  return view;
}

function filterForm(filter, offer, search) {
  const takes = (name) => offer.takes(LIST, name);
  const moment = { type: "datetime-local", step: 1 };
  const form = h("form", { class: "filters", role: "search", "aria-label": "Messages", novalidate: true },
    field("Topic", "?topic", input({ value: filter.topic })),
    takes("key") && field("Key", "?key", input({ value: filter.key })),
    takes("own_id") && field("Own id", "?own_id", input({ value: filter.own_id })),
    field("State", "?state", select([["", "pending"], ...STATES.slice(1).map((state) => [state, state])], filter.state)),
    field("Due from", "?due_after", input({ ...moment, value: toField(epoch(filter.due_after)) })),
    field("Due before", "?due_before", input({ ...moment, value: toField(epoch(filter.due_before)) })),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Search"),
      h("a", { class: "button quiet", href: "#/messages" }, "Clear")));
  form.onsubmit = (event) => {
    event.preventDefault();
    const wanted = new URLSearchParams();
    for (const name of FILTERS) {
      const given = valueOf(form, `?${name}`).trim();
      const value = name.startsWith("due_") ? fromField(given) : given;
      if (value) wanted.set(name, value);
    }
    search(wanted);
  };
  return form;
}

function byId(go) {
  const control = h("input", { type: "text", id: "open-id", autocomplete: "off", spellcheck: "false", placeholder: "orders.3.1041.1767225630000" });
  const form = h("form", { class: "search" }, h("label", { for: "open-id" }, "Open by id"), control,
    h("button", { type: "submit" }, "Open"));
  form.onsubmit = (event) => {
    event.preventDefault();
    if (control.value.trim()) go(`#/messages/${encodeURIComponent(control.value.trim())}`);
  };
  return form;
}

function content(list, filter, context, pages) {
  const { messages } = list;
  const state = filter.state || "pending";
  return [
    incomplete(list),
    h("div", { class: "table-head" },
      h("p", { class: "fine" }, `${counted(messages.length, "message")} on this page, ${state === "pending" ? "by due time" : "newest end first"}; times in ${zoneName()}`),
      state === "pending" ? bulkButton(filter, context) : null),
    messages.length === 0 ? nothing(list, filter) : table("Messages", columns(state), messages, (message) => message.message_id),
    paging(pages, list.next_page_token, context.refresh),
  ];
}

function nothing(list, filter) {
  if (list.next_page_token) return empty(`None of the ${count(list.looked ?? Number.NaN)} that were looked at match. There are more to look at: go on to the next page.`);
  const isFiltered = FILTERS.some((name) => filter[name]);
  return empty(isFiltered ? "No message matches." : "Nothing waits.",
    h("p", null, h("a", { class: "button", href: "#/send" }, "Send a message")));
}

function columns(state) {
  const id = { name: "Message", kind: "main", of: (message) => messageLink(message.message_id) };
  const key = { name: "Key", of: keyText };
  const ownId = { name: "Own id", of: (message) => (message.own_id ? h("code", null, message.own_id) : UNKNOWN) };
  if (state === "pending") {
    return [
      { name: "Due", kind: "number", of: (message) => whenShort(message.due_at) },
      { name: "Away", kind: "short", of: (message) => away(message.due_at) },
      id, key, ownId,
      { name: "Accepted", kind: "number", of: (message) => whenShort(message.accepted_at) },
    ];
  }
  return [
    { name: "Ended", kind: "number", of: (message) => whenShort(message.outcome?.at) },
    { name: "State", kind: "short", of: (message) => badge(message.state) },
    id, ownId,
    { name: "Due", kind: "number", of: (message) => whenShort(message.due_at) },
    state === "delivered"
      ? { name: "Lateness", kind: "number", of: (message) => duration(message.outcome?.lateness_ms ?? Number.NaN) }
      : { name: "Reason", of: (message) => message.outcome?.reason ?? UNKNOWN },
  ];
}

function bulkButton(filter, { offer, refresh }) {
  const isOffered = offer.has("POST /v1/messages:cancel");
  if (!filter.topic) return isOffered ? h("p", { class: "fine" }, "Choose a topic to cancel all that match.") : null;
  return action("Cancel all that match\u2026", isOffered, async () => {
    if (await cancelAll(filter, refresh)) await refresh();
  }, { class: "danger" });
}

/** What came of something that was done to many messages. */
export function outcome({ matched, cancelled, too_late: late, unknown, complete }) {
  const rest = [late ? `, ${count(late)} too late` : "", unknown ? `, ${count(unknown)} unknown` : ""];
  const isAll = complete === false ? " That was not all of it: ask again to go on." : "";
  return [`${counted(cancelled, "message")} of ${count(matched)} cancelled`, ...rest, ".", isAll];
}

/** Asks the server how many match before it asks the person. */
async function cancelAll({ state: _, ...given }, refresh) {
  const filter = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
  const { body, isReady } = counting(
    () => post("v1/messages:cancel", { filter, dry_run: true }, LONG_MS),
    ({ matched }) => `${counted(matched, "message matches", "messages match")} now.`,
  );
  return ask({
    title: "Cancel all that match?",
    body: [facts(...Object.entries(filter).map(([name, value]) => [name.replace("_", " "), h("code", null, value)])), body,
      h("p", null, "None of them will be delivered, unless you undo it.")],
    confirm: "Cancel them",
    isDangerous: true,
    isReady,
    act: async () => {
      const done = await post("v1/messages:cancel", { filter, dry_run: false }, LONG_MS);
      toast(outcome(done), " ", undoButton(filter.topic, done, refresh));
    },
  });
}
