// The console: which view an address means, and everything around it.

import { get, onUnauthenticated, Problem, readOffer, useToken } from "./api.js";
import { learn, skewMs } from "./clock.js";
import { h, show } from "./dom.js";
import { duration, epoch, zoneName } from "./format.js";
import { Live } from "./live.js";
import { problemBox } from "./parts.js";
import { loginView, readSession, resume, showSession } from "./session.js";
import { setUpTheme, setUpZone } from "./settings.js";
import { deadView } from "./views/dead.js";
import { messageView } from "./views/message.js";
import { messagesView } from "./views/messages.js";
import { operatorsView } from "./views/operators.js";
import { quotasView } from "./views/quotas.js";
import { sendView } from "./views/send.js";
import { topicView } from "./views/topic.js";
import { topicsView } from "./views/topics.js";

const VIEWS = [
  [/^$/, "topics", topicsView],
  [/^topics\/([^/]+)$/, "topics", topicView],
  [/^topics\/([^/]+)\/dead$/, "topics", deadView],
  [/^messages$/, "messages", messagesView],
  [/^messages\/([^/]+)$/, "messages", messageView],
  [/^send$/, "send", sendView],
  [/^operators$/, "operators", operatorsView],
  [/^quotas$/, "quotas", quotasView],
];

const main = document.getElementById("main");
const announcer = document.getElementById("announcer");
const banner = h("div", { class: "banner" });
const body = h("div", { class: "view" });
let live;
let context = null; // what views are handed; null before the server knows who asks

/** `#/messages?topic=orders`: the view of a path, its parameters, its query. */
function wanted() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  for (const [pattern, section, view] of VIEWS) {
    const found = pattern.exec(path);
    if (found) return { section, view, parameters: found.slice(1).map(decoded), query: new URLSearchParams(query) };
  }
  return { section: "", view: unknownView, parameters: [path], query: new URLSearchParams() };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function unknownView(_, path) {
  const element = h("section", null, h("h1", { tabindex: "-1" }, "There is no such page"), h("p", null, h("code", null, path)));
  return { title: "No such page", element, isStill: true, refresh: async () => ({}) };
}

function open(isFirst = false) {
  const { section, view, parameters, query } = wanted();
  const made = view({ ...context, query }, ...parameters);
  for (const link of document.querySelectorAll("nav [data-section]")) {
    if (link.dataset.section === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  put(made);
  live.follow(made);
  if (isFirst) return;
  window.scrollTo(0, 0);
  (made.element.querySelector("h1") ?? main).focus();
}

function put({ title, element }) {
  document.title = `${title} \u00b7 Delayline`;
  body.replaceChildren(element);
}

function showBanner(error) {
  show(banner, error === null ? null : error instanceof Problem ? problemBox(error) : unreachable());
}

function unreachable() {
  return h("div", { class: "notice problem" },
    h("p", { class: "notice-title" }, "The server does not answer"),
    h("p", null, "What is shown is what was known before. It is asked again all the time."));
}

async function readInfo() {
  const askedMs = Date.now();
  const info = await get("v1/info");
  learn(epoch(info.now), askedMs, Date.now());
  return info;
}

function showInstallation(info) {
  const place = document.getElementById("installation");
  if (!info) return;
  const skew = skewMs();
  show(place,
    h("span", null, `Delayline ${info.version}`),
    h("span", null, "namespace ", h("code", null, info.namespace)),
    h("span", null, `delivers ${info.guarantee}`),
    h("span", null, `up to ${info.horizon_max} ahead`),
    h("span", null, `times in ${zoneName()}`),
    skew ? h("span", { class: "warn" }, `this machine's clock is ${duration(skew)} ${skew > 0 ? "ahead" : "behind"}`) : null);
}

/** The view that the address means; the server may refuse to answer, because it does not know who asks. */
async function enter(offer, loggedIn = null, why = null) {
  let isRefused = false;
  onUnauthenticated(() => {
    isRefused = true;
  });
  const [info, session] = await Promise.all([readInfo().catch(() => null), loggedIn ?? readSession().catch(() => null)]);
  if (isRefused) return askForKey(offer, why);
  onUnauthenticated(() => askForKey(offer, "Your session is over. Log in again to go on."));
  context = {
    offer,
    info,
    refresh: () => live.now(),
    go: (address) => {
      location.hash = address;
    },
  };
  showInstallation(info);
  showSession(document.getElementById("session"), session, () => askForKey(offer, "You are logged out."));
  return open(loggedIn === null);
}

/** In the place of the view, whose address stays. */
function askForKey(offer, why) {
  onUnauthenticated(() => {}); // a wrong key is the form's business
  context = null;
  useToken(null);
  live.leave();
  showSession(document.getElementById("session"), null);
  show(document.getElementById("installation"));
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close("no");
  const made = loginView(why, (session) => enter(offer, session));
  put(made);
  made.element.querySelector("input").focus();
}

async function start() {
  const why = resume();
  main.replaceChildren(banner, body);
  show(body, h("p", { class: "loading" }, "Asking the server\u2026"));
  const announce = (text) => {
    announcer.textContent = text;
  };
  live = new Live(document.getElementById("live"), announce, showBanner);
  setUpTheme(document.getElementById("theme"));
  setUpZone(document.getElementById("zone"), () => {
    for (const place of document.querySelectorAll(".zone-name")) place.textContent = zoneName();
    if (context === null) return;
    showInstallation(context.info);
    if (!live.view.isWrittenIn) open(true);
  });
  document.querySelector(".skip").onclick = (event) => {
    event.preventDefault();
    main.focus();
  };
  window.addEventListener("hashchange", () => context && open());
  await enter(await readOffer(), null, why);
}

start();
