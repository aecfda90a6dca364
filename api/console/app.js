// The console: which view an address means, and everything around it.

import { get, Problem, readOffer } from "./api.js";
import { learn, skewMs } from "./clock.js";
import { h, show } from "./dom.js";
import { duration, epoch, zoneName } from "./format.js";
import { Live } from "./live.js";
import { problemBox } from "./parts.js";
import { setUpTheme, setUpZone } from "./settings.js";
import { deadView } from "./views/dead.js";
import { messageView } from "./views/message.js";
import { messagesView } from "./views/messages.js";
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
];

const main = document.getElementById("main");
const announcer = document.getElementById("announcer");
const banner = h("div", { class: "banner" });
const body = h("div", { class: "view" });
let context;

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

function open(live, isFirst = false) {
  const { section, view, parameters, query } = wanted();
  const made = view({ ...context, query }, ...parameters);
  for (const link of document.querySelectorAll("nav [data-section]")) {
    if (link.dataset.section === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${made.title} \u00b7 Delayline`;
  body.replaceChildren(made.element);
  live.follow(made);
  if (isFirst) return;
  window.scrollTo(0, 0);
  (made.element.querySelector("h1") ?? main).focus();
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

async function start() {
  main.replaceChildren(banner, body);
  show(body, h("p", { class: "loading" }, "Asking the server\u2026"));
  const announce = (text) => {
    announcer.textContent = text;
  };
  const live = new Live(document.getElementById("live"), announce, showBanner);
  const [offer, info] = await Promise.all([readOffer(), readInfo().catch(() => null)]);
  context = {
    offer,
    info,
    refresh: () => live.now(),
    go: (address) => {
      location.hash = address;
    },
  };
  setUpTheme(document.getElementById("theme"));
  setUpZone(document.getElementById("zone"), () => {
    showInstallation(info);
    for (const place of document.querySelectorAll(".zone-name")) place.textContent = zoneName();
    if (!live.view.isWrittenIn) open(live, true);
  });
  showInstallation(info);
  document.querySelector(".skip").onclick = (event) => {
    event.preventDefault();
    main.focus();
  };
  window.addEventListener("hashchange", () => open(live));
  open(live, true);
}

start();
