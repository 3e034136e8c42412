// SPDX-License-Identifier: Apache-2.0
// The program's text, which can be changed: errors stand beside their lines as one types, and a packet goes through the
// changed program when it runs.

import { change, get } from "./net.js";
import { make } from "./look.js";

const PAUSE = 350;  // milliseconds without a key until the text is checked

export class Editor {
  constructor(page) {
    Object.assign(this, { page, texts: null, file: null, messages: { errors: [], warnings: [] }, checks: 0 });
  }

  async parts() {
    this.texts ??= (await get("source")).texts;
    const files = Object.keys(this.texts);
    if (!files.length) return [make("p", { class: "soft" }, "No source: start `detour web --program NAME.p4` to view and edit it.")];
    this.file ??= files[0];
    this.page.packet.graph.show(await this.page.packet.pipeline());
    const reply = this.page.answerOf("edit"), { packet } = this.page;
    const choice = make("select", { id: "file", "aria-label": "file of the program" }, ...files.map((file) => make("option", { value: file, selected: file === this.file }, file)));
    choice.addEventListener("change", () => { this.file = choice.value; this.page.render(); });
    const run = packet.button("Run", "run", () => this.run()), save = packet.button("Save", "save", () => this.save());
    const form = make("form", { class: "row", onsubmit: (event) => event.preventDefault() }, choice, run, save, reply);
    this.numbers = make("pre", { "aria-hidden": "true" });
    this.notes = make("div", { class: "notes", "aria-hidden": "true" });
    this.text = make("textarea", { id: "program", spellcheck: "false", wrap: "off", "aria-label": `text of ${this.file}`, autocapitalize: "off" });
    this.text.value = this.texts[this.file];
    this.text.readOnly = !this.page.writable;
    this.text.addEventListener("input", () => this.typed());
    this.text.addEventListener("keydown", (event) => this.key(event, run));
    this.list = make("ul", { id: "messages", role: "status" });
    this.draw();
    return [form, this.list, make("div", { class: "editor" }, this.numbers, make("div", { class: "paper" }, this.text, this.notes))];
  }

  key(event, run) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run.click(); }
    if (event.key === "Tab" && !event.shiftKey) { event.preventDefault(); this.text.setRangeText("    ", this.text.selectionStart, this.text.selectionEnd, "end"); this.typed(); }
  }

  typed() {
    this.texts[this.file] = this.text.value;
    this.draw();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.check(), PAUSE);
  }

  async check() {
    const number = ++this.checks;
    const messages = await change("check", { texts: this.texts }).catch((error) => ({ errors: [{ file: this.file, line: 1, column: 1, width: 1, message: error.message }], warnings: [] }));
    if (number !== this.checks) return;  // the text has changed meanwhile
    this.messages = messages;
    this.draw();
  }

  async run() {
    this.checks += 1;
    clearTimeout(this.waiting);
    const began = performance.now(), answer = await change("run", { texts: this.texts });
    this.messages = answer;
    this.draw();
    if (answer.errors.length) throw new Error(`${answer.errors.length} error${answer.errors.length > 1 ? "s" : ""}: the program that ran before goes on`);
    this.page.packet.renewed();
    this.page.packet.graph.show(await this.page.packet.pipeline());
    if (answer.packet) this.page.go("packet", { id: String(answer.packet), hop: "0" });
    return `the program runs, after ${((performance.now() - began) / 1000).toFixed(2)} s`;
  }

  async save() {
    await this.run();
    const { saved } = await change("save", {});
    return saved.length ? `saved: ${saved.join(", ")}` : "nothing has changed";
  }

  // -- beside the text ------------------------------------------------------------------------------------------

  draw() {
    const lines = this.text.value.split("\n"), longest = Math.max(...lines.map((line) => line.length));
    this.text.style.height = `calc(${lines.length} * var(--row) + 1rem)`;
    this.text.style.minWidth = `${longest + 2}ch`;
    const kinds = [["warning", this.messages.warnings], ["error", this.messages.errors]];
    const all = kinds.flatMap(([kind, messages]) => messages.map((message) => ({ kind, ...message })));
    const here = new Map(all.filter(({ file }) => file === this.file).map((message) => [message.line, message]));
    this.numbers.replaceChildren(...lines.map((_, i) => make("span", { class: here.get(i + 1)?.kind ?? "" }, `${i + 1}\n`)));
    this.notes.replaceChildren(...[...here.values()].filter(({ line }) => line <= lines.length).flatMap(({ kind, line, column, width, message }) => {
      const mark = make("i", { class: kind }), note = make("b", { class: kind }, message);
      for (const each of [mark, note]) each.style.top = `calc(${line - 1} * var(--row))`;
      mark.style.left = `${column - 1}ch`;
      mark.style.width = `${Math.min(width, Math.max(1, lines[line - 1].length - column + 1))}ch`;
      note.style.left = `${lines[line - 1].length + 2}ch`;
      return [mark, note];
    }));
    this.list.replaceChildren(...all.reverse().map((message) => make("li", { class: message.kind }, make("button", { type: "button", onclick: () => this.show(message) }, `${message.file}:${message.line}`), ` ${message.message}`)));
  }

  // Goes to the place of a message.
  async show({ file, line, column }) {
    if (file !== this.file && file in this.texts) { this.file = file; await this.page.render(); }
    const before = this.text.value.split("\n").slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    this.text.focus();
    this.text.setSelectionRange(before + column - 1, before + column - 1);
    this.numbers.children[line - 1]?.scrollIntoView({ block: "center" });
  }
}
