// The server's clock, as far as a page knows it, and the texts that count on it.

import { clock, epoch, moment, relative, UNKNOWN, zoneName } from "./format.js";
import { h } from "./dom.js";

let aheadMs = 0;
let best = Number.POSITIVE_INFINITY;

/** The server answered `moment` between two readings of this machine's clock: the shorter that took, the truer it is. */
export function learn(serverMs, askedMs, answeredMs) {
  const tookMs = answeredMs - askedMs;
  if (!Number.isFinite(serverMs) || tookMs > best) return;
  best = tookMs;
  aheadMs = serverMs - (askedMs + answeredMs) / 2;
}

export function nowMs() {
  return Date.now() + aheadMs;
}

/** This machine's clock minus the server's, in ms, where it can be distinguished from the answer's travel time. */
export function skewMs() {
  return Number.isFinite(best) && Math.abs(aheadMs) > Math.max(2000, best) ? -aheadMs : 0;
}

/** A moment of a document, in the chosen zone; the exact text is its title. */
export function when(text) {
  const ms = epoch(text);
  if (Number.isNaN(ms)) return UNKNOWN;
  return h("time", { datetime: text, title: text }, moment(ms));
}

/** Only the time of day where it is today. */
export function whenShort(text) {
  const ms = epoch(text);
  if (Number.isNaN(ms)) return UNKNOWN;
  const today = moment(ms).slice(0, 10) === moment(nowMs()).slice(0, 10);
  return h("time", { datetime: text, title: `${text} (${zoneName()})` }, today ? clock(ms) : moment(ms));
}

/** A distance from now that goes on counting. */
export function away(text) {
  const ms = epoch(text);
  if (Number.isNaN(ms)) return UNKNOWN;
  return h("span", { class: "away", "data-away": ms }, relative(ms, nowMs()));
}

setInterval(() => {
  for (const element of document.querySelectorAll("[data-away]")) {
    const text = relative(Number(element.dataset.away), nowMs());
    if (element.textContent !== text) element.textContent = text;
  }
}, 1000);
