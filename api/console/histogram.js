// When messages fall due, as a picture and as a table.

import { h, svg } from "./dom.js";
import { clock, count, counted, day, duration, epoch } from "./format.js";

const DAY_MS = 86_400_000;
const HEIGHT = 100;

/** How far ahead to look, by which bucket, and how many of those. */
export const SPANS = {
  "1 h": { bucket: "1m", buckets: 60, bucketMs: 60_000 },
  "24 h": { bucket: "15m", buckets: 96, bucketMs: 900_000 },
  "7 d": { bucket: "2h", buckets: 84, bucketMs: 7_200_000 },
  "30 d": { bucket: "12h", buckets: 60, bucketMs: 43_200_000 },
};

/** The query of a span that begins now. */
export function spanQuery({ bucket, buckets, bucketMs }, fromMs) {
  const from = Math.floor(fromMs / bucketMs) * bucketMs;
  return { bucket, from, to: from + buckets * bucketMs };
}

function bucketsOf({ from, bucket_ms: bucketMs, counts }) {
  return counts.map((messages, index) => {
    const fromMs = epoch(from) + index * bucketMs;
    return { fromMs, toMs: fromMs + bucketMs, messages };
  });
}

/** A picture with its scale, and the same as a table behind a disclosure. */
export function histogram(answer) {
  const buckets = bucketsOf(answer);
  const highest = Math.max(1, ...answer.counts);
  const total = answer.counts.reduce((sum, messages) => sum + messages, 0);
  const span = duration(buckets.length * answer.bucket_ms);
  const summary = `${counted(total, "message")} due within ${span}, at most ${count(Math.max(0, ...answer.counts))} per ${duration(answer.bucket_ms)}`;
  return [
    h("figure", { class: "histogram" },
      h("figcaption", null, h("span", null, summary), beyond(answer)),
      h("div", { class: "plot" },
        h("span", { class: "scale", "aria-hidden": "true" }, count(highest)),
        picture(buckets, highest, summary),
        h("div", { class: "axis", "aria-hidden": "true" }, ticks(buckets).map((text) => h("span", null, text))))),
    asTable(buckets),
  ];
}

function beyond({ before, after }) {
  const parts = [before ? `${count(before)} earlier` : null, after ? `${count(after)} later` : null];
  return h("span", { class: "beyond" }, parts.filter(Boolean).join(", "));
}

function picture(buckets, highest, summary) {
  const wide = 1000 / buckets.length;
  return svg("svg", { viewBox: `0 0 1000 ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": summary },
    svg("path", { class: "grid", d: `M0 0.5H1000M0 ${HEIGHT / 2}H1000M0 ${HEIGHT - 0.5}H1000` }),
    buckets.map((bucket, index) => (bucket.messages ? bar(bucket, index, wide, highest) : null)));
}

function bar(bucket, index, wide, highest) {
  const tall = Math.max((bucket.messages / highest) * HEIGHT, 2);
  return svg("rect", {
    class: "bar",
    "data-key": bucket.fromMs,
    x: (index * wide + wide * 0.1).toFixed(2),
    y: (HEIGHT - tall).toFixed(2),
    width: (wide * 0.8).toFixed(2),
    height: tall.toFixed(2),
  }, svg("title", null, `${spanText(bucket)}: ${counted(bucket.messages, "message")}`));
}

/** The same without words, for a row of a table: the figures beside it have the values. */
export function sparkline(answer) {
  const highest = Math.max(1, ...answer.counts);
  const wide = 200 / answer.counts.length;
  return svg("svg", { class: "sparkline", viewBox: "0 0 200 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "grid", d: "M0 23.5H200" }),
    answer.counts.map((messages, index) => {
      const tall = messages ? Math.max((messages / highest) * 24, 1.5) : 0;
      return tall ? svg("rect", { class: "bar", x: (index * wide).toFixed(2), y: (24 - tall).toFixed(2), width: (wide * 0.85).toFixed(2), height: tall.toFixed(2) }) : null;
    }));
}

function ticks(buckets) {
  const isLong = buckets.at(-1).toMs - buckets[0].fromMs > 2 * DAY_MS;
  return [0, 0.25, 0.5, 0.75].map((part) => {
    const { fromMs } = buckets[Math.floor(part * buckets.length)];
    return isLong ? day(fromMs).slice(5) : clock(fromMs, false);
  });
}

function spanText({ fromMs, toMs }) {
  return `${day(fromMs)} ${clock(fromMs, false)} to ${clock(toMs, false)}`;
}

function asTable(buckets) {
  const full = buckets.filter((bucket) => bucket.messages);
  return h("details", { class: "as-table" },
    h("summary", null, "As a table"),
    full.length === 0 ? h("p", { class: "fine" }, "Nothing is due in this time.") :
      h("table", { class: "plain" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "Due"), h("th", { scope: "col", class: "number" }, "Messages"))),
        h("tbody", null, full.map((bucket) =>
          h("tr", { "data-key": bucket.fromMs },
            h("th", { scope: "row" }, spanText(bucket)), h("td", { class: "number" }, count(bucket.messages)))))));
}
