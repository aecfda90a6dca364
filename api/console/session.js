// Login: a key is exchanged for a cookie that no script can read. The page forgets the key at once.

import { get, Problem, request, Unreachable, useToken } from "./api.js";
import { toast } from "./dialogs.js";
import { h, show } from "./dom.js";
import { field, input, submitting, valueOf } from "./forms.js";

const PATH = "v1/session";
const KEY = "/key";
const LOOKS_RIGHT = /^[\x21-\x7e]+$/; // what a header can carry; the server knows what a key is

/** Who is logged in; null where no session is in use. Its token goes with every request from now on. */
export async function readSession() {
  return used(await get(PATH));
}

function used(session) {
  useToken(session.csrf_token);
  return session.csrf_token === null ? null : session;
}

async function logIn(key) {
  if (!LOOKS_RIGHT.test(key)) throw refused({ status: 401, detail: "this is no key: a key begins with dlk_" });
  try {
    return used((await request("POST", PATH, { headers: { authorization: `Bearer ${key}` } })).body);
  } catch (error) {
    throw error instanceof Problem ? refused(error.document) : error;
  }
}

/** In words of the form: it is the key that was refused, whatever the server calls it. */
function refused(document) {
  if (document.status === 429) return new Problem({ ...document, title: "Wait a minute, then try again" });
  if (document.status !== 401) return new Problem(document);
  return new Problem({ ...document, title: "The key was refused" });
}

/** A page with one field. `done(session)` is called after the login; `why` is a sentence, or null. */
export function loginView(why, done) {
  const place = h("div", { class: "answer" });
  const form = h("form", { novalidate: true, autocomplete: "off" },
    field("Key", KEY, input({ type: "password", required: true, autocapitalize: "off" }), {
      hint: ["It begins with ", h("code", null, "dlk_"), ". This page sends it once and does not keep it."],
    }),
    place,
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Log in")));
  form.onsubmit = async (event) => {
    event.preventDefault();
    const control = form.querySelector("input");
    const key = valueOf(form, KEY).trim();
    let session = null;
    const isIn = await submitting(form, place, async () => {
      session = await logIn(key);
    }, "Try again.");
    if (isIn) {
      control.value = "";
      done(session);
    } else control.focus();
  };
  const element = h("section", { class: "login" }, h("h1", { tabindex: "-1" }, "Log in"),
    why ? h("p", { class: "notice warn", role: "status" }, why) : null, form);
  return { title: "Log in", element };
}

/** The name of who is logged in, with a button to log out; nothing where no session is in use. */
export function showSession(place, session, loggedOut) {
  if (!session) return show(place);
  const logOut = async () => {
    try {
      await request("DELETE", PATH);
    } catch (error) {
      if (error.document?.status === 401) return; // it was over
      if (!(error instanceof Problem || error instanceof Unreachable)) throw error;
      toast(`It is unknown whether you are logged out: ${error.message}.`);
      return;
    }
    loggedOut();
  };
  return show(place,
    h("span", { class: "principal", title: "Who you are here" }, session.principal),
    h("button", { type: "button", class: "quiet", onclick: logOut }, "Log out"));
}
