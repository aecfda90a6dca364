// Dialogs: the browser's own <dialog>, which keeps the focus inside and gives it back where it came from.

import { Problem, Unreachable } from "./api.js";
import { h, show } from "./dom.js";
import { submitting } from "./forms.js";
import { incomplete } from "./parts.js";

const AGAIN_MS = 1000;

/**
 * Ask in a dialog. `body` are nodes, `act(form)` does it and throws the server's error; resolves to whether it was
 * done. `isReady` (optional) is a promise to wait for before it can be confirmed; it may fill the body.
 */
export function ask({ title, body, confirm, act, isDangerous = false, isReady = null, setUp = null }) {
  return new Promise((resolve) => {
    const from = document.activeElement;
    const place = h("div", { class: "answer" });
    const yes = h("button", { type: "submit", class: isDangerous ? "danger" : "primary" }, confirm);
    const no = h("button", { type: "button", onclick: () => dialog.close("no") }, "Leave it");
    const form = h("form", { method: "dialog", novalidate: true },
      h("h2", { id: "dialog-title" }, title), body, place, h("div", { class: "buttons" }, yes, no));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    form.onsubmit = async (event) => {
      event.preventDefault();
      if (yes.disabled) return;
      if (await submitting(form, place, () => act(form))) dialog.close("yes");
    };
    dialog.onclose = () => {
      dialog.remove();
      if (from?.isConnected) from.focus();
      resolve(dialog.returnValue === "yes");
    };
    document.getElementById("dialogs").append(dialog);
    setUp?.({ form, yes, place });
    dialog.showModal();
    if (isReady) waitFor(isReady, yes, form, place);
    else (form.querySelector("input, select, textarea") ?? no).focus();
  });
}

async function waitFor(isReady, yes, form, place) {
  yes.disabled = true;
  yes.disabled = !(await submitting(form, place, isReady));
}

/**
 * How much a dialog is about: the server is asked before the person is. `read()` resolves to its answer, `text(answer)`
 * formats it. Part of a dialog's body, and its `isReady`. A count that is not whole can be confirmed; it is asked for again
 * every second, until it is whole or the dialog is closed.
 */
export function counting(read, text) {
  const count = h("p", { class: "countdown", role: "status" }, "Counting\u2026");
  const missing = h("div", { class: "answer" });
  const draw = (answer) => {
    show(count, text(answer));
    show(missing, incomplete(answer, "It is asked for again every second."));
    return answer.complete !== false;
  };
  const isReady = async () => {
    if (!draw(await read())) untilWhole(missing, read, draw);
  };
  return { body: [count, missing], isReady };
}

async function untilWhole(place, read, draw) {
  let isWhole = false;
  while (!isWhole) {
    await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
    if (!place.isConnected) return;
    if (place.closest("form").dataset.busy) continue; // what is being done changes the count
    isWhole = await read().then(draw, unlessUnexpected);
  }
}

/** What was counted before stays, and the next second asks again. */
function unlessUnexpected(error) {
  if (!(error instanceof Problem || error instanceof Unreachable)) throw error;
  return false;
}

/** A line that can be read out: what has been done. */
export function toast(...content) {
  const place = document.getElementById("toasts") ?? made();
  const line = h("div", { class: "toast" }, h("p", null, content),
    h("button", { type: "button", class: "quiet", onclick: () => line.remove() }, "Dismiss"));
  place.append(line);
  while (place.children.length > 3) place.firstElementChild.remove();
}

function made() {
  const place = h("div", { id: "toasts", role: "status" });
  document.body.append(place);
  return place;
}
