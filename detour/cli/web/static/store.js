// SPDX-License-Identifier: Apache-2.0
// What is known: the graph, samples over time, and the moment that is shown.

import { clock } from "./look.js";

const KEPT = 2400;

export class Store {
  constructor(state) {
    this.state = state;
    this.graph = state.graph;
    this.samples = [];
    this.events = [];
    this.at = null;  // number of the sample that is shown; null: the last one
    this.switches = new Map(this.graph.switches.map((node) => [node.name, node]));
    this.hosts = new Map(this.graph.hosts.map((node) => [node.name, node]));
    this.nodes = new Map([...this.switches, ...this.hosts]);
    this.links = new Map(this.graph.links.map((link) => [link.name, link]));
    this.ofPort = new Map(state.directions.map((direction, i) => [direction.from, i]));
    // Places of a link in a sample: from its first end and from its second, -1 where a host sends.
    for (const link of this.graph.links) link.places = link.ports.map((port) => this.ofPort.get(port) ?? -1);
  }

  add(samples) {
    for (const sample of samples) {
      if (!("use" in sample)) continue;
      this.samples.push(sample);
      for (const event of sample.events) this.events.push({ t: sample.t, ...event });
    }
    const extra = this.samples.length - KEPT;
    if (extra > 0) {
      this.samples.splice(0, extra);
      if (this.at !== null) this.at = Math.max(0, this.at - extra);
    }
    this.events.splice(0, Math.max(0, this.events.length - 500));
  }

  clear() {
    this.samples.length = 0;
    this.events.length = 0;
    this.at = null;
  }

  // Names that there are, to show in fields what may be typed.
  get examples() {
    const { switches, hosts, links } = this.graph, name = (node) => node?.name ?? "";
    return { node: name(switches.at(-1)), link: name(links.find(({ kind }) => kind !== "host")), source: name(hosts[0]),
      target: name(hosts.at(-1)), usids: switches.slice(-2).map(name).join(",") };
  }

  // The two hosts of a flow; their names may have hyphens themselves.
  ends(flow) {
    const name = flow.replace(/#\d+$/, "");
    const pairs = [...name.matchAll(/-/g)].map(({ index }) => [name.slice(0, index), name.slice(index + 1)]);
    return pairs.find((pair) => pair.every((host) => this.hosts.has(host))) ?? [name, ""];
  }

  // Whether a flow has been seen.
  knows(flow) { return this.samples.some(({ flows }) => flows.some(({ name }) => name === flow)); }

  // Times of a run in virtual time are far below a second.
  clock(t) { return this.state.kind === "run" ? micros(t) : clock(t); }
  delay(ms) { return this.state.kind === "run" ? (1000 * ms).toFixed(2) : ms.toFixed(2); }
  delayText(ms) { return `${this.delay(ms)} ${this.delayUnit}`; }
  get delayUnit() { return this.state.kind === "run" ? "us" : "ms"; }

  // What is behind a port of a switch: the port of the next one, or the host there.
  beyond(port) {
    const link = this.graph.links.find(({ ports }) => ports[0] && ports[1] && ports.includes(port));
    return link ? link.ports[link.ports[0] === port ? 1 : 0] : null;
  }
  hostAt(port) {
    const link = this.graph.links.find(({ kind, ports }) => kind === "host" && ports[0] === port);
    return link?.b ?? null;
  }

  get now() { return this.samples[this.at ?? this.samples.length - 1]; }

  // {use, queue, drops, marks, up} of a link, the busier direction.
  of(link, sample = this.now) {
    const sums = { use: 0, queue: 0, drops: 0, marks: 0, up: 1 };
    for (const place of link.places) {
      if (place < 0 || !sample) continue;
      sums.use = Math.max(sums.use, sample.use[place]);
      sums.queue = Math.max(sums.queue, sample.queue[place]);
      sums.drops += sample.drops[place];
      sums.marks += sample.marks[place];
      sums.up &= sample.up[place];
    }
    return sums;
  }

  history(what, count = 120) {
    const end = (this.at ?? this.samples.length - 1) + 1;
    return this.samples.slice(Math.max(0, end - count), end).map(what);
  }

  // What `chart` wants besides texts: values, and the times of the first and the last.
  get spanned() {
    const times = this.history((sample) => this.clock(sample.t));
    return [times[0] ?? "", times.at(-1) ?? ""];
  }
}

function micros(t) {
  const us = 1e6 * t;
  return us < 1e4 ? `${us.toFixed(us < 100 ? 1 : 0)} us` : `${(us / 1000).toFixed(2)} ms`;
}
