// Dead letters of a topic: why they could not be delivered, and sending them again.

import { get, post } from "../api.js";
import { nowMs, whenShort } from "../clock.js";
import { ask, toast } from "../dialogs.js";
import { h, show } from "../dom.js";
import { counted } from "../format.js";
import { choice, field, input, valueOf } from "../forms.js";
import { action, badge, broken, empty, headersTable, keyText, loading, messageLink, paging, payload, problemBox, table } from "../parts.js";
import { optional, topicPath } from "../shapes.js";

const PAGE_SIZE = 50;

export function deadView({ offer, refresh }, name) {
  const place = h("div", null, loading("dead letters"));
  const actions = h("div", { class: "buttons" });
  const pages = [""];
  const chosen = new Set();
  const read = optional((signal) => get(topicPath(name, "/dead"), { limit: PAGE_SIZE, before: pages.at(-1) }, signal));
  const forget = () => {
    chosen.clear();
    for (const box of place.querySelectorAll("input[type=checkbox]")) box.checked = false;
  };
  const drawActions = () => {
    const isOffered = offer.has("POST /v1/topics/{}/dead:redrive");
    const again = async (asking) => {
      if (!(await asking)) return;
      forget();
      drawActions();
      await refresh();
    };
    show(actions,
      chosen.size ? action(`Send ${chosen.size} again\u2026`, isOffered, () => again(redriveChosen(name, [...chosen]))) : null,
      action("Send all again\u2026", isOffered, () => again(redriveAll(name))));
  };
  const choose = (event) => {
    if (event.target.checked) chosen.add(event.target.value);
    else chosen.delete(event.target.value);
    drawActions();
  };
  return {
    title: `Dead letters of ${name}`,
    element: h("section", { class: "dead" },
      h("div", { class: "heading" },
        h("div", null,
          h("p", { class: "crumb" }, "Topic ", h("a", { href: `#/topics/${encodeURIComponent(name)}` }, broken(name))),
          h("h1", { tabindex: "-1" }, "Dead letters")),
        actions),
      place),
    async refresh(signal) {
      const { value: page, problem } = await read(signal);
      if (problem && !problem.isUnavailable) throw problem;
      this.isStill = Boolean(problem);
      if (problem) show(place, problemBox(problem));
      else {
        drawActions();
        show(place, letters(page, chosen, choose), paging(pages, page.next_before, refresh));
      }
      return {};
    },
  };
}

function letters({ messages, next_before: next }, chosen, choose) {
  if (messages.length === 0) {
    return empty(next ? "None among those that were looked at. There are older ones: go on to the next page." : "No dead letters: everything could be delivered.");
  }
  return table("Dead letters", [
    { name: "Choose", kind: "tick", of: (letter) => h("input", { type: "checkbox", value: letter.id, "aria-label": `Choose ${letter.message_id}`, checked: chosen.has(letter.id), onchange: choose }) },
    { name: "Died", kind: "short", of: (letter) => whenShort(letter.dead_at) },
    { name: "Message", kind: "main", of: (letter) => [messageLink(letter.message_id), carried(letter)] },
    { name: "Why", kind: "value", of: (letter) => [badge("dead", letter.error_code), " ", letter.reason] },
    { name: "Key", of: keyText },
    { name: "Due", kind: "number", of: (letter) => whenShort(letter.due_at) },
  ], messages, (letter) => letter.id);
}

function carried(letter) {
  return h("details", null, h("summary", null, "Value and headers"),
    payload("Value", letter.value, letter.value_base64), headersTable(letter.headers));
}

const WAYS = [["now", "At once"], ["delay", "After a delay"]];

function timing() {
  const place = h("div");
  const draw = (how) => show(place, how === "delay"
    ? field("Delay", "/schedule/delay", input({ value: "10m" }), { hint: "Such as 90s, 1h30m, 1.5d or PT1H." }) : null);
  return [choice("When", "redrive-when", WAYS, "now", (event) => draw(event.target.value)), place];
}

function scheduled(form, body) {
  const delay = valueOf(form, "/schedule/delay");
  return delay ? { ...body, schedule: { delay } } : body;
}

const CAUTION = "Dead letters stay where they are: what is sent again twice, arrives twice. It carries the header delayline-redriven.";

function redriveChosen(name, ids) {
  return ask({
    title: `Send ${counted(ids.length, "dead letter")} again?`,
    body: [timing(), h("p", { class: "fine" }, CAUTION)],
    confirm: "Send again",
    act: async (form) => {
      const { redriven, not_found: missing } = await post(topicPath(name, "/dead:redrive"), scheduled(form, { ids }));
      toast(`${counted(redriven, "letter")} sent again`, missing.length ? `, ${missing.length} not found` : "", ".");
    },
  });
}

/** In as many requests as it takes; those that die meanwhile are not meant. */
function redriveAll(name) {
  const until = Math.floor(nowMs());
  const found = h("p", { class: "countdown", role: "status" }, "Counting\u2026");
  return ask({
    title: `Send all dead letters of ${name} again?`,
    body: [found, timing(), h("p", { class: "fine" }, CAUTION)],
    confirm: "Send all again",
    isReady: async () => {
      const { matched, next_after: more } = await post(topicPath(name, "/dead:redrive"), { all: true, until, dry_run: true });
      show(found, more ? `More than ${counted(matched, "letter")}.` : `${counted(matched, "letter")}.`);
    },
    act: async (form) => {
      let [sent, after] = [0, null];
      do {
        const body = scheduled(form, { all: true, until, ...(after ? { after } : {}) });
        const answer = await post(topicPath(name, "/dead:redrive"), body);
        sent += answer.redriven;
        after = answer.next_after;
        show(found, `${counted(sent, "letter")} sent again.`);
      } while (after);
      toast(`${counted(sent, "letter")} sent again.`);
    },
  });
}
