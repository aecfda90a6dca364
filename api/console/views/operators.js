// Who did what: acts of people and programs, newest first.

import { get, Problem } from "../api.js";
import { whenShort } from "../clock.js";
import { h, show } from "../dom.js";
import { epoch, fromField, toField, UNKNOWN } from "../format.js";
import { clearFaults, field, input, showProblem, valueOf } from "../forms.js";
import { badge, broken, empty, facts, loading, paging, problemBox, table } from "../parts.js";

const FILTERS = ["principal", "operation", "topic", "since", "until"];
const PAGE_SIZE = 100;

export function operatorsView({ query, go, refresh }) {
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const pages = [""];
  const answered = new Set(); // acts of which the second line was seen: it is on this page or on one before
  const place = h("div", null, loading("who did what"));
  const fault = h("div", { class: "answer" });
  const form = filterForm(filter, (wanted) => go(`#/operators?${wanted}`));
  return {
    title: "Operators",
    element: h("section", { class: "operators" },
      h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, "Operators")), form, fault, place),
    async refresh(signal) {
      try {
        const page = await get("v1/acts", { ...filter, limit: PAGE_SIZE, before: pages.at(-1) }, signal);
        clearFaults(form);
        show(fault);
        show(place, notKept(page), lines(page, answered), paging(pages, page.next_before, refresh));
      } catch (error) {
        if (!(error instanceof Problem) || error.document.status >= 503) throw error;
        this.isStill = true; // asking the same again brings the same
        if (error.isUnavailable) show(place, problemBox(error));
        else {
          show(place);
          showProblem(form, fault, error);
        }
      }
      return {};
    },
  };
}

function filterForm(filter, search) {
  const moment = { type: "datetime-local", step: 1 };
  const form = h("form", { class: "filters", role: "search", "aria-label": "Acts", novalidate: true },
    field("Who", "?principal", input({ value: filter.principal })),
    field("What", "?operation", input({ value: filter.operation }), { hint: "Such as purgeTopic." }),
    field("Topic", "?topic", input({ value: filter.topic })),
    field("From", "?since", input({ ...moment, value: toField(epoch(filter.since)) })),
    field("Before", "?until", input({ ...moment, value: toField(epoch(filter.until)) })),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Search"),
      h("a", { class: "button quiet", href: "#/operators" }, "Clear")));
  form.onsubmit = (event) => {
    event.preventDefault();
    const wanted = new URLSearchParams();
    for (const name of FILTERS) {
      const given = valueOf(form, `?${name}`).trim();
      const value = ["since", "until"].includes(name) ? fromField(given) : given;
      if (value) wanted.set(name, value);
    }
    search(wanted);
  };
  return form;
}

function notKept({ kept }) {
  return kept ? null : h("p", { class: "notice warn", role: "status" },
    "This server does not write down who did what in the installation's topic: ", h("code", null, "access.act_topic"), " is off.");
}

function lines({ acts, next_before: next }, answered) {
  for (const line of acts) if (line.event === "answered") answered.add(line.act);
  const shown = acts.filter((line) => line.event !== "asked" || !answered.has(line.act));
  if (shown.length === 0) {
    return empty(next ? "None among those that were looked at. There are older ones: go on to the next page." : "Nothing was done.");
  }
  return table("Acts", [
    { name: "When", kind: "number", of: (line) => whenShort(line.at) },
    { name: "Who", of: (line) => (line.principal === null ? h("small", null, "noticed") : broken(line.principal)) },
    { name: "What", kind: "main", of: (line) => [h("code", null, line.operation), details(line)] },
    { name: "Topic", of: topicLink },
    { name: "Answer", kind: "short", of: answer },
  ], shown, (line) => line.act);
}

function topicLink({ topic }) {
  return topic === null ? UNKNOWN : h("a", { href: `#/topics/${encodeURIComponent(topic)}` }, broken(topic));
}

/** Without a second line the server may have died in it: it may be done. */
function answer({ event, status }) {
  if (event === "noticed") return UNKNOWN;
  if (event === "asked") return badge("stalled", "no answer known");
  return badge(status < 300 ? "delivered" : "expired", String(status));
}

function details(line) {
  const code = (text) => (text ? h("code", null, text) : null);
  return h("details", null, h("summary", null, "More"), facts(
    ["Path", code(line.path)], ["Query", code(line.query)], ["Body", code(line.body)], ["SHA-256", code(line.body_sha256)],
    ["Address", code(line.address)], ["Request", code(line.request_id)],
    ["Left out", line.left_out ? `${line.left_out} that were refused before` : null],
    ["File", code(line.source)], ["Detail", line.detail ?? null]));
}
