// Dialogs: the browser's own <dialog>, which keeps the focus inside and gives it back where it came from.

import { h } from "./dom.js";
import { submitting } from "./forms.js";

/**
 * Ask in a dialog. `body` are nodes, `act(form)` does it and throws what the server says; resolves to whether it was
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
