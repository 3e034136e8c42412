// SPDX-License-Identifier: Apache-2.0
// The time line: mean use over time, what happened as marks, and the moment that is shown.

import { css, percent } from "./look.js";

// Of what happened; reroutes are lines. PFC's pauses are bars, a deadlock found is a block.
const MARKS = { fail: "✕", heal: "○", load: "▶", send: "▶", impair: "▽", routes: "↻", pfc: "‖", deadlock: "■" };
const FRAME_MS = 33;  // more pictures a second are not seen
const PLAYED_S = 20;  // in which a recorded run is over at speed 1

export class TimeLine {
  constructor(canvas, output, buttons, store, changed, stopped = () => {}) {
    Object.assign(this, { canvas, output, buttons, store, changed, stopped, speed: 1, timer: null });
    this.context = canvas.getContext("2d");
    new ResizeObserver(() => this.draw()).observe(canvas);
    const point = (event) => this.show(this.nearest(event.offsetX / canvas.clientWidth));
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); point(event); });
    canvas.addEventListener("pointermove", (event) => event.buttons && point(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    buttons.pause.addEventListener("click", () => this.toggle());
    buttons.live.addEventListener("click", () => this.live());
    buttons.speed.addEventListener("change", () => { this.speed = Number(buttons.speed.value); if (this.timer) this.play(); });
  }

  // Places on the line go by time: samples of a run need not be equally far apart.
  part(number) {
    const { samples } = this.store, first = samples[0].t, last = samples.at(-1).t;
    return last > first ? (samples[number].t - first) / (last - first) : 1;
  }

  nearest(part) {
    const { samples } = this.store;
    let low = 0, high = samples.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.part(middle) < part) low = middle + 1; else high = middle;
    }
    return low && part - this.part(low - 1) < this.part(low) - part ? low - 1 : low;
  }

  seek(t) {
    const { samples } = this.store;
    if (!samples.length) return;
    const first = samples[0].t, last = samples.at(-1).t;
    this.show(this.nearest(last > first ? (t - first) / (last - first) : 0));
  }

  begin() { if (this.store.samples.length > 1) { this.store.at = 0; this.play(); } }

  // Seconds on the wall for a second of the samples.
  get slowness() {
    if (this.store.state.kind !== "run") return 1 / this.speed;
    const { samples } = this.store, length = samples.at(-1).t - samples[0].t;
    return PLAYED_S / Math.max(length, 1e-12) / this.speed;
  }

  get shown() { return this.store.at ?? this.store.samples.length - 1; }

  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (by) this.show(this.shown + by);
    else if (event.key === "Home") this.show(0);
    else if (event.key === "End") this.live();
    else return;
    event.preventDefault();
  }

  show(number) {
    if (!this.store.samples.length) return;
    this.stop();
    this.store.at = Math.max(0, Math.min(this.store.samples.length - 1, number));
    this.update();
  }

  // A recorded run has an end, where it stands still; what goes on has none.
  get ends() { return this.store.state.kind === "run" && !this.store.state.live; }

  toggle() {  // live or playing: stands still; standing still: goes on from there
    if (this.ends && !this.timer && this.shown >= this.store.samples.length - 1) this.begin();
    else if (this.store.at === null) this.show(this.shown);
    else if (this.timer) { this.stop(); this.update(); }
    else this.play();
  }

  play() {
    this.stop();
    const samples = this.store.samples, step = () => {
      const at = this.shown;
      if (!samples.length || at >= samples.length - 1) { if (this.ends) { this.stop(); this.update(); } else this.live(); return; }
      let next = at + 1;
      const wait = () => 1000 * (samples[next].t - samples[at].t) * this.slowness;
      while (wait() < FRAME_MS && next < samples.length - 1) next += 1;
      this.store.at = next;
      this.timer = setTimeout(step, Math.min(2000, wait()));
      this.update();
    };
    this.timer = setTimeout(step, 0);
  }

  stop() { clearTimeout(this.timer); this.timer = null; }

  live() { this.stop(); this.store.at = null; this.update(); }

  get still() { return (this.store.at !== null || this.ends) && !this.timer; }

  update() {
    const { still } = this;
    this.buttons.pause.textContent = still ? "Play" : "Pause";
    this.buttons.pause.setAttribute("aria-pressed", String(still));
    this.buttons.live.disabled = this.store.at === null;
    this.buttons.live.textContent = this.ends ? "End" : "Live";
    this.changed();
    if (still) this.stopped();
  }

  draw() {
    const { canvas, context: c, store } = this, ratio = devicePixelRatio || 1;
    const wide = canvas.clientWidth, high = canvas.clientHeight, samples = store.samples;
    if (!wide || !samples.length) return;
    canvas.width = wide * ratio; canvas.height = high * ratio;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const place = (i) => this.part(i) * (wide - 2) + 1;
    const means = samples.map((s) => s.use.reduce((a, b) => a + b, 0) / s.use.length), most = Math.max(0.05, ...means);
    document.getElementById("scale").textContent = `mean use, at most ${percent(most)}\nfrom ${store.clock(samples[0].t)}`;
    c.fillStyle = css("--idle");
    c.beginPath(); c.moveTo(place(0), high);
    means.forEach((mean, i) => c.lineTo(place(i), high - (high - 14) * (mean / most)));
    c.lineTo(place(samples.length - 1), high); c.fill();
    c.font = "12px system-ui, sans-serif"; c.textAlign = "center"; c.textBaseline = "top";
    const front = css("--front"), bad = css("--bad"), soft = css("--soft");
    samples.forEach((sample, i) => sample.events.forEach((event) => {
      c.fillStyle = soft;  // reroutes are many: a line as high as their number, a logarithm
      const tall = 4 * Math.log2(1 + (event.count ?? 0));
      if (event.kind === "reroute") c.fillRect(place(i), high - tall, 1, tall);
    }));
    samples.forEach((sample, i) => sample.events.forEach((event) => {
      c.fillStyle = event.kind === "fail" || event.kind === "deadlock" ? bad : front;
      if (MARKS[event.kind]) c.fillText(MARKS[event.kind], Math.min(wide - 6, Math.max(6, place(i))), 0);
    }));
    c.fillStyle = css("--accent");
    c.fillRect(place(this.shown) - 1, 0, 2, high);
    const now = store.now;
    this.output.textContent = store.at === null && !this.ends ? `live, ${store.clock(now.t)}` : store.clock(now.t);
    canvas.setAttribute("aria-valuemin", "0");
    canvas.setAttribute("aria-valuemax", String(samples.length - 1));
    canvas.setAttribute("aria-valuenow", String(this.shown));
    canvas.setAttribute("aria-valuetext", store.clock(now.t));
  }
}
