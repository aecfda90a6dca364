// Dead letters of a topic: why they could not be delivered, and sending them again.

import { get, post } from "../api.js";
import { whenShort } from "../clock.js";
import { ask, toast } from "../dialogs.js";
import { h, show } from "../dom.js";
import { counted, UNKNOWN } from "../format.js";
import { action, broken, empty, incomplete, keyText, loading, messageLink, problemBox, table } from "../parts.js";
import { settled, topicPath } from "../shapes.js";

export function deadView({ offer, refresh }, name) {
  const place = h("div", null, loading("dead letters"));
  const actions = h("div", { class: "buttons" });
  return {
    title: `Dead letters of ${name}`,
    element: h("section", null,
      h("div", { class: "heading" },
        h("div", null,
          h("p", { class: "crumb" }, "Topic ", h("a", { href: `#/topics/${encodeURIComponent(name)}` }, broken(name))),
          h("h1", { tabindex: "-1" }, "Dead letters")),
        actions),
      place),
    async refresh(signal) {
      const { value: list, problem } = await settled(get(topicPath(name, "/dead"), {}, signal));
      if (problem) {
        if (!problem.isUnavailable) throw problem;
        this.isStill = true;
        show(place, problemBox(problem));
        return {};
      }
      show(place, incomplete(list), letters(list.messages));
      return list;
    },
  };
}

function letters(found) {
  if (found.length === 0) return empty("No dead letters: everything could be delivered.");
  return table("Dead letters", [
    { name: "Message", kind: "main", of: (letter) => messageLink(letter.message_id) },
    { name: "Reason", of: (letter) => letter.reason ?? UNKNOWN },
  ], found, (letter) => letter.message_id);
}
