// SPDX-License-Identifier: Apache-2.0
// The picture of the fabric: a canvas that is moved and zoomed, and told what to light up.

import { css, percent, useColour } from "./look.js";

const SWITCH = 11, HOST = 4;

export class Picture {
  constructor(canvas, hint, store, picked) {
    Object.assign(this, { canvas, hint, store, picked, lit: [], chosen: null, scale: 1, x: 0, y: 0 });
    this.context = canvas.getContext("2d");
    this.asked = false;
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.listen();
  }

  resize() {
    const first = !this.wide;
    const ratio = devicePixelRatio || 1;
    this.wide = this.canvas.clientWidth;
    this.high = this.canvas.clientHeight;
    this.canvas.width = this.wide * ratio;
    this.canvas.height = this.high * ratio;
    if (first || this.whole) this.fit();
    this.draw();
  }

  fit() {
    const { width, height } = this.store.graph, high = this.high - document.getElementById("legend").offsetHeight - 12;
    this.scale = Math.min(this.wide / width, high / height);
    const { labels } = this, { across, along } = this.labelSize;
    const [left, right] = [Math.min(0, ...labels.map(({ x }) => x - across)), Math.max(width, ...labels.map(({ x }) => x + across))];
    const [top, bottom] = [Math.min(0, ...labels.map(({ y }) => y - along)), Math.max(height, ...labels.map(({ y }) => y + along))];
    this.scale = Math.min(this.wide / (right - left), high / (bottom - top)) * 0.98;
    this.x = (this.wide - (right + left) * this.scale) / 2;
    this.y = (high - (bottom + top) * this.scale) / 2;
    this.whole = true;
    this.draw();
  }

  zoom(factor, at = [this.wide / 2, this.high / 2]) {
    const next = Math.min(12, Math.max(0.05, this.scale * factor)), by = next / this.scale;
    this.x = at[0] - (at[0] - this.x) * by;
    this.y = at[1] - (at[1] - this.y) * by;
    this.scale = next;
    this.whole = false;
    this.draw();
  }

  draw() {  // at most once a frame
    if (this.asked || !this.wide) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.paint(); });
  }

  paint() {
    const c = this.context, ratio = devicePixelRatio || 1, { graph } = this.store;
    this.colours = Object.fromEntries(["back", "front", "soft", "line", "accent", "bad", "switch", "host", "idle", "ink"]
      .map((name) => [name, css(`--${name}`)]));
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.wide, this.high);
    c.setTransform(ratio * this.scale, 0, 0, ratio * this.scale, ratio * this.x, ratio * this.y);
    c.lineCap = "butt";
    for (const link of graph.links) this.link(link);
    this.path();
    const down = new Set(this.store.now?.failures ?? []);
    for (const host of graph.hosts) this.host(host);
    for (const node of graph.switches) this.node(node, down.has(node.name));
    this.groups();
  }

  // Where the line of a link begins and ends; those of parallel links lie side by side.
  ends({ at, a, b }) {
    return at ? at.map(([x, y]) => ({ x, y })) : [this.store.nodes.get(a), this.store.nodes.get(b)];
  }

  link(link) {
    const c = this.context, sample = this.store.now;
    const [a, b] = this.ends(link);
    const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy) || 1;
    const nx = -dy / length, ny = dx / length;  // each direction lies on its own side
    if (!this.store.of(link).up) {
      this.stroke(a.x, a.y, b.x, b.y, this.colours.bad, 1.5, [5, 4]);
      this.cross((a.x + b.x) / 2, (a.y + b.y) / 2);
      return;
    }
    link.places.forEach((place, side) => {
      const use = place >= 0 && sample ? sample.use[place] : 0;
      const wide = 0.8 + 4.2 * use, off = (side ? -1 : 1) * (0.4 + wide / 2);
      if (place < 0) return;
      const colour = use > 0.005 ? useColour(use) : this.colours.idle;
      this.stroke(a.x + off * nx, a.y + off * ny, b.x + off * nx, b.y + off * ny, colour, wide);
      const from = side ? b : a, turn = side ? -1 : 1;
      this.queue(from, (turn * dx) / length, (turn * dy) / length, off * nx, off * ny, sample, place);
    });
    if (this.chosen === link.name) this.stroke(a.x, a.y, b.x, b.y, this.colours.front, 1.2, [2, 3]);
  }

  // What waits at a port is a bar at its end of the link, as long as the queue (a logarithm); drops are a triangle.
  queue(from, ux, uy, ox, oy, sample, place) {
    if (!sample) return;
    const c = this.context, x = from.x + ux * (SWITCH + 3) + ox, y = from.y + uy * (SWITCH + 3) + oy;
    const waits = Math.log2(1 + sample.queue[place]) * 2.2;
    if (waits > 0) this.stroke(x, y, x + ux * waits, y + uy * waits, this.colours.front, 3.2);
    if (sample.marks[place] > 0) {
      c.fillStyle = this.colours.accent;
      c.beginPath(); c.arc(x + ux * (waits + 4), y + uy * (waits + 4), 2.2, 0, 7); c.fill();
    }
    if (sample.drops[place] > 0) {
      c.fillStyle = this.colours.bad;
      const px = x + ux * (waits + 10), py = y + uy * (waits + 10);
      c.beginPath(); c.moveTo(px, py - 4); c.lineTo(px + 4, py + 3); c.lineTo(px - 4, py + 3); c.fill();
    }
  }

  path() {
    const { nodes, graph } = this.store, copy = (name) => /#\d+$/.exec(name)?.[0] ?? "";
    const node = (stop) => (nodes.has(stop) ? stop : stop.slice(0, stop.length - copy(stop).length));
    const stops = this.lit.filter((stop) => nodes.has(node(stop)));  // leaf2#2: by the second of parallel links
    for (let i = 1; i < stops.length; i++) {
      const a = node(stops[i - 1]), b = node(stops[i]), last = nodes.has(stops[i]) ? "" : copy(stops[i]);
      const cable = graph.links.find((one) => one.at && copy(one.name) === last && [a, b].includes(one.a) && [a, b].includes(one.b));
      const [from, to] = this.ends(cable ?? { a, b });
      this.stroke(from.x, from.y, to.x, to.y, this.colours.accent, 5, [], 0.55);
    }
  }

  stroke(x, y, u, v, colour, wide, dash = [], alpha = 1) {
    const c = this.context;
    c.strokeStyle = colour; c.lineWidth = wide; c.setLineDash(dash); c.globalAlpha = alpha;
    c.beginPath(); c.moveTo(x, y); c.lineTo(u, v); c.stroke();
    c.setLineDash([]); c.globalAlpha = 1;
  }

  cross(x, y) {
    for (const s of [1, -1]) this.stroke(x - 4, y - 4 * s, x + 4, y + 4 * s, this.colours.bad, 2);
  }

  host(host) {
    const c = this.context;
    c.fillStyle = this.chosen === host.name ? this.colours.accent : this.colours.host;
    c.beginPath(); c.arc(host.x, host.y, HOST, 0, 7); c.fill();
  }

  node(node, down) {
    const c = this.context;
    c.font = "9px system-ui, sans-serif";
    const half = Math.max(SWITCH, c.measureText(node.name).width / 2 + 3);  // a file's names may be long
    c.fillStyle = down ? this.colours.bad : this.colours.switch;
    c.beginPath(); c.roundRect(node.x - half, node.y - 8, 2 * half, 16, 3); c.fill();
    if (this.chosen === node.name) { c.strokeStyle = this.colours.front; c.lineWidth = 2; c.stroke(); }
    if (this.scale < 0.35) return;  // names would be smaller than a pixel or two
    c.fillStyle = this.colours.ink;
    c.textAlign = "center"; c.textBaseline = "middle";
    c.fillText(node.name, node.x, node.y + 0.5);
  }

  // Of a name of a group: its font, and half of what it takes in both directions.
  get labelSize() {
    const font = Math.max(11, 10 / this.scale);
    return { font, across: 2.3 * font, along: 0.7 * font };
  }

  // Where names of a Dragonfly's groups stand: seen from the middle, behind all of their switches and hosts.
  get labels() {
    const { family, switches, hosts, width, height } = this.store.graph;
    if (family !== "dragonfly") return [];
    const members = new Map();
    for (const node of [...switches, ...hosts.map((host) => ({ ...host, group: this.store.nodes.get(host.switch).group }))]) {
      members.set(node.group, [...(members.get(node.group) ?? []), node]);
    }
    const { across, along } = this.labelSize, mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
    return [...members].map(([group, nodes]) => {
      const [dx, dy] = [mean(nodes.map(({ x }) => x)) - width / 2, mean(nodes.map(({ y }) => y)) - height / 2];
      const far = Math.hypot(dx, dy) || 1, [ux, uy] = [dx / far, dy / far];
      const edge = Math.max(...nodes.map(({ x, y }) => (x - width / 2) * ux + (y - height / 2) * uy));
      const room = edge + SWITCH + across * Math.abs(ux) + along * Math.abs(uy);
      return { text: `group ${group}`, x: width / 2 + room * ux, y: height / 2 + room * uy };
    });
  }

  groups() {
    const c = this.context;
    c.fillStyle = this.colours.soft; c.textAlign = "center"; c.textBaseline = "middle";
    c.font = `${this.labelSize.font}px system-ui, sans-serif`;
    for (const { text, x, y } of this.labels) c.fillText(text, x, y);
  }

  // -- what the user does ---------------------------------------------------------------------------------

  listen() {
    const canvas = this.canvas, held = new Map();
    let moved = 0, apart = 0;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 500), [event.offsetX, event.offsetY]);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, [event.offsetX, event.offsetY]);
      canvas.setPointerCapture(event.pointerId);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) { this.tell(event.offsetX, event.offsetY); return; }
      const dx = event.offsetX - before[0], dy = event.offsetY - before[1];
      held.set(event.pointerId, [event.offsetX, event.offsetY]);
      moved += Math.abs(dx) + Math.abs(dy);
      if (held.size === 2) {
        const [p, q] = [...held.values()], now = Math.hypot(p[0] - q[0], p[1] - q[1]);
        if (apart) this.zoom(now / apart, [(p[0] + q[0]) / 2, (p[1] + q[1]) / 2]);
        apart = now;
      } else if (moved > 4) {
        this.x += dx; this.y += dy; this.whole = false;
        this.draw();
      }
    });
    const release = (event) => {
      const one = held.size === 1;
      held.delete(event.pointerId);
      apart = 0;
      if (one && moved <= 4 && event.type === "pointerup") this.pick(event.offsetX, event.offsetY);
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => { this.hint.hidden = true; });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
    if (step) { this.x += step[0]; this.y += step[1]; this.whole = false; this.draw(); }
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // What lies at a point of the canvas: {kind, name}, nodes before links.
  at(px, py) {
    const x = (px - this.x) / this.scale, y = (py - this.y) / this.scale, slack = 4 / this.scale;
    for (const [kind, nodes, reach] of [["switch", this.store.graph.switches, SWITCH], ["host", this.store.graph.hosts, HOST]]) {
      const node = nodes.find((node) => Math.hypot(node.x - x, node.y - y) < reach + slack);
      if (node) return { kind, name: node.name };
    }
    let best = null, least = 4 + slack;
    for (const link of this.store.graph.links) {
      const far = distance(x, y, ...this.ends(link));
      if (far < least) { least = far; best = { kind: "link", name: link.name }; }
    }
    return best;
  }

  pick(px, py) {
    const place = this.at(px, py);
    if (place) this.picked(place.kind, place.name);
  }

  tell(px, py) {
    const place = this.at(px, py);
    this.hint.hidden = !place;
    this.canvas.style.cursor = place ? "pointer" : "default";
    if (!place) return;
    this.hint.textContent = place.kind === "link" ? this.linkText(this.store.links.get(place.name)) : place.name;
    this.hint.style.left = `${Math.min(px + 14, this.wide - this.hint.offsetWidth - 8)}px`;
    this.hint.style.top = `${Math.min(py + 14, this.high - this.hint.offsetHeight - 8)}px`;
  }

  linkText(link) {
    const sample = this.store.now;
    const lines = link.places.map((place, i) => place < 0 || !sample ? null
      : `${link.ports[i]}: ${percent(sample.use[place])}, ${sample.queue[place]} wait`);
    return [link.name, ...lines.filter(Boolean)].join("\n");
  }
}

function distance(x, y, a, b) {
  const dx = b.x - a.x, dy = b.y - a.y;
  const along = Math.min(1, Math.max(0, ((x - a.x) * dx + (y - a.y) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - a.x - along * dx, y - a.y - along * dy);
}
