// SPDX-License-Identifier: Apache-2.0
// A packet's trace (docs/trace.md) as a line of events that can be stepped through: what the page knows of it without
// drawing anything.

// Events along the branches that are chosen; `forks` that were met, each with the number that was taken.
export function along(tree, chosen = []) {
  const events = [], forks = [];
  let at = tree;
  for (;;) {
    events.push(...at.events);
    if (!at.fork) return { events, forks, outcome: at.outcome };
    const { branches } = at.fork;
    const taken = Math.min(chosen[forks.length] ?? 0, branches.length - 1);
    forks.push({ ...at.fork, taken, step: events.length });
    at = branches[taken].trace;
  }
}

// Tells where in the program's graph (detour/cli/web/pipeline.py) each event happens: the id of a node, or null.
export class Places {
  constructor(pipeline) {
    this.nodes = new Map(pipeline.parts.flatMap((part) => part.nodes.map((node) => [node.id, node])));
    this.after = new Map();
    this.first = new Map(pipeline.parts.map((part) => [part.name, part.first]));
    for (const edge of pipeline.parts.flatMap((part) => part.edges)) {
      this.after.set(edge.from, [...(this.after.get(edge.from) ?? []), edge]);
    }
  }

  of(events) {
    const places = [];
    let part = null, at = null, next = [];
    for (const event of events) {
      if (event.kind === "stage") {
        part = event.stage;
        at = part === "traffic_manager" ? "queue" : part === "deparser" ? "deparser" : `${part}/begin`;
        next = this.code(this.first.has(part) ? [this.first.get(part)] : []);
      } else if (event.kind === "queue") {
        at = "queue";
      } else if (event.kind === "parser_transition" && event.state) {
        at = `parser/${event.state}`;
      } else if (event.kind === "branch" || event.kind === "table_lookup") {
        at = `${part}/${event.name ?? event.table}`;
        next = this.code(this.onward(at, event.kind === "branch" ? (event.value ? "yes" : "no") : null));
      } else if (event.kind !== "action" && part !== "deparser") {
        const inside = next.find((id) => this.holds(id, event, at));
        if (inside) { at = inside; next = this.code(this.onward(at)); }
      }
      places.push(part === "parser" && event.kind !== "parser_transition" ? null : this.inPipeline(at));
    }
    // What a parser state does comes before it says where it goes.
    for (let i = places.length - 1, state = null; i >= 0; i--) {
      if (events[i].kind === "stage") state = null;
      else if (events[i].kind === "parser_transition") state = places[i];
      else if (places[i] === null) places[i] = state;
    }
    return places;
  }

  inPipeline(id) { return id === "queue" || id === "deparser" || this.nodes.has(id) ? id : null; }

  onward(id, label = null) {
    return (this.after.get(id) ?? []).filter((edge) => label === null || edge.label.split(", ").includes(label)).map((edge) => edge.to);
  }

  code(ids) { return ids.filter((id) => this.nodes.get(id)?.kind === "code"); }

  // Whether an event belongs to the statements of a node; one without a place in the source does behind a condition.
  holds(id, event, at) {
    if (!event.source) return this.nodes.get(at)?.kind === "condition";
    return this.nodes.get(id).lines.includes(`${event.source.file}:${event.source.line}`);
  }

  // Edges that a packet took: from node to node, over statements that left no event.
  edges(places) {
    const edges = new Set();
    let before = null;
    for (const at of places) {
      if (at === null || at === before) continue;
      if (before !== null) for (const edge of this.way(before, at)) edges.add(`${edge.from} ${edge.to}`);
      before = at;
    }
    return edges;
  }

  way(from, to, most = 4) {
    const seen = new Set([from]);
    let ways = [[]];
    for (let depth = 0; depth < most; depth++) {
      const longer = [];
      for (const way of ways) {
        for (const edge of this.after.get(way.at(-1)?.to ?? from) ?? []) {
          if (edge.to === to) return [...way, edge];
          if (!seen.has(edge.to) && this.nodes.get(edge.to)?.kind === "code") { seen.add(edge.to); longer.push([...way, edge]); }
        }
      }
      ways = longer;
    }
    return [];
  }
}

// Headers and variables after the first `count` events: {headers: Map of name to {valid, fields, came}, variables}.
export function stateAfter(events, count, isMetadata) {
  const headers = new Map(), variables = new Map();
  for (const event of events.slice(0, count)) {
    if (event.kind === "parser_transition") {
      for (const { header, fields } of event.extracted ?? []) headers.set(header, { valid: true, came: fields, fields: { ...fields } });
    } else if (event.kind === "deparser_emit") {
      const before = headers.get(event.header);
      headers.set(event.header, { valid: true, came: before?.came ?? null, fields: { ...before?.fields, ...event.fields } });
    } else if (event.kind === "assign") {
      const cut = event.field.lastIndexOf("."), header = event.field.slice(0, cut), field = event.field.slice(cut + 1);
      if (isMetadata(event.field.slice(0, event.field.indexOf("."))) ) { variables.set(event.field, event.after); continue; }
      const before = headers.get(header) ?? { valid: false, came: null, fields: {} };
      if (field === "$valid$") before.valid = Boolean(event.after);
      else before.fields[field] = event.after;
      headers.set(header, before);
    }
  }
  return { headers, variables };
}

// The first step that has something to show: headers and, if any step says one, a line of P4.
export function firstTelling(events) {
  const came = Math.max(0, events.findIndex((event) => event.extracted?.length));
  const lit = events.findIndex((event, i) => i >= came && event.source);
  return lit < 0 ? came : lit;
}

export const short = (name) => name?.split(".").slice(-2).join(".") ?? "";

// A value as people write it: addresses by their length, what is long in hexadecimal.
export function shown(value, bits = 0) {
  if (value === null || value === undefined) return "–";
  const number = BigInt(value);
  if (bits === 48) return number.toString(16).padStart(12, "0").match(/../g).join(":");
  if (bits === 128) return ipv6(number);
  return number < 4096n ? String(number) : `0x${number.toString(16)}`;
}

function ipv6(number) {
  const words = number.toString(16).padStart(32, "0").match(/..../g).map((word) => word.replace(/^0{1,3}/, ""));
  const text = words.join(":"), zeros = [...text.matchAll(/(?:^|:)(?:0(?::|$))+/g)].sort((a, b) => b[0].length - a[0].length)[0];
  return zeros && zeros[0].length > 3 ? `${text.slice(0, zeros.index)}::${text.slice(zeros.index + zeros[0].length)}` : text;
}

const keys = (key) => key.map((part) => `${short(part.name)} = ${shown(part.value)}`).join(", ");
const given = (values) => Object.entries(values ?? {}).map(([name, value]) => `${name} ${shown(value)}`).join(", ");

const SAYS = {
  packet_ingress: (e) => `${e.bytes === undefined ? "comes" : `${e.bytes} bytes come`} in by port ${e.port}`,
  stage: (e) => e.stage.replace("_", " ") + (e.egress_spec === undefined ? "" : `: to port ${e.egress_spec}, priority ${e.priority}`),
  parser_transition: (e) => (e.parser_error ? `parser error ${e.parser_error}`
    : `${e.state}: ${(e.extracted ?? []).map((x) => `extracts ${x.header}, `).join("")}goes on to ${e.next}${e.key.length ? ` because ${keys(e.key)}` : ""}`),
  table_lookup: (e) => `table ${short(e.table)}: ${e.hit ? "hit" : "miss"}${e.key.length ? `, ${keys(e.key)}` : ""}`,
  action: (e) => `action ${short(e.action)}(${given(e.parameters)})`,
  branch: (e) => `condition ${e.source?.text ?? e.name}: ${e.value ? "yes" : "no"}`,
  assign: (e) => `${e.field.replace(/^scalars\./, "")}: ${shown(e.before)} becomes ${shown(e.after)}`,
  extern_call: (e) => `${e.extern}${e.of ? ` ${short(e.of)}` : ""}${"result" in e ? ` gives ${shown(e.result)}` : ""}${"index" in e ? ` at ${e.index}` : ""}${"member" in e ? `: member ${e.member}` : ""}`,
  mark_to_drop: () => "the packet is marked to be dropped",
  clone: (e) => `clone to session ${e.session ?? ""}`,
  multicast: (e) => `multicast to group ${e.group ?? ""}`,
  log_message: (e) => `log: ${e.text}`,
  assertion: (e) => `assertion: ${e.value ? "holds" : "fails"}`,
  queue: (e) => `queue of port ${e.port}, priority ${e.priority}: found ${e.depth_found} packets, waited ${e.wait_ticks} ticks`,
  deparser_emit: (e) => `header ${e.header} is written`,
};

export const says = (event) => (SAYS[event.kind]?.(event) ?? event.kind);

export function outcomeText(outcome) {
  if (!outcome) return "still in flight";
  return outcome.output ? `leaves by port ${outcome.output.port}` : `dropped: ${outcome.dropped.reason}`;
}
