// Keeps a view fresh, and shows how fresh it is: live, paused, or what was known when the server was last heard of.

import { Problem, Unreachable } from "./api.js";
import { nowMs } from "./clock.js";
import { h, show } from "./dom.js";
import { clock, epoch } from "./format.js";

const EVERY_MS = 2000;
const BACKOFF_MAX_MS = 10_000;

/**
 * Calls `view.refresh(signal)` again and again while the page is seen. What it resolves to may have `as_of`, the
 * server's own word for how old its answer is.
 */
export class Live {
  constructor(place, announce, banner) {
    this.place = place;
    this.announce = announce;
    this.banner = banner;
    this.isPaused = false;
    this.asOfMs = null;
    this.lostSinceMs = null;
    this.failures = 0;
    this.view = null;
    this.running = null;
    document.addEventListener("visibilitychange", () => !document.hidden && this.now());
  }

  /** Show this view from now on. */
  follow(view) {
    this.stop();
    this.view = view;
    this.asOfMs = null;
    this.banner(null);
    return this.now(true);
  }

  /** Show none, and ask nothing. */
  leave() {
    this.stop();
    this.view = null;
    this.lostSinceMs = null;
    this.failures = 0;
    this.banner(null);
    this.draw();
  }

  stop() {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
  }

  /** Refresh at once, also where updates are paused. */
  async now(isFirst = false) {
    if (!this.view || (this.isPaused && !isFirst && this.view.isStill)) return;
    this.stop();
    const running = (this.running = new AbortController());
    await this.refresh(this.view, running);
    if (this.running === running) this.schedule();
  }

  async refresh(view, running) {
    try {
      const answer = await view.refresh(running.signal);
      if (this.running === running) this.succeeded(epoch(answer?.as_of));
    } catch (error) {
      if (this.running === running) this.failed(error);
    }
    this.draw();
  }

  succeeded(asOfMs) {
    if (this.lostSinceMs !== null) this.announce("The server answers again.");
    this.asOfMs = Number.isNaN(asOfMs) ? nowMs() : asOfMs;
    this.lostSinceMs = null;
    this.failures = 0;
    this.banner(null);
  }

  failed(error) {
    this.failures += 1;
    if (error instanceof Problem) {
      this.lostSinceMs = null;
      this.banner(error);
    } else if (error instanceof Unreachable) {
      if (this.lostSinceMs === null) this.announce("The server does not answer. What is shown is old.");
      this.lostSinceMs ??= nowMs();
      this.banner(error);
    } else if (error.name !== "AbortError") {
      console.error(error);
      this.banner(new Problem({ title: "The console cannot make sense of the answer", status: "client", detail: error.message }));
    }
  }

  schedule() {
    clearTimeout(this.timer);
    if (this.isPaused || document.hidden || this.view.isStill) return;
    const waitMs = this.failures ? Math.min(EVERY_MS * 2 ** (this.failures - 1), BACKOFF_MAX_MS) : EVERY_MS;
    this.timer = setTimeout(() => this.now(), waitMs);
  }

  toggle() {
    this.isPaused = !this.isPaused;
    this.announce(this.isPaused ? "Updates are paused." : "Updates go on.");
    if (this.isPaused) this.stop();
    else this.now();
    this.draw();
  }

  draw() {
    const state = this.lostSinceMs !== null ? "lost" : this.isPaused ? "paused" : "live";
    document.getElementById("main").toggleAttribute("data-stale", state === "lost");
    const isStill = !this.view || (this.view.isStill && state === "live");
    if (isStill) return show(this.place);
    return show(
      this.place,
      h("span", { class: `pulse is-${state}`, "aria-hidden": "true" }),
      h("span", { class: "live-text" }, this.text(state)),
      h("button", { type: "button", class: "quiet", onclick: () => this.toggle() }, this.isPaused ? "Resume" : "Pause",
        h("span", { class: "hidden" }, " updates")),
    );
  }

  text(state) {
    const asOf = this.asOfMs === null ? "" : `as of ${clock(this.asOfMs)}`;
    if (state === "lost") return `No answer since ${clock(this.lostSinceMs)}`;
    if (state === "paused") return `Paused, ${asOf || "nothing read yet"}`;
    return asOf ? `Live, ${asOf}` : "Reading";
  }
}
