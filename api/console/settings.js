// What a person chose for this browser: theme and zone. Where nothing may be stored, the choice lasts as the page does.

import { h } from "./dom.js";
import { chooseZone } from "./format.js";

const THEMES = ["auto", "light", "dark"];

export function setUpTheme(button) {
  const root = document.documentElement;
  const draw = () => {
    label(button, "Theme: ", root.dataset.theme ?? "auto");
  };
  button.onclick = () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "auto") + 1) % THEMES.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    remember("delayline.theme", next);
    draw();
  };
  draw();
}

export function setUpZone(button, changed) {
  let zone = remembered("delayline.zone") === "utc" ? "utc" : "local";
  const draw = () => {
    chooseZone(zone);
    label(button, "Times: ", zone === "utc" ? "UTC" : "local");
  };
  draw();
  button.onclick = () => {
    zone = zone === "utc" ? "local" : "utc";
    remember("delayline.zone", zone);
    draw();
    changed();
  };
}

/** Where there is little room, what it is about is left to those who cannot see it. */
function label(button, about, chosen) {
  button.replaceChildren(h("span", null, about), chosen);
}

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // storage is closed to this page
  }
}
