// Quotas: who may use how much, and who has.

import { get } from "../api.js";
import { h, show } from "../dom.js";
import { count } from "../format.js";
import { badge, broken, empty, loading, problemBox, table } from "../parts.js";
import { optional } from "../shapes.js";

export function quotasView() {
  const place = h("div", null, loading("quotas"));
  const read = optional((signal) => get("v1/quotas", {}, signal));
  return {
    title: "Quotas",
    element: h("section", { class: "quotas" }, h("h1", { tabindex: "-1" }, "Quotas"), place),
    async refresh(signal) {
      const { value: known, problem } = await read(signal);
      if (problem && !problem.isUnavailable) throw problem;
      this.isStill = Boolean(problem);
      if (problem) show(place, problemBox(problem));
      else show(place, used(known), given(known));
      return {};
    },
  };
}

function used({ principals, complete, over_http: overHttp }) {
  return [
    h("h2", null, "What is used, in this process"),
    overHttp ? null : h("p", { class: "fine" }, "Over HTTP no quota counts: no key is needed here."),
    principals.length === 0 ? empty("No principal with a quota has asked for anything since the start.") : table("Principals", [
      { name: "Principal", kind: "main", of: (one) => broken(one.principal) },
      { name: "By", of: (one) => one.entrance },
      { name: "Limit", kind: "value", of: ({ limits }) => listed(limits) },
      { name: "Used now", kind: "value", of: ({ used: buckets }) => buckets.map(bucket) },
      { name: "Throttled", kind: "number", of: (one) => count(one.throttled) },
    ], principals, (one) => `${one.entrance} ${one.principal}`),
    complete ? null : h("p", { class: "fine" }, "There are more principals than are shown."),
  ];
}

function bucket({ limit, used: missing, burst }) {
  const share = `${count(missing)} of ${count(burst)} `;
  return h("div", null, h("code", null, limit), " ", share, missing > burst ? badge("debt", "in debt") : null);
}

function listed(limits) {
  const pairs = Object.entries(limits);
  return pairs.length === 0 ? "none" : pairs.map(([name, value]) => h("div", null, h("code", null, name), ` ${value}`));
}

function given({ quotas }) {
  return [
    h("h2", null, "Quotas of the file, the first that matches first"),
    quotas.length === 0 ? empty("The file of rules has no quotas.") : table("Quotas", [
      { name: "Principals", kind: "main", of: ({ principals }) => broken(principals.join(", ")) },
      { name: "Limits", kind: "value", of: ({ limits }) => listed(limits) },
    ], quotas, ({ principals }) => principals.join(" ")),
  ];
}
