// How figures, moments and bytes read. Pure, but for the zone that was chosen.

const NUMBER = new Intl.NumberFormat("en");
const UNITS = [
  ["w", 604_800_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
];

export const UNKNOWN = "\u2013";

let zone = "local";

export function chooseZone(chosen) {
  zone = chosen;
}

export function count(value) {
  return Number.isFinite(value) ? NUMBER.format(value) : UNKNOWN;
}

/** `one message`, `3 messages` */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Two units at most: `4 m 10 s`, `120 ms`. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return UNKNOWN;
  let rest = Math.abs(Math.round(ms));
  if (rest < 1000) return `${rest} ms`;
  if (rest < 10_000) return `${(rest / 1000).toFixed(1)} s`;
  rest = Math.round(rest / 1000) * 1000;
  const first = UNITS.findIndex(([, size]) => rest >= size);
  const parts = [];
  for (const [name, size] of UNITS.slice(first, first + 2)) {
    const whole = Math.floor(rest / size);
    if (whole > 0) parts.push(`${whole} ${name}`);
    rest -= whole * size;
  }
  return parts.join(" ");
}

/** `in 4 m 10 s`, `12 s ago` */
export function relative(ms, nowMs) {
  const away = ms - nowMs;
  if (Math.abs(away) < 1000) return "now";
  const text = duration(away);
  return away > 0 ? `in ${text}` : `${text} ago`;
}

/** `2026-01-01 00:00:30`, in the chosen zone. */
export function moment(ms) {
  if (!Number.isFinite(ms)) return UNKNOWN;
  return `${day(ms)} ${clock(ms)}`;
}

export function day(ms) {
  const [year, month, date] = fields(ms);
  return `${year}-${two(month)}-${two(date)}`;
}

export function clock(ms, seconds = true) {
  const [, , , hour, minute, second] = fields(ms);
  return `${two(hour)}:${two(minute)}${seconds ? `:${two(second)}` : ""}`;
}

function fields(ms) {
  const at = new Date(ms);
  return zone === "utc"
    ? [at.getUTCFullYear(), at.getUTCMonth() + 1, at.getUTCDate(), at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()]
    : [at.getFullYear(), at.getMonth() + 1, at.getDate(), at.getHours(), at.getMinutes(), at.getSeconds()];
}

function two(number) {
  return String(number).padStart(2, "0");
}

export function zoneName() {
  return zone === "utc" ? "UTC" : (Intl.DateTimeFormat().resolvedOptions().timeZone ?? "local time");
}

/** What stands in a `datetime-local` field, as RFC 3339; null for nothing. */
export function fromField(text) {
  if (!text) return null;
  const at = new Date(zone === "utc" ? `${text}Z` : text);
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}

export function toField(ms) {
  return Number.isFinite(ms) ? `${day(ms)}T${clock(ms)}` : "";
}

/** Epoch ms of an RFC 3339 text; NaN where there is none. */
export function epoch(text) {
  return text ? Date.parse(text) : Number.NaN;
}

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  if (size < 1_000_000) return `${(size / 1000).toFixed(1)} kB`;
  return `${(size / 1_000_000).toFixed(1)} MB`;
}

/** What base64 stands for, as pairs of hexadecimal digits; the first 512 bytes. */
export function hex(base64) {
  const raw = atob(base64);
  const digits = [...raw.slice(0, 512)].map((char) => char.charCodeAt(0).toString(16).padStart(2, "0"));
  return { text: digits.join(" "), size: raw.length, isWhole: raw.length <= 512 };
}

/** JSON with line breaks where the text is JSON, else null. */
export function prettyJson(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return reindented(text);
}

/** Indents without reading numbers: a JSON number of twenty digits stays what it is. */
function reindented(text) {
  let out = "";
  let depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g)) {
    if (token === "{" || token === "[") out += token + line(++depth);
    else if (token === "}" || token === "]") {
      depth -= 1;
      out = /[[{]\n *$/.test(out) ? out.replace(/\n *$/, "") + token : out + line(depth) + token;
    } else if (token === ",") out += token + line(depth);
    else out += token === ":" ? ": " : token;
  }
  return out;
}

function line(depth) {
  return `\n${"  ".repeat(depth)}`;
}
