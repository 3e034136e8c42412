// SPDX-License-Identifier: Apache-2.0
// A packet that was traced: its hops, and within a hop each step, with the P4 line, and headers before and after.

import { change, get } from "./net.js";
import { make, percent } from "./look.js";
import { pathFields } from "./panels.js";
import { along, firstTelling, outcomeText, says, shown, stateAfter } from "./trace.js";
import { PipelineGraph } from "./pipeline.js";
import { Builder } from "./build.js";

const AROUND = 7;

export class PacketView {
  constructor(page, stage) {
    this.page = page;
    this.graph = new PipelineGraph(stage, (id) => this.toNode(id));
    Object.assign(this, { stage, packet: null, hop: 0, step: 0, chosen: new Map(), whole: null, builder: null });
  }

  get program() { return this.page.kind === "program"; }
  get files() { return this.program && !this.whole.parser; }  // packets of trace files: there is no program

  async pipeline() {
    this.whole ??= await get("pipeline");
    return this.whole;
  }

  // Another program runs: its pipeline is asked for anew, a packet that is built keeps its bytes.
  renewed() {
    this.whole = null;
    this.packet = null;
    const { bytes, port } = this.builder ?? {};
    this.builder = null;
    this.kept = bytes && { bytes, port };
  }

  // -- what is shown ------------------------------------------------------------------------------------------

  // The parts of the panel. `given`: id, hop, step, fork of a packet; or source, target, sport, usid of one to follow.
  async parts(given) {
    const pipeline = await this.pipeline();
    this.graph.show(pipeline);
    if (!given.id) { this.packet = null; this.page.inside(false); }
    this.reply = this.page.answerOf("packet");
    if (given.id && String(this.packet?.id) !== given.id) await this.load(given);
    else if (given.source && given.target && given.way === "all" && await this.page.answer(this.reply, () => this.ways(given))) return [];
    this.body = make("div", { id: "packet" });
    const asking = this.files ? null : make("details", { "data-keep": "ask", id: "ask" }, make("summary", {}, this.program ? "Build a packet" : "Which packet"), ...this.forms(given, pipeline));
    if (asking) asking.open = !this.packet;
    this.draw();
    return [asking, await this.earlier(), this.body].filter(Boolean);
  }

  async load(given) {
    this.packet = await get("packet", { id: given.id });
    this.hop = Number(given.hop ?? 0);
    this.step = given.step === undefined ? null : Number(given.step) || 0;
    this.chosen = new Map((given.fork ?? "").split(";").filter(Boolean).map((part) => {
      const [hop, numbers] = part.split(":");
      return [Number(hop), numbers.split(".").map(Number)];
    }));
    this.hop = Math.min(Math.max(0, this.hop || 0), Math.max(0, this.packet.hops.length - 1));
    this.page.inside(this.packet.hops.length > 0 && (this.program || "hop" in given));
  }

  async earlier() {
    const listed = await get("packets");
    if (!listed.length) return null;
    const choice = make("select", { "aria-label": "packets that were traced", id: "traced" },
      ...(this.packet ? [] : [make("option", { value: "" }, "packets that were traced")]),
      ...listed.map(({ id, about }) => make("option", { value: id, selected: this.packet?.id === id }, `${id}: ${about}`)));
    choice.addEventListener("change", () => choice.value && this.page.go("packet", { id: choice.value }));
    return make("p", {}, choice);
  }

  forms(given, pipeline) {
    if (!this.builder) Object.assign(this.builder = new Builder(this, pipeline), this.kept);
    if (this.program) return [this.builder.element()];
    if (this.page.store.state.status.target === "bmv2") return [make("p", { id: "opaque" }, "BMv2’s switches cannot be inspected; those of the engine can: detour up --target engine.")];
    const fields = pathFields(this.page, given);
    const values = () => Object.fromEntries(fields.map((each) => [each.name, each.value.trim()]).filter(([, value]) => value));
    const form = make("form", { class: "row" }, ...fields, make("button", { type: "submit", id: "ways", title: "through a copy of the tables: nothing is sent" }, "Follow all ways"),
      this.button("Send one", "sendone", async () => {
        const { sport, ...rest } = values();
        await this.traced(change("trace", sport ? { ...rest, sport: Number(sport) } : rest));
      }),
      make("button", { type: "button", id: "take", onclick: () => this.page.answer(this.reply, () => this.builder.take(values())) }, "Build"), this.reply);
    form.addEventListener("submit", (event) => { event.preventDefault(); this.page.go("packet", { ...values(), way: "all" }); });
    return [form, this.builder.element()];
  }

  button(text, id, work) {
    const button = make("button", { type: "button", id, title: this.page.writable ? "" : "read-only: open the address with the token that `detour web` printed" }, text);
    button.disabled = !this.page.writable;
    button.addEventListener("click", async () => {
      button.disabled = true;
      await this.page.answer(button.form.querySelector("output"), work);
      button.disabled = !this.page.writable;
    });
    return button;
  }

  async traced(answer) { this.page.go("packet", { id: String((await answer).id), hop: "0" }); }

  async ways({ source, target, sport, usid }) {
    const query = Object.fromEntries(Object.entries({ source, target, sport, usid }).filter(([, value]) => value));
    const packet = await get("ways", query);
    this.page.replace("packet", { id: String(packet.id) });
  }

  // -- where the packet went ----------------------------------------------------------------------------------

  // Hops by the branches that are chosen: numbers of hops, and what becomes of the packet in the last one.
  way() {
    const taken = [], { hops } = this.packet;
    let number = hops.length ? 0 : -1;
    while (number >= 0 && !taken.some((hop) => hop.number === number)) {
      const line = along(hops[number].trace, this.chosen.get(number));
      taken.push({ number, ...line });
      number = this.next(number, line.outcome);
    }
    return taken;
  }

  next(number, outcome) {
    const { hops } = this.packet;
    if (this.files && outcome?.output && number + 1 < hops.length) return number + 1;
    if (!outcome?.output || this.program) return -1;
    const there = this.page.store.beyond(`${hops[number].switch}:${outcome.output.port}`);
    return hops.findIndex((hop, i) => i > number && there === `${hop.switch}:${hop.port}`);
  }

  draw() {
    if (!this.body) return;
    if (!this.packet) { this.body.replaceChildren(make("p", { class: "soft" }, this.program
      ? (this.files ? "Choose a packet." : "Choose headers and values, then trace the packet.") : "Follow a packet through the switches, line by line of P4.")); this.page.light([]); return; }
    if (!this.packet.hops.length) { this.body.replaceChildren(make("p", { class: "bad" }, this.packet.outcomes.map(ending).join("; "))); return; }
    const way = this.way();
    if (!way.some((hop) => hop.number === this.hop)) { this.hop = way[0].number; this.step = null; }
    this.line = way.find((hop) => hop.number === this.hop);
    this.step = Math.min(Math.max(0, this.step ?? firstTelling(this.line.events)), this.line.events.length - 1);
    this.places = this.graph.places.of(this.line.events);
    this.page.light(this.names(way), this.packet.hops[this.hop].switch);
    this.body.replaceChildren(...[this.chain(way), ...this.forks(), this.stepper(), ...this.event(), this.outcome(way)].filter(Boolean));
    this.graph.light(this.places, this.step);
    this.page.replace("packet", this.address(), true);
  }

  names(way) {
    const first = this.packet.hops[way[0].number], from = this.page.store.hostAt(`${first.switch}:${first.port}`);
    const last = way.at(-1), to = last.outcome?.output && this.page.store.hostAt(`${this.packet.hops[last.number].switch}:${last.outcome.output.port}`);
    return [from, ...way.map((hop) => this.packet.hops[hop.number].switch), to].filter(Boolean);
  }

  isHost(name) {
    return this.page.store.hosts.has(name);
  }

  address() {
    const fork = [...this.chosen].filter(([, numbers]) => numbers.some(Boolean)).map(([hop, numbers]) => `${hop}:${numbers.join(".")}`).join(";");
    return { id: String(this.packet.id), ...(this.page.isInside ? { hop: String(this.hop), step: String(this.step) } : {}), ...(fork ? { fork } : {}) };
  }

  chain(way) {
    const buttons = way.map(({ number }) => {
      const hop = this.packet.hops[number];
      const title = `comes by port ${hop.port}${hop.at_ns ? `, ${hop.at_ns} ns after it was sent` : ""}`;
      return make("button", { type: "button", title, "aria-pressed": String(number === this.hop && this.page.isInside), "data-hop": number, onclick: () => this.open(number) }, hop.switch);
    });
    const [first, last] = [this.names(way)[0], this.names(way).at(-1)];
    const ends = this.program ? [null, null] : [this.isHost(first) ? `${first} ▸ ` : null, this.isHost(last) ? ` ▸ ${last}` : null];
    const fraction = this.packet.hops[this.hop].fraction;
    return make("p", { id: "hops" }, ends[0], ...buttons.flatMap((button, i) => (i ? [" ▸ ", button] : [button])), ends[1],
      fraction === undefined ? null : make("span", { class: "soft" }, ` ${percent(fraction)} of the traffic comes to ${this.packet.hops[this.hop].switch}`));
  }

  open(number) {
    this.hop = number;
    this.step = null;
    this.page.inside(true);
    this.draw();
  }

  openSwitch(name) {  // by a click in the picture; whether the packet passes there
    const hop = this.packet && this.way().find((hop) => this.packet.hops[hop.number].switch === name);
    if (hop) this.open(hop.number);
    return Boolean(hop);
  }

  forks() {
    return this.line.forks.map((fork, number) => {
      const options = fork.branches.map((branch, i) => make("option", { value: i, selected: i === fork.taken }, fork.all || branch.fraction === null ? branch.label : `${branch.label} (${percent(branch.fraction)})`));
      const choice = make("select", { class: "fork", "aria-label": `fork: ${fork.reason}` }, ...options);
      choice.addEventListener("change", () => {
        const numbers = this.line.forks.map((each) => each.taken).slice(0, number + 1);
        numbers[number] = Number(choice.value);
        this.chosen.set(this.hop, numbers);
        this.draw();
      });
      return make("p", { class: "fork" }, `${fork.all ? "all of" : "one of"} (${fork.reason}): `, choice);
    });
  }

  // -- steps --------------------------------------------------------------------------------------------------

  stepper() {
    const { events } = this.line, go = (to) => () => this.go(to);
    const button = (text, label, to, key) => make("button", { type: "button", "aria-label": label, title: `${label} (${key})`, onclick: go(to) }, text);
    const slider = make("input", { type: "range", min: 0, max: events.length - 1, value: this.step, id: "step", "aria-label": "step", "aria-valuetext": says(events[this.step]) });
    slider.addEventListener("input", () => this.go(Number(slider.value)));
    return make("div", { id: "stepper" }, button("|◀", "first step", 0, "<"), button("◀", "step back", this.step - 1, ","), button("▶", "step forward", this.step + 1, "."),
      button("▶|", "last step", events.length - 1, ">"), slider, make("span", { class: "soft" }, `${this.step + 1} of ${events.length}`));
  }

  go(step) {
    const held = document.activeElement?.id === "step";
    const label = document.activeElement?.getAttribute?.("aria-label");
    this.step = Math.min(Math.max(0, step), this.line.events.length - 1);
    this.draw();
    if (held) document.getElementById("step").focus();
    else if (/step/.test(label ?? "")) this.body.querySelector(`#stepper [aria-label="${label}"]`)?.focus();
  }

  key(key) {  // whether it is one of ours
    if (!this.packet || !this.line) return false;
    const to = { ",": this.step - 1, ".": this.step + 1, "<": 0, ">": this.line.events.length - 1 }[key];
    const way = this.way().map((hop) => hop.number), hop = { "[": -1, "]": 1 }[key];
    if (to !== undefined) this.go(to);
    else if (hop) { const next = way[way.indexOf(this.hop) + hop]; if (next !== undefined) this.open(next); }
    else return false;
    return true;
  }

  toNode(id) {
    const step = this.places?.findIndex((place) => place === id) ?? -1;
    if (step >= 0) this.go(step);
  }

  event() {
    const event = this.line.events[this.step];
    return [make("p", { id: "event", "aria-live": "polite" }, says(event)), this.entry(event), this.source(event), this.headers()];
  }

  entry(event) {
    if (event.kind !== "table_lookup" || !event.entry) return null;
    const key = event.entry.key.map((part) => `${part.name} ${part.any ? "any" : shown(part.value ?? part.low)}${part.prefix_len !== undefined ? `/${part.prefix_len}` : ""}${part.mask !== undefined ? ` &&& ${shown(part.mask)}` : ""}${part.high !== undefined ? `–${shown(part.high)}` : ""}`);
    const does = event.entry.action ? `${event.entry.action}(${Object.entries(event.entry.parameters).map(([n, v]) => `${n} ${shown(v)}`).join(", ")})`
      : event.entry.group !== undefined ? `group ${event.entry.group}` : `member ${event.entry.member}`;
    return make("p", { class: "soft" }, `entry ${event.entry.handle ?? ""}: ${key.join(", ")} ▸ ${does}`);
  }

  // The line of P4, lit among those around it; where an event has none, the last one before it.
  source(event) {
    const place = event.source ?? this.line.events.slice(0, this.step).findLast((each) => each.source)?.source;
    if (!place) return make("p", { class: "soft" }, "The compiler gives no line of source for this step.");
    const known = this.whole.sources[place.file], code = make("pre", { id: "source", tabindex: 0, "aria-label": `${place.file}, line ${place.line}` });
    const text = known?.text?.split("\n"), lines = text ? text.map((line, i) => [i + 1, line]) : Object.entries(known?.lines ?? {}).map(([n, line]) => [Number(n), line]);
    const near = text ? lines.filter(([n]) => Math.abs(n - place.line) <= AROUND) : lines.filter(([, line], i, all) => Math.abs(all.findIndex(([n]) => n === place.line) - i) <= AROUND);
    for (const [number, line] of near.length ? near : [[place.line, place.text]]) {
      code.append(make("span", { class: `line ${number === place.line ? "lit" : ""} ${event.source ? "" : "before"}` }, make("i", {}, String(number)), `${line}\n`));
    }
    return make("figure", {}, make("figcaption", { class: "soft" }, `${place.file}:${place.line}${event.source ? "" : " (the last line before)"}`), code);
  }

  headers() {
    const { headers, variables } = stateAfter(this.line.events, this.step + 1, (name) => this.whole.headers[name]?.metadata ?? false);
    const before = stateAfter(this.line.events, this.step, (name) => this.whole.headers[name]?.metadata ?? false);
    const rows = [];
    for (const [name, { valid, came, fields }] of headers) {
      if (!valid && !came) continue;
      const bits = new Map(this.whole.headers[name]?.fields ?? []);
      rows.push(make("tr", { class: "head" }, make("th", { colspan: 3 }, `${name}${valid ? (came ? "" : ", added") : ", removed"}`)));
      for (const [field, value] of Object.entries(fields)) {
        const came0 = came?.[field], changed = came && String(came0) !== String(value);
        const justNow = String(before.headers.get(name)?.fields[field] ?? "") !== String(value);
        rows.push(make("tr", { class: `${changed ? "changed" : ""} ${justNow ? "just" : ""}` }, make("td", {}, field),
          make("td", { class: "n" }, came ? shown(came0, bits.get(field)) : "–"), make("td", { class: "n" }, changed || !came ? `${shown(value, bits.get(field))}${justNow ? " ◂" : ""}` : "")));
      }
    }
    const inner = [...variables].map(([name, value]) => make("tr", { class: before.variables.get(name) === value ? "" : "just" }, make("td", {}, name.replace(/^scalars\.(userMetadata|metadata_t)?\.?/, "")), make("td", { class: "n" }, shown(value))));
    return make("div", {},
      !rows.length ? make("p", { class: "soft" }, "No header has been extracted yet.") : make("table", { id: "headers" }, make("thead", {}, make("tr", {}, make("th", {}, "header"), make("th", { class: "n" }, "came"), make("th", { class: "n" }, "now"))), make("tbody", {}, ...rows)),
      inner.length ? make("details", { "data-keep": "variables" }, make("summary", {}, `metadata and variables (${inner.length})`), make("table", {}, make("tbody", {}, ...inner))) : "");
  }

  outcome(way) {
    const last = way.at(-1), all = this.packet.outcomes;
    const here = outcomeText(this.line.outcome), text = `${this.packet.hops[this.hop].switch}: ${here}`;
    return make("div", { id: "outcome" }, make("p", { class: last.outcome?.dropped ? "bad" : "" }, text),
      make("details", { "data-keep": "endings" }, make("summary", {}, `${all.length} ending${all.length === 1 ? "" : "s"} of the packet`), make("ul", {}, ...all.map((each) => make("li", {}, ending(each))))));
  }
}

function ending({ fraction, packets, dropped }) {
  const part = fraction === 1 ? "" : `${percent(fraction)}: `;
  if (dropped) return `${part}dropped at ${dropped.switch}: ${dropped.reason}`;
  return part + packets.map((each) => `${each.hex.length / 2} bytes ${each.host ? `to ${each.host}` : "out"} by port ${each.port} of ${each.switch}`).join(", ");
}
