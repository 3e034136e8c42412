// SPDX-License-Identifier: Apache-2.0
// Puts the page together: what is shown follows the part of the address behind #, so every view can be linked to.

import { get, listen, takeToken } from "./net.js";
import { make, natural, rateText, useColour } from "./look.js";
import { Store } from "./store.js";
import { Picture } from "./fabric.js";
import { TimeLine } from "./time.js";
import { PacketView } from "./packet.js";
import { Editor } from "./edit.js";
import * as panels from "./panels.js";

const $ = (id) => document.getElementById(id);
const TABS = { links: panels.links, flows: panels.flows, path: panels.path, act: panels.traffic, packet: (page, given) => page.packet.parts(given), source: (page) => page.editor.parts() };
const OF_A_KIND = { fabric: Object.keys(TABS).filter((tab) => tab !== "source"), run: ["links", "flows"], program: ["packet", "source"] };
const ONE = { link: panels.link, switch: panels.switchPanel, host: panels.host, flow: panels.flow };
const KNOWN = { link: "links", switch: "switches", host: "hosts" };  // where the store has them
const LOGGED = { reroute: "paths", load: "traffic", send: "traffic", answer: "answers" };  // the rest: "fabric"
const REFRESHED = { links: 1, flows: 1, link: 1, host: 1, switch: 6, flow: 4 };  // every how many samples

class Page {
  constructor(state) {
    this.store = new Store(state);
    this.kind = state.kind;
    this.tabs = OF_A_KIND[state.kind];
    document.body.dataset.kind = state.kind;
    this.writable = state.writable && Boolean(takeToken());
    this.picture = new Picture($("fabric"), $("hint"), this.store, (kind, name) => this.choose(kind, name));
    this.packet = new PacketView(this, $("pipeline"));
    this.editor = new Editor(this);
    const buttons = { pause: $("pause"), live: $("live"), speed: $("speed") };
    this.time = new TimeLine($("time"), $("when"), buttons, this.store, () => this.moment(), () => this.stamp());
    this.asked = null;
    this.count = 0;
    this.logged = -1;
    this.answers = new Map();
    this.about(state);
    this.names();
    this.listen();
    this.route();
    window.detour = this;  // for tests, and for the curious
  }

  about({ status }) {
    const topology = status.topology?.replace(/#[0-9a-f]{16}(?=\W|$)/, "");  // a file's digest is for programs
    $("about").textContent = this.kind === "program" ? status.program + (status.ports ? `: one switch, ${status.ports} ports, ${status.entries} entries` : "")
      : `${status.about ? `${status.about} on ` : ""}${topology}${status.about ? "" : ` on ${status.target}`}: ${status.switches} switches, ${status.hosts} hosts, links of ${rateText(status.rate_mbps)}`;
    $("about").title = $("about").textContent;
    $("mode").textContent = this.mode();
    const bars = [0, 0.25, 0.5, 0.75, 1].map((use) => {
      const bar = make("i", {});
      bar.style.background = useColour(use);
      bar.style.height = `${1.5 + 4.5 * use}px`;
      return [bar, `${100 * use} %`];
    });
    $("legend").append("use", ...bars.flat(), " · bar at a port: queue · dot: marks · triangle: drops · dashed: down");
  }

  mode() {
    if (this.kind === "run") return this.store.state.live ? "goes on" : "recorded";
    return this.writable ? "" : "read-only";
  }

  names() {
    const all = [...this.store.nodes.keys(), ...this.store.links.keys()].sort(natural);
    const { node, link, source, target } = this.store.examples;
    $("name").placeholder = [node, link, target, source && `${source}-${target}`].filter(Boolean).join(", ");
    $("name").size = $("name").placeholder.length + 1;
    $("names").append(...all.slice(0, 3000).map((value) => make("option", { value })));
  }

  listen() {
    addEventListener("hashchange", () => this.route());
    $("find").addEventListener("submit", (event) => { event.preventDefault(); this.find($("name").value.trim()); });
    $("name").addEventListener("input", () => $("unknown").textContent = "");
    $("kinds").addEventListener("change", () => [...$("events").children].forEach((line) => this.filter(line)));
    for (const tab of document.querySelectorAll("#tabs [data-tab]")) {
      if (tab.dataset.tab !== "one") tab.hidden = !this.tabs.includes(tab.dataset.tab);
      tab.addEventListener("click", () => tab.dataset.tab !== "one" && this.go(tab.dataset.tab, {}));
    }
    $("inside").addEventListener("click", () => this.toggleInside(true));
    $("outside").addEventListener("click", () => this.toggleInside(false));
    addEventListener("keydown", (event) => this.key(event));
    listen((message) => {
      if (message.history && this.fresh) { this.fresh = false; this.store.clear(); this.logged = -1; $("events").replaceChildren(); }
      this.store.add(message.history ?? [message]);
      if (message.gone) this.report(message.gone, true);
      if (message.over) this.store.state.live = false;
      if (message.whole && this.kind === "run") this.opened();
      if (this.store.at === null) this.moment(); else this.time.draw();
    }, () => { $("mode").textContent = "not connected"; this.fresh = this.kind === "run"; });
  }

  // A run is all there: it begins, or stands still at the time that the address names.
  opened() {
    if (!this.store.samples.length) return;
    if (this.asked !== null) this.time.seek(this.asked);
    else if (!this.store.state.live) this.time.begin();
    this.asked = null;
  }

  // Where a run stands still, its time is in the address.
  stamp() {
    if (this.kind !== "run") return;
    const query = new URLSearchParams(this.given);
    if (this.time.still) query.set("t", (1e6 * this.store.now.t).toFixed(3));
    history.replaceState(null, "", `#${this.view}${query.size ? `?${query}` : ""}`);
  }

  key(event) {
    if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const tab = { l: "links", f: "flows", p: "path", t: "act", k: "packet", e: "source" }[event.key];
    if (this.view === "packet" && this.packet.key(event.key)) { event.preventDefault(); return; }
    if (event.key === " " && !/BUTTON|SUMMARY/.test(event.target.tagName) && this.kind !== "program") this.time.toggle();
    else if (event.key === "/" && this.kind !== "program") $("name").focus();
    else if (event.key === "g" && this.view === "packet") this.toggleInside(!this.isInside);
    else if (this.tabs.includes(tab)) this.go(tab, {});
    else return;
    event.preventDefault();
  }

  find(name) {
    const kind = Object.keys(KNOWN).find((each) => this.store[KNOWN[each]].has(name)) ?? (this.store.knows(name) ? "flow" : null);
    if (kind) this.choose(kind, name);
    else if (name) this.missing(name);
  }

  missing(name) { $("unknown").textContent = `there is no ${name}; names are like ${$("name").placeholder}`; }

  // -- where we are -------------------------------------------------------------------------------------------

  choose(kind, name) {
    if (kind === "switch" && this.view === "packet" && this.packet.openSwitch(name)) return;
    this.go(kind, { name });
  }

  go(view, given) {
    const query = new URLSearchParams(given).toString();
    location.hash = query ? `${view}?${query}` : view;
  }

  // Another address without a new entry of the history; `quiet`: what is shown there is shown already.
  replace(view, given, quiet = false) {
    history.replaceState(null, "", `#${view}?${new URLSearchParams(given)}`);
    if (!quiet) this.route();
  }

  // The stage shows the pipeline of a packet's switch, or the fabric.
  inside(yes) {
    this.isInside = this.kind === "program" || (yes && this.view === "packet");
    $("pipeline").hidden = !this.isInside;
    $("legend").hidden = this.isInside;
    $("views").hidden = this.kind === "program" || this.view !== "packet" || !this.packet.packet;
    $("inside").setAttribute("aria-pressed", String(this.isInside));
    $("outside").setAttribute("aria-pressed", String(!this.isInside));
    if (this.isInside) this.packet.graph.look();
  }

  toggleInside(yes) { this.inside(yes); this.packet.draw(); this.packet.graph.look(); }

  route() {
    const [view, query = ""] = location.hash.slice(1).split("?");
    document.body.dataset.view = view;
    this.view = this.tabs.includes(view) || (view in ONE && this.kind !== "program") ? view : this.tabs[0];
    this.given = Object.fromEntries(new URLSearchParams(query));
    if ("t" in this.given) {  // microseconds of a run
      const at = Number(this.given.t) / 1e6;
      delete this.given.t;
      if (this.store.samples.length && Number.isFinite(at)) this.time.seek(at); else this.asked = Number.isFinite(at) ? at : null;
    }
    $("unknown").textContent = "";
    const named = this.store[KNOWN[this.view]];
    if (named && !named.has(this.given.name)) { this.missing(`${this.view} ${this.given.name}`); this.view = this.tabs[0]; this.given = {}; }
    if (this.view !== "packet") this.inside(false);
    this.picture.lit = [];
    this.picture.chosen = this.given.name ?? null;
    const one = document.querySelector('[data-tab="one"]');
    one.hidden = !(this.view in ONE);
    one.textContent = this.given.name ?? "";
    for (const tab of document.querySelectorAll("#tabs [data-tab]")) {
      const on = tab.dataset.tab === this.view || (tab === one && this.view in ONE);
      tab.setAttribute("aria-selected", String(on));
    }
    this.render();
    this.picture.draw();
  }

  // -- what is shown ------------------------------------------------------------------------------------------

  moment() {
    this.picture.draw();
    this.time.draw();
    this.log();
    this.count += 1;
    const every = REFRESHED[this.view];
    if (every && this.count % every === 0 && !$("body").contains(editing())) this.render();
  }

  async render() {
    const view = this.view, given = this.given, body = $("body"), scroll = body.scrollTop;
    const open = new Set([...body.querySelectorAll("details[open]")].map((part) => part.dataset.keep));
    let parts;
    try {
      parts = await (view in TABS ? TABS[view](this, given) : ONE[view](this, given.name));
    } catch (error) {
      parts = [make("p", { class: "error" }, error.message)];
    }
    if (view !== this.view || given !== this.given) return;  // the user has gone elsewhere meanwhile
    body.replaceChildren(...parts.filter(Boolean));
    if (view === "packet") { this.inside(this.isInside); return; }
    for (const part of body.querySelectorAll("details")) part.open = open.has(part.dataset.keep);
    body.scrollTop = scroll;
  }

  light(names, chosen = this.picture.chosen) { this.picture.lit = names; this.picture.chosen = chosen; this.picture.draw(); }

  async lightPath(source, target, { path: text, switches }) {
    if (switches) { this.light([source, ...switches, target]); return; }
    if (this.kind !== "fabric") return;
    const [kind, rest] = [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)];
    const given = { source, target };
    if (kind === "sport") given.sport = rest;
    else given.usid = usids(rest);
    const path = await get("path", given).catch(() => null);
    if (path) this.light([source, ...this.stops(path.hops), target]);
  }

  // The hops of a packet as the picture knows them: `leaf2#2` where it comes by the second of parallel links.
  stops(hops) {
    return hops.map(({ switch: name, in_port: port }) => {
      const link = this.store.graph.links.find(({ ports }) => ports.includes(`${name}:${port}`));
      return name + (link?.at ? /#\d+$|$/.exec(link.name)[0] : "");
    });
  }

  // Where a form of this view says what came of it: the same element each time that it is drawn anew.
  answerOf(form) {
    const key = `${this.view} ${this.given.name ?? ""} ${form}`;
    if (!this.answers.has(key)) this.answers.set(key, make("output", { class: "answer", "aria-live": "polite" }));
    return this.answers.get(key);
  }

  // Does what a form asks for, and says there and in the log what came of it, or what was wrong; whether it could be done.
  async answer(place, work) {
    const say = (parts, wrong) => {
      place.classList.toggle("bad", wrong);
      place.replaceChildren(...parts.filter(Boolean));
      if (typeof parts[0] === "string") this.report(parts[0], wrong);
    };
    place.replaceChildren("…");
    try { say([await work()].flat(), false); return true; } catch (error) { say([error.message], true); return false; }
  }

  report(text, wrong = false) { this.line("answer", this.kind === "program" ? "" : this.store.clock(this.store.samples.at(-1)?.t ?? 0), text, wrong); }

  line(kind, time, text, wrong = false) {
    const line = make("div", { "data-kind": LOGGED[kind] ?? "fabric", class: wrong ? "bad" : "" }, make("b", {}, time), text);
    this.filter(line);
    $("events").prepend(line);
    while ($("events").childElementCount > 200) $("events").lastElementChild.remove();
    return line;
  }

  filter(line) { line.hidden = !["", line.dataset.kind].includes($("kinds").value); }

  // Changes of paths are many: as long as nothing else happens they share a line.
  moved({ t, count, text }) {
    const { moves } = this, goesOn = moves && moves.line === $("events").firstElementChild;
    const first = goesOn ? moves.t : t, sum = (goesOn ? moves.count : 0) + count;
    if (goesOn) moves.line.remove();
    const since = goesOn ? `${sum} changes of path since ${this.store.clock(first)}, the last: ${text.replace("another path: ", "")}` : text;
    this.moves = { line: this.line("reroute", this.store.clock(t), since), t: first, count: sum };
  }

  log() {
    const now = this.kind === "run" ? (this.store.now?.t ?? 0) : Infinity;  // what is played back is told when it happens
    if (this.kind === "run" && now < this.logged) { $("events").replaceChildren(); this.logged = -1; }
    const fresh = this.store.events.filter((event) => event.t > this.logged && event.t <= now);
    for (const event of fresh) event.kind === "reroute" ? this.moved(event) : this.line(event.kind, this.store.clock(event.t), event.text);
    if (fresh.length) this.logged = fresh.at(-1).t;
    $("mode").textContent = this.mode();
  }
}

// The element in which the user types; buttons and rows are drawn anew without harm.
function editing() {
  const active = document.activeElement;
  return active && /INPUT|SELECT/.test(active.tagName) ? active : null;
}

// fcbb:bb00:3:6:8005:: as node ids that the server understands (hexadecimal, without block and zeros).
function usids(address) {
  return address.split(":").slice(2).filter((part) => part && part !== "0").map((part) => `0x${part}`).join(",");
}

get("state").then((state) => new Page(state), (error) => { $("about").textContent = error.message; });
