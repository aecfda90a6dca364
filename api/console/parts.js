// Parts that several views show.

import { away, when } from "./clock.js";
import { h } from "./dom.js";
import { bytes, count, hex, prettyJson, UNKNOWN } from "./format.js";

/** States with their meaning; the mark means the same as the colour. */
const STATES = {
  accepted: ["waits", "\u25cb"],
  pending: ["waits", "\u25cb"],
  delivered: ["good", "\u25cf"],
  cancelled: ["done", "\u00d7"],
  expired: ["warn", "\u25d1"],
  dead: ["bad", "\u25a0"],
  duplicate: ["done", "\u2261"],
  superseded: ["done", "\u21bb"],
  paused: ["warn", "\u2016"],
  debt: ["warn", "\u25d1"],
  stalled: ["bad", "\u25a0"],
};

export function badge(state, text = state) {
  const [tone, mark] = STATES[state] ?? ["done", "\u00b7"];
  return h("span", { class: `badge ${tone}` }, h("span", { "aria-hidden": "true" }, mark), " ", text);
}

/**
 * A table that becomes a list of cards where the page is narrow: the roles are written out, because a table that is
 * laid out otherwise loses them. `columns`: `{name, of(row), kind}`; kind `number` or `main`.
 */
export function table(label, columns, rows, keyOf) {
  const head = columns.map(({ name, kind }) => h("th", { role: "columnheader", scope: "col", class: kind }, name));
  return h("table", { role: "table", class: "rows", "aria-label": label },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    h("tbody", { role: "rowgroup" }, rows.map((row) => tableRow(columns, row, keyOf(row)))));
}

function tableRow(columns, row, key) {
  const cells = columns.map(({ name, of, kind }) => {
    const isHead = kind === "main";
    const role = isHead ? "rowheader" : "cell";
    const label = h("span", { class: "cell-name", "aria-hidden": "true" }, name);
    return h(isHead ? "th" : "td", { role, scope: isHead ? "row" : null, class: kind }, label, h("span", null, of(row)));
  });
  return h("tr", { role: "row", "data-key": key }, cells);
}

/** Figures with their names: `[name, value, note]`; those without a value are left out. */
export function figures(...entries) {
  const shown = entries.filter((entry) => entry && entry[1] !== undefined);
  return h("dl", { class: "figures" }, shown.map(([name, value, note, tone]) =>
    h("div", { class: tone ?? null, "data-key": name }, h("dt", null, name),
      h("dd", null, typeof value === "number" ? count(value) : value ?? UNKNOWN, note ? h("small", null, note) : null))));
}

export function facts(...entries) {
  const shown = entries.filter((entry) => entry && entry[1] !== null && entry[1] !== undefined);
  return h("dl", { class: "facts" }, shown.map(([name, value]) =>
    h("div", { "data-key": name }, h("dt", null, name), h("dd", null, value))));
}

export function empty(text, ...more) {
  return h("div", { class: "empty" }, h("p", null, text), more);
}

export function loading(what) {
  return h("p", { class: "loading" }, `Reading ${what}\u2026`);
}

/** A problem document as it is; what the installation does not have is shown without alarm. */
export function problemBox(problem, isSummary = false) {
  const { title, detail, status, errors, request_id: requestId, outcome } = problem.document;
  const tone = problem.isUnavailable ? "unavailable" : "problem";
  return h("div", { class: `notice ${tone}`, role: isSummary ? "alert" : null },
    h("p", { class: "notice-title" }, problem.isUnavailable ? "Not available on this installation" : title),
    h("p", null, detail ?? title),
    Array.isArray(errors) && errors.length ? h("ul", null, errors.map((fault) =>
      h("li", null, h("code", null, fault.pointer || "/"), " ", fault.detail))) : null,
    outcome ? h("p", null, `It is ${outcome.state}`, outcome.at ? [" since ", when(outcome.at)] : null) : null,
    h("p", { class: "fine" }, `${status} ${problem.type || "problem"}`, requestId ? `, request ${requestId}` : null));
}

/** Something is missing in what is shown; `advice` explains what happens next. */
export function incomplete(list, advice = "") {
  if (list.complete !== false) return null;
  const missing = list.missing_shards ?? [];
  return h("div", { class: "notice warn", role: "status" },
    h("p", { class: "notice-title" }, "This is not all of it"),
    h("p", null, missing.length ? "No owner answers for these shards right now: " : "Some shards did not answer.",
      missing.map((shard, index) => [index ? ", " : "", h("code", null, shardName(shard))])),
    advice ? h("p", { class: "fine" }, advice) : null);
}

export function shardName(shard) {
  if (typeof shard !== "object" || shard === null) return String(shard);
  return `${shard.topic}.${shard.partition ?? shard.shard}`;
}

/** Bytes of a key or a value: text, or base64 for what is no UTF-8. */
export function payload(name, text, base64) {
  if (base64 !== undefined && base64 !== null) {
    const { text: digits, size, isWhole } = hex(base64);
    return h("figure", { class: "payload", "data-key": name },
      h("figcaption", null, name, h("small", null, `${bytes(size)}, no text`)),
      h("pre", { tabindex: "0", class: "digits" }, digits, isWhole ? "" : " \u2026"));
  }
  if (text === null || text === undefined) {
    return h("figure", { class: "payload", "data-key": name }, h("figcaption", null, name, h("small", null, "no bytes at all")));
  }
  const pretty = prettyJson(text);
  const size = bytes(new TextEncoder().encode(text).length);
  return h("figure", { class: "payload", "data-key": name },
    h("figcaption", null, name, h("small", null, pretty === null ? `${size}, text` : `${size}, JSON`)),
    h("pre", { tabindex: "0" }, pretty ?? text),
    pretty !== null && pretty !== text
      ? h("details", null, h("summary", null, "As it was sent"), h("pre", { tabindex: "0" }, text)) : null);
}

/** Headers of a message or a record, with bytes that are no text in base64. */
export function headersTable(headers) {
  if (!headers?.length) return h("p", { class: "fine" }, "No headers.");
  const value = (row) => row.value ?? (row.value_base64 === undefined ? UNKNOWN : `base64 ${row.value_base64}`);
  const numbered = headers.map((header, index) => ({ ...header, index }));
  return table("Headers", [
    { name: "Header", of: (row) => row.name, kind: "main" },
    { name: "Value", of: (row) => h("code", null, value(row)) },
  ], numbered, (row) => row.index);
}

/** A key in a table: keys are names, but may have thousands of bytes. */
export function keyText(message) {
  const text = message.key ?? (message.key_base64 === undefined ? null : `base64 ${message.key_base64}`);
  return text === null ? UNKNOWN : h("code", { title: text }, shortened(text, 60));
}

export function shortened(text, charsMax) {
  return text.length > charsMax ? `${text.slice(0, charsMax)}\u2026` : text;
}

export function messageLink(id) {
  return h("a", { href: `#/messages/${encodeURIComponent(id)}`, class: "id" }, broken(id));
}

/** Long names may break behind their dots. */
export function broken(text) {
  return String(text).split(/(?<=[._-])/).flatMap((part, index) => (index ? [h("wbr"), part] : [part]));
}

/** Due when: the moment, and how far that is. */
export function due(text) {
  return [when(text), " ", h("small", null, away(text))];
}

/** A button for something that this installation may not have: it is disabled with the reason instead of failing. */
export function action(text, isOffered, onclick, attributes = {}) {
  if (isOffered) return h("button", { type: "button", onclick, ...attributes }, text);
  return h("button", {
    type: "button",
    ...attributes,
    "aria-disabled": "true",
    title: "Not available on this installation",
  }, text, h("span", { class: "hidden" }, " (not available on this installation)"));
}

/** Back and forth in lists whose pages lead only forward: `pages` holds the tokens up to the page that is shown. */
export function paging(pages, next, refresh) {
  const turn = (change) => {
    change();
    refresh();
  };
  const isFirst = pages.length === 1;
  if (isFirst && !next) return null;
  return h("nav", { class: "paging", "aria-label": "Pages" },
    h("button", { type: "button", disabled: isFirst, onclick: () => turn(() => pages.pop()) }, "Previous"),
    h("span", null, `Page ${pages.length}`),
    h("button", { type: "button", disabled: !next, onclick: () => turn(() => pages.push(next)) }, "Next"));
}
