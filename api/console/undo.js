// Undoing a purge, or a cancel of many, while that is possible.

import { LONG_MS, Problem, request, Unreachable } from "./api.js";
import { nowMs } from "./clock.js";
import { toast } from "./dialogs.js";
import { h } from "./dom.js";
import { clock, counted, epoch } from "./format.js";
import { topicPath } from "./shapes.js";

const SET_TIMEOUT_MAX_MS = 2 ** 31 - 1;

/** A button, where the server's answer has an `undo`; it goes when its time is over. `done()` is called after it. */
export function undoButton(topic, { undo }, done) {
  if (!undo) return null;
  const until = epoch(undo.until);
  const button = h("button", { type: "button", class: "undo", title: `Until ${clock(until)}` }, "Undo");
  button.onclick = async () => {
    button.disabled = true;
    if (await isUndone(topic, undo.id)) {
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
