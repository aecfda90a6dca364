// Undoing a purge, or a cancel of many, while that is possible.

import { get, LONG_MS, Problem, request, Unreachable } from "./api.js";
import { nowMs } from "./clock.js";
import { toast } from "./dialogs.js";
import { h, show } from "./dom.js";
import { clock, counted, epoch } from "./format.js";
import { problemBox } from "./parts.js";
import { settled, topicPath } from "./shapes.js";

const SET_TIMEOUT_MAX_MS = 2 ** 31 - 1;
const LIST = "GET /v1/topics/{}/undos";
const AGAIN_MS = 30_000; // the server looks through all copies for it
const PAGES_MAX = 20;

const undone = new Set(); // ids: the server lists them until their time is over

/** A button, where the server's answer has an `undo`; it goes when its time is over. `done()` is called after it. */
export function undoButton(topic, { undo }, done, text = "Undo") {
  if (!undo) return null;
  const until = epoch(undo.until);
  const button = h("button", { type: "button", class: "undo", title: `Until ${clock(until)}` }, text);
  button.onclick = async () => {
    button.disabled = true;
    if (await isUndone(topic, undo.id)) {
      undone.add(undo.id);
      button.remove();
      await done();
    } else button.disabled = false;
  };
  setTimeout(() => button.remove(), Math.min(Math.max(until - nowMs(), 0), SET_TIMEOUT_MAX_MS));
  return button;
}

/** It can be asked again: nothing comes back twice. */
async function isUndone(topic, id) {
  try {
    const { body } = await request("POST", topicPath(topic, ":undo"), { query: { id }, timeoutMs: LONG_MS });
    const before = body.restored_before ? ` ${counted(body.restored_before, "message")} had come back before.` : "";
    toast(`${counted(body.restored, "message is", "messages are")} back in ${topic}.${before}`);
    return true;
  } catch (error) {
    if (!(error instanceof Problem || error instanceof Unreachable)) throw error;
    toast(`Not undone: ${error.message}`);
    return false;
  }
}

/** Buttons for what can still be undone in a topic: also for what others have purged, and what no answer came to. */
export class Undos {
  constructor(topic, { offer, refresh }) {
    this.topic = topic;
    this.isOffered = offer.has(LIST);
    this.refresh = refresh;
    this.found = [];
    this.buttons = new Map(); // by id: one that is at work stays the same
    this.place = h("div", { class: "undos" });
    this.forget();
  }

  /** Ask the server at the next renewal: there may be more now. */
  forget() {
    this.readMs = Number.NEGATIVE_INFINITY;
  }

  async renew(signal) {
    if (this.isOffered && nowMs() >= this.readMs + AGAIN_MS) {
      const { value, problem } = await settled(listed(this.topic, signal));
      this.readMs = nowMs();
      // Who may not undo is not offered it.
      if (problem) return show(this.place, problem.document.status === 403 ? null : problemBox(problem));
      this.found = value;
    }
    return this.draw();
  }

  draw() {
    const open = this.found.filter(({ id, until }) => !undone.has(id) && epoch(until) > nowMs());
    for (const undo of open) {
      if (!this.buttons.has(undo.id)) this.buttons.set(undo.id, this.button(undo));
    }
    const buttons = open.map(({ id }) => this.buttons.get(id));
    show(this.place, buttons.length ? h("div", { class: "buttons", role: "group", "aria-label": "What can be undone" }, buttons) : null);
  }

  button(undo) {
    return undoButton(this.topic, { undo }, this.refresh, `Undo the ${undo.of} of ${clock(epoch(undo.opened_at))}`);
  }
}

/** The newest first; pages may be empty. Those behind many records are left to the command line. */
async function listed(topic, signal) {
  const undos = [];
  let before = "";
  for (let pages = 0; pages < PAGES_MAX && before !== null; pages += 1) {
    const page = await get(topicPath(topic, "/undos"), { before }, signal);
    undos.push(...page.undos);
    before = page.next_before;
  }
  return undos;
}
