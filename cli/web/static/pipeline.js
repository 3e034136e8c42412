// SPDX-License-Identifier: Apache-2.0
// A program as a graph: parser, controls, queue and deparser below each other, with the way of a packet in it.

import { Places } from "./trace.js";

// A column of the server's is as wide as the widest node and the space beside it.
const SPACE = "http://www.w3.org/2000/svg", WIDE = 156, BESIDE = 16, HIGH = 26, EDGE = 14, SMALLEST = 0.85;

// Nodes of a part are as wide as its longest label needs.
const nodeWidth = (part) => Math.min(WIDE, Math.max(72, ...part.nodes.map(({ label }) => 26 + 5.8 * label.length)));
const squeezed = (part) => (nodeWidth(part) + BESIDE) / (WIDE + BESIDE);

function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const overlaps = (a, b) => Math.abs(a.x - b.x) < (a.wide + b.wide) / 2 && Math.abs(a.y - b.y) < (a.high + b.high) / 2;

// The first place on an edge, else beside it, where a label lies on nothing that is taken.
function free(line, label, taken) {
  const long = line.getTotalLength(), wide = 6 * label.length + 4, places = [];
  for (const aside of [0, 0.5, -0.5, 1, -1]) {
    for (let at = 9; at < Math.max(long - 4, 10); at += 3) {
      const { x, y } = line.getPointAtLength(at);
      places.push({ x: x + aside * wide, y, wide, high: 11 });
    }
  }
  return places.find((place) => !taken.some((other) => overlaps(place, other))) ?? places[0];
}

export class PipelineGraph {
  // `picked`: called with the id of a node that was clicked.
  constructor(stage, picked) {
    Object.assign(this, { stage, picked, scale: 1, at: null, nodes: new Map(), edges: new Map() });
    stage.addEventListener("keydown", (event) => this.key(event));
  }

  show(pipeline) {
    if (this.pipeline === pipeline) return;
    this.pipeline = pipeline;
    this.places = new Places(pipeline);
    this.nodes.clear(); this.edges.clear();
    this.wide = Math.max(...pipeline.parts.map((part) => part.width * squeezed(part)), WIDE) + 2 * EDGE;
    this.picture = svg("svg", { role: "img", "aria-label": `The pipeline of ${pipeline.program}` });
    let top = 10;
    for (const part of pipeline.parts) {
      if (part.name === "egress") top = this.block("queue", "queue", top);
      top = this.part(part, top);
    }
    if (!pipeline.parts.some((part) => part.name === "egress")) top = this.block("queue", "queue", top);
    this.high = this.block("deparser", `deparser: ${pipeline.deparser.join(", ")}`, top) + EDGE;
    this.picture.setAttribute("viewBox", `0 0 ${this.wide} ${this.high}`);
    this.stage.replaceChildren(this.picture);
    this.at = pipeline.parts[0].first;
    this.fitted = true;
    this.look();
  }

  // As large as it can be while nothing is beside the stage, but not too small to be read.
  fit() {
    this.fitted = true;
    this.zoom(Math.min(1, Math.max(SMALLEST, this.stage.clientWidth / this.wide)));
  }

  zoom(scale) {
    this.scale = Math.min(2, Math.max(0.3, scale));
    this.picture.style.width = `${this.wide * this.scale}px`;
    this.picture.style.height = `${this.high * this.scale}px`;
  }

  block(id, text, top) {
    this.node({ id, kind: id, label: text, x: this.wide / 2, y: 0 }, WIDE, top + 30, WIDE);
    return top + 60;
  }

  part(part, top) {
    const by = squeezed(part), left = (this.wide - by * part.width) / 2, below = top + 22, wide = nodeWidth(part);
    const across = (x) => left + by * x;
    this.picture.append(svg("text", { class: "part", x: this.wide / 2, y: top + 12 }, part.name));
    // Labels find their place on their edges when all nodes have theirs.
    const taken = part.nodes.map(({ x, y }) => ({ x: across(x), y: y + below, wide, high: HIGH }));
    for (const edge of part.edges) this.edge({ ...edge, points: edge.points.map(([x, y]) => [across(x), y + below]) }, taken);
    for (const node of part.nodes) this.node({ ...node, x: across(node.x) }, wide, below, by * part.width);
    return below + part.height + 8;
  }

  edge({ from, to, label, points }, taken) {
    const [x, y] = points[0], [u, v] = points.at(-1);
    const way = [[x, y + (v > y ? HIGH / 2 : 0)], ...points.slice(1, -1), [u, v - (v > y ? HIGH / 2 : 0)]];
    const curve = way.slice(1).map(([a, b], i) => {
      const [c, d] = way[i], half = (d + b) / 2;
      return `C${c},${half} ${a},${half} ${a},${b}`;
    });
    const line = svg("path", { class: "edge", d: `M${way[0].join(",")}${curve.join("")}` });
    this.picture.prepend(line);
    const parts = [line];
    if (label) {
      const place = free(line, label.slice(0, 16), taken), { x, y } = place;
      const text = svg("text", { class: "label", x, y }, label.slice(0, 16));
      taken.push(place);
      this.picture.append(text);
      parts.push(text);
    }
    this.edges.set(`${from} ${to}`, parts);
  }

  node(node, wide, top, across) {
    const { x } = node, y = node.y + top, a = x - wide / 2, b = y - HIGH / 2;
    const shape = node.kind === "condition"
      ? svg("polygon", { points: `${a},${y} ${a + 10},${b} ${a + wide - 10},${b} ${a + wide},${y} ${a + wide - 10},${b + HIGH} ${a + 10},${b + HIGH}` })
      : svg("rect", { x: a, y: b, width: wide, height: HIGH, rx: { state: 13, table: 4, queue: 2, deparser: 13 }[node.kind] ?? 0 });
    const most = node.kind === "condition" ? 22 : 24;
    const text = node.label.length > most ? `${node.label.slice(0, most - 1)}…` : node.label;
    const about = [node.label, node.key?.length ? `key: ${node.key.join(", ")}` : "", node.extracts?.length ? `extracts ${node.extracts.join(", ")}` : "",
      node.source ? `${node.source.file}:${node.source.line}` : ""].filter(Boolean).join("\n");
    const drawn = svg("g", { class: `node ${node.kind}`, "data-id": node.id }, svg("title", {}, about), shape, svg("text", { x, y }, text));
    drawn.addEventListener("click", () => this.picked(node.id));
    this.picture.append(drawn);
    this.nodes.set(node.id, { drawn, x, y, across });
  }

  // Lights up where a packet has been, and where it is.
  light(places, step) {
    const been = new Set(places.slice(0, step + 1)), all = new Set(places), lit = this.places.edges(places);
    for (const [id, { drawn }] of this.nodes) {
      drawn.classList.toggle("visited", all.has(id));
      drawn.classList.toggle("been", been.has(id));
      drawn.classList.toggle("now", places[step] === id);
    }
    for (const [id, parts] of this.edges) for (const part of parts) part.classList.toggle("visited", lit.has(id));
    for (const id of lit) this.picture.insertBefore(this.edges.get(id)[0], this.picture.querySelector(".node, .part, .label"));
    this.at = places[step] ?? places.slice(0, step + 1).findLast((id) => id !== null) ?? places.find((id) => id !== null) ?? null;
    this.look();
  }

  look() {  // what is where the packet is comes into the middle: a part that fits the stage, else the node
    const node = this.nodes.get(this.at);
    if (!node || this.stage.hidden) return;
    if (this.fitted) this.fit();
    const { stage } = this, across = node.across * this.scale > stage.clientWidth ? node.x : this.wide / 2;
    stage.scrollTo({ left: across * this.scale - stage.clientWidth / 2, top: node.y * this.scale - stage.clientHeight / 2 });
  }

  key(event) {
    const by = { "+": 1.25, "=": 1.25, "-": 0.8, 0: 0 }[event.key];
    if (by === undefined) return;
    this.fitted = !by;
    if (by) this.zoom(this.scale * by);
    this.look();
    event.preventDefault();
    event.stopPropagation();
  }
}
