// Fields, and the server's errors about them: a fault is shown next to the field that its pointer names.

import { h, show } from "./dom.js";
import { zoneName } from "./format.js";
import { problemBox } from "./parts.js";
import { Problem, Unreachable } from "./api.js";

let numbers = 0;

/**
 * A labelled control. `pointer` is where its value stands in the body (RFC 6901), or `?name` for a query parameter.
 * `make(attributes)` makes the control.
 */
export function field(label, pointer, make, { hint, wide } = {}) {
  const id = `field-${++numbers}`;
  const described = hint ? `${id}-hint ${id}-fault` : `${id}-fault`;
  return h("div", { class: wide ? "field wide" : "field", "data-pointer": pointer },
    h("label", { for: id }, label),
    make({ id, name: pointer, "aria-describedby": described }),
    hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null,
    h("p", { class: "fault", id: `${id}-fault` }));
}

export function input(attributes = {}) {
  return (given) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...given, ...attributes });
}

export function textarea(attributes = {}) {
  return (given) => h("textarea", { rows: 5, spellcheck: "false", ...given, ...attributes });
}

export function select(options, chosen, attributes = {}) {
  return (given) => h("select", { ...given, ...attributes }, options.map(([value, text]) =>
    h("option", { value, selected: value === chosen }, text)));
}

/** One of several; each of `options`: `[value, text]`. */
export function choice(legend, name, options, chosen, onchange) {
  return h("fieldset", { class: "choice" }, h("legend", null, legend), options.map(([value, text, disabled]) =>
    h("label", null,
      h("input", { type: "radio", name, value, checked: value === chosen, disabled, onchange }), h("span", null, text))));
}

/** For moments: the zone they are meant in. */
export function zoneHint() {
  return ["In ", h("span", { class: "zone-name" }, zoneName()), "."];
}

export function valueOf(form, pointer) {
  return form.querySelector(`[data-pointer="${CSS.escape(pointer)}"] :is(input, textarea, select)`)?.value ?? "";
}

export function clearFaults(form) {
  for (const place of form.querySelectorAll(".fault")) place.textContent = "";
  for (const control of form.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
}

/**
 * Show the errors of `problem` at their fields, and the whole document in `place`. The first field at fault gets
 * the focus.
 */
export function showProblem(form, place, problem) {
  const first = (problem.document.errors ?? []).map((fault) => markFault(form, fault)).find(Boolean);
  show(place, problemBox(problem, true));
  first?.focus();
}

function markFault(form, { pointer, detail }) {
  const found = fieldAt(form, pointer ?? "");
  if (!found) return null;
  const place = found.querySelector(".fault");
  place.textContent = place.textContent ? `${place.textContent}; ${detail}` : detail;
  const control = found.querySelector("input, textarea, select");
  control.setAttribute("aria-invalid", "true");
  return control;
}

/** The field that a pointer names, or the one around it: `/headers/1/value` is shown at `/headers`. */
function fieldAt(form, pointer) {
  for (let at = pointer; at; at = at.slice(0, Math.max(at.lastIndexOf("/"), 0))) {
    const found = form.querySelector(`[data-pointer="${CSS.escape(at)}"]`);
    if (found) return found;
  }
  return null;
}

const LOOK_FIRST = "It is unknown whether the server did what you asked for. Look before you ask again.";

/**
 * Do what a form asks, once at a time; errors are shown in `place`, and where no answer comes, `advice`. True
 * where it went well.
 */
export async function submitting(form, place, act, advice = LOOK_FIRST) {
  const buttons = [...form.querySelectorAll("button[type=submit]")];
  if (form.dataset.busy) return false;
  form.dataset.busy = "yes";
  for (const button of buttons) button.setAttribute("aria-disabled", "true");
  clearFaults(form);
  show(place);
  try {
    await act();
    return true;
  } catch (error) {
    if (error instanceof Problem) showProblem(form, place, error);
    else if (error instanceof Unreachable) show(place, lost(error, advice));
    else throw error;
    return false;
  } finally {
    delete form.dataset.busy;
    for (const button of buttons) button.removeAttribute("aria-disabled");
  }
}

function lost(error, advice) {
  return h("div", { class: "notice problem", role: "alert" },
    h("p", { class: "notice-title" }, "No answer"),
    h("p", null, `There is ${error.message}. ${advice}`));
}
