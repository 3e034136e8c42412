// SPDX-License-Identifier: Apache-2.0
// What stands beside the picture: links, flows, a path, traffic, and one thing that was chosen.

import { change, get } from "./net.js";
import { chart, field, make, natural, percent, rateText, table } from "./look.js";

const SHOWN = 40;

// A part of the page that can change the fabric: a button whose form says what came of it.
export function act(text, work, page, properties = {}) {
  if (page.kind === "run") return null;  // nothing can be changed in it
  const button = make("button", { type: "button", ...properties }, text);
  button.disabled = !page.writable;
  button.title = page.writable ? "" : "read-only: open the address with the token that `detour web` printed";
  button.addEventListener("click", async () => {
    button.disabled = true;
    await page.answer(button.form.querySelector("output"), work);
    button.disabled = !page.writable;
  });
  return button;
}

// A form of such parts, which a run does not have. `name`: one of the view's.
const acts = (page, name, ...parts) => (page.kind === "run" ? null
  : make("form", { class: "row", onsubmit: (event) => event.preventDefault() }, ...parts, page.answerOf(name)));

const packets = (count) => `${count} packets`;
const COUNTED = [["queue, packets", "queue"], ["drops", "drops"], ["marks", "marks"]];
const counted = (value) => COUNTED.map(([head, what]) => [head, value(what), true]);

// A chart of something that samples say.
function over(page, what, label, text, top) {
  return [make("h3", {}, label), chart(page.store.history(what), label, text, page.store.spanned, top)];
}

export function links(page) {
  const { store } = page;
  const rows = store.graph.links.map((link) => ({ link, ...store.of(link) }))
    .sort((a, b) => a.up - b.up || b.use - a.use || natural(a.link.name, b.link.name));
  const columns = [
    ["link", (row) => row.link.name], ["use", (row) => (row.up ? percent(row.use) : "down"), true],
    ...counted((what) => (row) => row[what]),
  ];
  return [
    make("p", { class: "soft" }, `${rows.length} links, the ${Math.min(SHOWN, rows.length)} busiest. Drops and marks: packets since the sample before.`),
    table(columns, rows.slice(0, SHOWN), (row) => page.choose("link", row.link.name), (row) => (row.up ? "" : "down")),
    acts(page, "heal", act("Heal everything", async () => `${(await change("heal", {})).healed || "nothing"} is back`, page)),
  ];
}

export function flows(page) {
  const rows = [...(page.store.now?.flows ?? [])].sort((a, b) => natural(a.name, b.name));
  if (!rows.length) return [make("p", { class: "soft" }, page.kind === "run" ? "No active flows at this moment." : "No active flows. “Traffic” starts a load, or sends.")];
  const columns = [
    ["flow", (row) => row.name], ["rate", (row) => rateText(row.mbps), true], ["ECN", (row) => percent(row.ecn), true],
    [`delay, ${page.store.delayUnit}`, (row) => page.store.delay(row.delay_ms), true], ["path", (row) => row.path],
  ];
  const more = page.store.now?.flows_left_out;
  return [table(columns, rows, (row) => page.choose("flow", row.name)), more ? make("p", { class: "soft" }, `and ${more} slower ones`) : null];
}

// -- the one that was chosen ---------------------------------------------------------------------------------

export function link(page, name) {
  const { store } = page, cable = store.links.get(name), now = store.of(cable);
  const impaired = store.now?.impaired.find((row) => row.link === name);
  const rows = cable.places.map((place, i) => ({ place, port: cable.ports[i] })).filter(({ place }) => place >= 0);
  const value = (what) => (row) => (store.now ? store.now[what][row.place] : 0);
  const columns = [
    ["from", (row) => row.port], ["use", (row) => percent(value("use")(row)), true], ...counted(value),
  ];
  const state = now.up ? (impaired ? `${percent(impaired.rate)} of its rate, loses ${percent(impaired.loss)}` : "up") : "down";
  const rate = make("input", { type: "number", min: "1", max: "100", value: "50", "aria-label": "percent of its rate" });
  const loss = make("input", { type: "number", min: "0", max: "99", step: "0.1", value: "1", "aria-label": "percent of frames lost" });
  return [
    make("h2", {}, `Link ${name}`), make("p", { class: now.up ? "soft" : "bad" }, `${cable.kind}, ${state}`),
    table(columns, rows),
    ...over(page, (s) => store.of(cable, s).use, "Use", percent, 1), ...over(page, (s) => store.of(cable, s).queue, "Queue", packets),
    acts(page, "state",
      act("Fail", async () => tables("down", name, await change("fail", { name })), page, { id: "fail" }),
      act("Heal", async () => tables("back", name, await change("heal", { name })), page, { id: "heal" })),
    acts(page, "rate", rate, "% of its rate",
      act("Throttle", async () => (await change("impair", { link: name, rate: rate.value / 100 }), `${name} is slower`), page)),
    acts(page, "loss", loss, "% of frames",
      act("Lose", async () => (await change("impair", { link: name, loss: loss.value / 100 }), `${name} loses frames`), page),
      act("As it was", async () => (await change("impair", { link: name, clear: true }), `${name} is as it was`), page)),
  ];
}

function tables(what, name, answer) {
  return `${name} is ${what}: ${answer.inserted} entries inserted, ${answer.modified} modified, ${answer.deleted} deleted`;
}

// Of a run in virtual time: what its samples say of a switch's ports.
function switchOfRun(page, name) {
  const { store } = page, mine = store.state.directions.map((d, place) => ({ ...d, place })).filter(({ from }) => from.startsWith(`${name}:`));
  const value = (what) => (row) => (store.now ? store.now[what][row.place] : 0);
  return [
    make("h2", {}, `Switch ${name}`),
    ...over(page, (s) => mine.reduce((sum, { place }) => sum + s.queue[place], 0), "Queues", packets),
    make("h3", {}, "Ports"),
    table([["port", (r) => r.from], ["link", (r) => r.link], ["use", (r) => percent(value("use")(r)), true], ...counted(value)], mine, (r) => page.choose("link", r.link)),
  ];
}

function clients(p4runtime) {
  const controllers = p4runtime.clients ?? [];
  const columns = [["role", (r) => r.role || "default"], ["election id", (r) => r.election_id ?? "–"], ["", (r) => (r.primary ? "primary" : "backup")], ["from", (r) => r.peer]];
  return controllers.length ? table(columns, controllers) : null;
}

export async function switchPanel(page, name) {
  if (page.kind === "run") return switchOfRun(page, name);
  const { store } = page, node = await get("switch", { name });
  const ports = Object.entries(node.ports).map(([port, counts]) => ({ port, ...counts }));
  const mine = store.state.directions.map((d, i) => [d.from, i]).filter(([from]) => from.startsWith(`${name}:`));
  const byTable = Map.groupBy ? Map.groupBy(node.entries, (row) => row.table) : group(node.entries);
  const entry = [["match", (row) => row.match], ["action", (row) => row.action], ["priority", (row) => row.priority || "", true]];
  return [
    make("h2", {}, `Switch ${name}`),
    make("p", { class: "soft" }, `group ${node.group}, uSID ${node.node_id.toString(16)}, device id ${node.p4runtime.device_id}`),
    make("p", { class: "soft" }, `P4Runtime ${node.p4runtime.address}; primary: ${node.p4runtime.primary}`),
    clients(node.p4runtime),
    node.p4runtime.lost ? make("p", { class: "bad" }, node.p4runtime.lost) : null,
    ...over(page, (s) => mine.reduce((sum, [, i]) => sum + s.queue[i], 0), "Queues", packets),
    acts(page, "state",
      act("Fail", async () => tables("down", name, await change("fail", { name })), page),
      act("Heal", async () => tables("back", name, await change("heal", { name })), page)),
    make("h3", {}, "Ports"),
    table([["port", (r) => r.port, true], ["in", (r) => r.rx_packets, true], ["out", (r) => r.tx_packets, true],
      ["marked", (r) => r.marked_packets, true]], ports),
    make("h3", {}, "Packets by result"),
    make("p", {}, Object.entries(node.verdicts).map(([verdict, count]) => `${verdict} ${count}`).join(", ") || "nothing yet"),
    make("h3", {}, "Tables"),
    ...[...byTable].map(([named, rows]) => make("details", { "data-keep": `${name} ${named}` },
      make("summary", {}, `${named} (${rows.length})`), table(entry, rows.slice(0, 500)))),
  ];
}

function group(rows) {
  const tables = new Map();
  for (const row of rows) tables.set(row.table, [...(tables.get(row.table) ?? []), row]);
  return tables;
}

export function host(page, name) {
  const node = page.store.nodes.get(name);
  const to = field(`to, like ${page.store.examples.target}`, { list: "names" });
  return [
    make("h2", {}, `Host ${name}`), make("p", { class: "soft" }, `at ${node.switch}`),
    acts(page, "to", to,
      make("button", { type: "button", onclick: () => page.go("path", { source: name, target: to.value.trim() }) }, "Path"),
      make("button", { type: "button", onclick: () => page.go("packet", { source: name, target: to.value.trim() }) }, "Packet")),
    make("h3", {}, "Its flows"),
    ...flows({ kind: page.kind, choose: (...which) => page.choose(...which), store: { delayUnit: page.store.delayUnit, delay: (ms) => page.store.delay(ms), now: { flows: (page.store.now?.flows ?? [])
      .filter((flow) => page.store.ends(flow.name).includes(name)) } } }),
  ];
}

export async function flow(page, name) {
  const { store } = page, [source, target] = store.ends(name);
  const now = store.now?.flows.find((row) => row.name === name);
  // Of a flow that has ended only what was seen is known.
  const { paths } = page.kind === "fabric" && !now && store.knows(name) ? { paths: [] } : await get("flow", { name });
  const of = (what) => (s) => s.flows.find((row) => row.name === name)?.[what] ?? 0;
  const probe = act("Probe all candidates", async () => {
    const probed = await change("probe", { source, target });
    return [`${probed.paths.length} candidates of ${name}`,
      table([["path", (r) => r.path], ["waits, ms", (r) => (r.delay_ns === null ? "no answer" : (r.delay_ns / 1e6).toFixed(3)), true],
        ["switches", (r) => r.switches.join(" ")]], probed.paths, (r) => page.light([source, ...r.switches, target]))];
  }, page);
  if (paths.length) page.lightPath(source, target, paths.at(-1));
  const list = field(`uSIDs, like ${store.examples.usids}`);
  return [
    make("h2", {}, `Flow ${name}`),
    make("p", { class: now ? "" : "soft" }, now ? `${rateText(now.mbps)}, window ${now.cwnd.toFixed(1)} packets, ${percent(now.ecn)} with marks, waits ${store.delayText(now.delay_ms)}` : "does not send now"),
    ...over(page, of("mbps"), "Rate", rateText), ...over(page, of("delay_ms"), "Queuing delay", (ms) => store.delayText(ms)),
    ...over(page, of("cwnd"), "Window", packets),
    make("h3", {}, "Paths, latest first"),
    table([["since", (r) => store.clock(r.t)], ["path", (r) => r.path]], [...paths].reverse(), (r) => page.lightPath(source, target, r)),
    acts(page, "probe", probe),
    acts(page, "reroute", list,
      act("Reroute", async () => `${name} goes by ${(await change("reroute", { flow: name, usid: list.value.trim() })).switches.join(" ")}`, page)),
  ];
}

// -- a path, and traffic ---------------------------------------------------------------------------------------

// Two hosts, and what chooses a path between them.
export function pathFields({ store: { examples } }, given) {
  const texts = { source: `from, like ${examples.source}`, target: `to, like ${examples.target}`, sport: "source port, like 0x8001", usid: `or uSIDs, like ${examples.usids}` };
  return Object.entries(texts).map(([name, text]) => field(text, { name, value: given[name] ?? "", list: /source|target/.test(name) && "names" }));
}

export function path(page, given) {
  const fields = pathFields(page, given);
  const hops = make("div", { id: "hops" });
  const form = make("form", { class: "row", id: "pathform" }, ...fields, make("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    page.go("path", Object.fromEntries(fields.map((f) => [f.name, f.value.trim()]).filter(([, value]) => value)));
  });
  if (given.source && given.target) {
    get("path", given).then((answer) => {
      page.light([given.source, ...page.stops(answer.hops), ...(answer.delivered ? [given.target] : [])]);
      const columns = [["switch", (hop) => hop.switch], ["in", (hop) => hop.in_port, true], ["out", (hop) => hop.out_port ?? "–", true],
        ...(given.usid ? [["comes with", (hop) => hop.address]] : []), ["because of", (hop) => hop.why]];
      hops.replaceChildren(make("p", { class: answer.delivered ? "" : "bad" }, `${answer.path}: ${answer.outcome}`),
        table(columns, answer.hops, (hop) => page.choose("switch", hop.switch)));
    }, (error) => hops.replaceChildren(make("p", { class: "error" }, error.message)));
  }
  return [make("p", { class: "soft" }, "The hops of a packet, from the switches’ tables. Source ports from 0x8000 on are detours."), form, hops];
}

export function traffic(page) {
  const pattern = make("input", { value: "adv1", list: "patterns", "aria-label": "pattern" });
  const { examples } = page.store;
  const source = field(`from, like ${examples.source}`, { list: "names", id: "from" });
  const target = field(`to, like ${examples.target}`, { list: "names", id: "to" });
  const bytes = make("input", { type: "number", value: "1000000", min: "1", "aria-label": "bytes" });
  return [
    make("h2", {}, "Continuous traffic"),
    make("datalist", { id: "patterns" }, ...["adv1", "adv2", "unf", "permutation"].map((value) => make("option", { value }))),
    acts(page, "load", pattern,
      act("Begin", async () => { const on = await change("load", { pattern: pattern.value.trim() }); return `${on.pattern}: ${on.pairs} connections`; }, page, { id: "begin" }),
      act("End", async () => { const on = await change("load", { stop: true }); return `${on.pattern} has ended: ${(on.bytes_ok / 1e6).toFixed(1)} MB arrived as sent`; }, page, { id: "end" })),
    make("h2", {}, "A message"),
    acts(page, "send", source, target, bytes, "bytes",
      act("Send", async () => {
        const sent = await change("send", { source: source.value.trim(), target: target.value.trim(), length: Number(bytes.value) });
        return `${sent.bytes_ok} bytes arrived as sent, ${rateText(sent.throughput_mbps)} over ${sent.paths.length} paths`;
      }, page, { id: "send" })),
    make("p", { class: "soft" }, page.writable ? "" : "Read-only: open the address with the token that `detour web` printed to change something."),
  ];
}
