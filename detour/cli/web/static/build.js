// SPDX-License-Identifier: Apache-2.0
// A packet that is built field by field: a form over the program's parser.

import { change, get } from "./net.js";
import { make } from "./look.js";
import { shown } from "./trace.js";
import { bytesOf, dissect, hexOf, longEnough, setBits, turned, typed } from "./builder.js";

const SHORTEST = 60;

export class Builder {
  constructor(view, pipeline) {
    Object.assign(this, { view, pipeline, bytes: new Uint8Array(SHORTEST), port: 1, source: "" });
    this.parts = make("div", { id: "fields" });
    this.hex = make("textarea", { id: "frame", rows: 3, spellcheck: "false", "aria-label": "the frame in hex" });
    this.hex.addEventListener("change", () => {
      const text = this.hex.value.replace(/[\s:]/g, "").replace(/^0x/, "");
      if (/^([0-9a-f]{2})+$/i.test(text)) this.set(bytesOf(text)); else this.wrong("the frame is not hex with two digits a byte");
    });
  }

  wrong(text) { this.view.page.answer(this.reply, () => { throw new Error(text); }); }

  element() {
    this.reply = this.view.page.answerOf("build");
    const { view } = this, program = view.program;
    const where = make("input", program ? { type: "number", min: 0, max: 510, value: this.port, id: "port", "aria-label": "port by which it comes in" }
      : { value: this.source, placeholder: `from, like ${view.page.store.examples.source}`, list: "names", id: "sender", "aria-label": "host that sends it" });
    where.addEventListener("change", () => {
      if (program) this.port = Number(where.value);
      else this.source = where.value.trim();
      this.draw();
    });
    const send = view.button(program ? "Trace" : "Send and trace", "build", () => view.traced(change("trace_frame", this.asked(false))));
    const all = view.button("In all ways", "buildall", () => view.traced(change("trace_frame", this.asked(true))));
    const again = program ? view.button("Restart the switch", "restart", async () => { await change("restart", {}); return "registers and counters are empty again"; }) : null;
    this.draw();
    return make("div", {}, make("form", { class: "row", onsubmit: (event) => event.preventDefault() }, make("label", {}, program ? "port " : "sender "), where, send, all, again, this.reply), this.parts, this.hex);
  }

  asked(allWays) {
    const frame = hexOf(this.bytes);
    return this.view.program ? { frame, port: this.port, all_ways: allWays } : { source: this.source, frame, all_ways: allWays };
  }

  async take(packet) {  // begins with a data packet of two hosts
    const { frame, port } = await get("frame", packet);
    this.source = packet.source;
    this.port = port;
    const sender = document.getElementById("sender");
    if (sender) sender.value = packet.source;
    this.set(bytesOf(frame));
  }

  set(bytes) { this.bytes = bytes; this.draw(); }

  draw() {
    const read = dissect(this.pipeline, this.bytes, this.port);
    this.bytes = longEnough(read.bytes, 8 * Math.min(SHORTEST, 14));
    this.hex.value = hexOf(this.bytes);
    const open = new Set([...this.parts.querySelectorAll("details[open]")].map((part) => part.dataset.header));
    const turns = [...read.turns];
    this.parts.replaceChildren(
      ...read.headers.map((header) => this.header(header, open.has(header.name) || this.parts.childElementCount === 0)),
      ...turns.map((turn) => this.turn(turn)),
      make("p", { class: "soft" }, `${read.length / 8} bytes of headers, ${Math.max(0, this.bytes.length - Math.ceil(read.length / 8))} bytes behind them`));
  }

  header({ name, fields }, open) {
    const rows = fields.map((field) => {
      const input = make("input", { value: shown(field.value, field.bits), "aria-label": `${name}.${field.field}, ${field.bits} bits`, "data-field": `${name}.${field.field}` });
      input.addEventListener("change", () => {
        const value = typed(input.value, field.bits);
        if (value === null) { this.wrong(`${name}.${field.field}: ${input.value} is not a number of ${field.bits} bits`); input.value = shown(field.value, field.bits); return; }
        const bytes = Uint8Array.from(this.bytes);
        setBits(bytes, field.offset, field.bits, value);
        this.set(bytes);
        this.parts.querySelector(`[data-field="${name}.${field.field}"]`)?.focus();
      });
      return make("tr", {}, make("td", {}, field.field), make("td", { class: "n soft" }, String(field.bits)), make("td", {}, input));
    });
    const part = make("details", { "data-header": name, "data-keep": `header ${name}` }, make("summary", {}, name), make("table", {}, make("tbody", {}, ...rows)));
    part.open = open;
    return part;
  }

  turn(turn) {
    const options = turn.options.map((option, i) => make("option", { value: i, selected: i === turn.taken, disabled: option.value === null }, `${option.next ?? "accept"}${option.value === null ? " (otherwise)" : ` (${option.value})`}`));
    const choice = make("select", { "aria-label": `after ${turn.state}` }, ...options);
    choice.disabled = !turn.parts.every((part) => part.place);
    choice.addEventListener("change", () => { const bytes = turned(this.bytes, turn, Number(choice.value)); if (bytes) this.set(bytes); });
    return make("p", { class: "turn" }, `after ${turn.state}, by ${turn.parts.map((part) => part.name).join(", ")}: `, choice);
  }
}
