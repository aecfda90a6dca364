// The API's documents, asked for. What an installation does not report is undefined in them, and shown as unknown.

import { get, Problem, segment } from "./api.js";

/** `{value}` or `{problem}`; that no answer came is not a view's business, and thrown on. */
export async function settled(promise) {
  try {
    return { value: await promise };
  } catch (error) {
    if (error instanceof Problem) return { problem: error };
    throw error;
  }
}

/** Asks again and again for what may not be there: what an installation has not is asked for once. */
export function optional(ask) {
  let unavailable = null;
  return async (...given) => {
    if (unavailable) return unavailable;
    const answer = await settled(ask(...given));
    if (answer.problem?.isUnavailable) unavailable = answer;
    return answer;
  };
}

/** All topics; `hasFigures` where the installation reports their state. */
export async function readTopics(signal) {
  const list = await get("v1/topics", {}, signal);
  return { ...list, hasFigures: list.topics.some((topic) => "pending" in topic) };
}

/** One topic; without `shards` where the installation answers only with lists. */
export async function readTopic(name, offer, signal) {
  if (offer.has("GET /v1/topics/{}")) return get(topicPath(name), {}, signal);
  const list = await readTopics(signal);
  const found = list.topics.find((topic) => topic.name === name);
  if (found) return { ...found, as_of: list.as_of };
  throw new Problem({ type: "/problems/topic-unknown", title: "No such topic", status: 404, detail: `there is no topic ${name}` });
}

export function topicPath(name, rest = "") {
  return `v1/topics/${segment(name)}${rest}`;
}

export function messagePath(id, rest = "") {
  return `v1/messages/${segment(id)}${rest}`;
}

/** How late deliveries were, in ms, by topic: read from the metrics of a process that has a worker in it. */
export class Lateness {
  constructor() {
    this.byTopic = new Map();
    this.readAtMs = Number.NEGATIVE_INFINITY;
  }

  async renew(signal) {
    if (performance.now() - this.readAtMs < 10_000) return;
    this.readAtMs = performance.now();
    try {
      const answer = await fetch(new URL("metrics", document.baseURI), { signal, cache: "no-store" });
      if (answer.ok) this.byTopic = latenessIn(await answer.text());
    } catch {
      this.byTopic = new Map(); // whether the server is there is found out by others
    }
  }

  /** An upper bound of the quantile, in ms; undefined where nothing was delivered here. */
  quantile(topic, part) {
    const buckets = this.byTopic.get(topic);
    const total = buckets?.at(-1)?.[1];
    return total ? buckets.find(([, running]) => running >= total * part)[0] * 1000 : undefined;
  }
}

const BUCKET = /^delayline_delivery_lateness_seconds_bucket\{(.*)\} (\S+)$/gm;

/** Topic -> [upper bound in s, how many up to there], ascending. */
function latenessIn(text) {
  const found = new Map();
  for (const [, labels, running] of text.matchAll(BUCKET)) {
    const bound = /le="([^"]*)"/.exec(labels)[1];
    const topic = /topic="([^"]*)"/.exec(labels)[1];
    if (!found.has(topic)) found.set(topic, []);
    found.get(topic).push([bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound), Number(running)]);
  }
  return found;
}
