// Login: a key is exchanged for a cookie that no script can read, and the page forgets the key at once; or an identity
// provider logs the person in, and sends the browser back here.

import { address, get, Problem, request, Unreachable, useToken } from "./api.js";
import { toast } from "./dialogs.js";
import { h, show } from "./dom.js";
import { field, input, submitting, valueOf } from "./forms.js";

const PATH = "v1/session";
const VIEW = "delayline.view"; // which view to go on with after a way over the identity provider
const FAILED = "#/login-failed"; // where the server sends a browser back to that was not logged in
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
  const provider = h("div", { class: "provider" });
  showProvider(provider);
  const element = h("section", { class: "login" }, h("h1", { tabindex: "-1" }, "Log in"),
    why ? h("p", { class: "notice warn", role: "status" }, why) : null, form, provider);
  return { title: "Log in", element };
}

/** A button where people may log in by an identity provider; nothing where they do not, or that is unknown. */
async function showProvider(place) {
  const { issuer } = await get(`${PATH}/logins`).catch(() => ({ issuer: null }));
  if (issuer === null) return;
  const leave = () => {
    keep(location.hash);
    location.assign(address(`${PATH}/login`));
  };
  show(place, h("button", { type: "button", onclick: leave }, `Log in with ${new URL(issuer).host}`));
}

function keep(view) {
  try {
    sessionStorage.setItem(VIEW, view);
  } catch {
    // the first view, then
  }
}

/** After a way over the identity provider: the address names the view again that was there before. Why the way led to
 * nothing; null where it did not. */
export function resume() {
  const hasFailed = location.hash === FAILED;
  if (location.hash === "" || hasFailed) history.replaceState(null, "", kept() ?? "#/");
  return hasFailed ? "The identity provider did not log you in. Try again, or look into the server's log." : null;
}

function kept() {
  try {
    const view = sessionStorage.getItem(VIEW);
    sessionStorage.removeItem(VIEW);
    return view?.startsWith("#/") ? view : null;
  } catch {
    return null; // the first view, then
  }
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
