// SPDX-License-Identifier: Apache-2.0
// A frame taken apart by a program's parser, so that it can be changed field by field: bytes, and what they mean.

export const bytesOf = (hex) => Uint8Array.from((hex.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));
export const hexOf = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export function bitsAt(bytes, offset, count) {
  let value = 0n;
  for (let i = offset; i < offset + count; i++) value = value << 1n | BigInt((bytes[i >> 3] ?? 0) >> (7 - (i & 7)) & 1);
  return value;
}

export function setBits(bytes, offset, count, value) {
  for (let i = 0; i < count; i++) {
    const at = offset + i, bit = 7 - (at & 7), on = Number(value >> BigInt(count - 1 - i) & 1n);
    bytes[at >> 3] = (bytes[at >> 3] & ~(1 << bit)) | on << bit;
  }
}

// The frame in as many bytes as its headers need, zeros behind what was there.
export function longEnough(bytes, bits) {
  const need = Math.ceil(bits / 8);
  if (bytes.length >= need) return bytes;
  const longer = new Uint8Array(need);
  longer.set(bytes);
  return longer;
}

const OPS = {
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "&": (a, b) => a & b, "|": (a, b) => a | b,
  "^": (a, b) => a ^ b, "<<": (a, b) => a << b, ">>": (a, b) => a >> b, "==": (a, b) => BigInt(a === b),
  "!=": (a, b) => BigInt(a !== b), "<": (a, b) => BigInt(a < b), ">": (a, b) => BigInt(a > b), "<=": (a, b) => BigInt(a <= b),
  ">=": (a, b) => BigInt(a >= b), and: (a, b) => a && b, or: (a, b) => a || b,
};

// Runs the parser over bytes, which grow as headers need them. Gives `headers` (name, fields with offset, bits and
// value), `turns` (where it chose: state, key, options, taken), `length` of all headers in bits, and `bytes`.
export function dissect(pipeline, start, port) {
  const run = { bytes: start, at: 0, values: new Map([["standard_metadata.ingress_port", BigInt(port)]]), headers: [], turns: [], where: new Map(), counts: new Map() };
  let state = pipeline.parser.first;
  for (let steps = 0; state && steps < 64; steps++) {
    const about = pipeline.parser.states[state];
    if (!about) break;
    for (const op of about.ops) {
      if (op.extract) extract(pipeline, run, op);
      else run.values.set(op.set.join("."), evaluate(run, op.to));
    }
    state = turn(run, state, about);
  }
  return { bytes: run.bytes, headers: run.headers, turns: run.turns, length: run.at };
}

function extract(pipeline, run, op) {
  let name = op.extract, { fields } = pipeline.headers[name];
  if (op.stack) {
    const number = run.counts.get(name) ?? 0;
    run.counts.set(name, number + 1);
    name = pipeline.headers[op.extract].members[number] ?? `${name}[${number}]`;
  }
  const cut = [];
  let at = run.at;
  for (const [field, width] of fields) {
    const bits = width === "*" ? Number(evaluate(run, { type: "expression", value: op.length }) ?? 0n) : width;
    run.bytes = longEnough(run.bytes, at + bits);
    const value = bitsAt(run.bytes, at, bits), path = `${name}.${field}`;
    cut.push({ field, offset: at, bits, value });
    run.values.set(path, value);
    run.where.set(path, [at, bits]);
    if (op.stack) { run.values.set(`${op.extract}.${field}`, value); run.where.set(`${op.extract}.${field}`, [at, bits]); }
    at += bits;
  }
  run.headers.push({ name, fields: cut });
  run.at = at;
}

// A value of the program's JSON; null: not known before it runs.
function evaluate(run, node) {
  const { type, value } = node ?? {};
  if (type === "hexstr") return BigInt(value);
  if (type === "bool") return BigInt(value);
  if (type === "field" || type === "stack_field") return run.values.get(value.join(".")) ?? (value[0] === "scalars" ? 0n : null);
  if (type === "lookahead") { run.bytes = longEnough(run.bytes, run.at + value[0] + value[1]); return bitsAt(run.bytes, run.at + value[0], value[1]); }
  if (type !== "expression") return null;
  if (value.type) return evaluate(run, value);
  const { op, left, right } = value;
  const b = evaluate(run, right);
  if (["d2b", "b2d", "usat_cast", "sat_cast"].includes(op)) return b;
  if (op === "?") return evaluate(run, value.cond) ? evaluate(run, left) : b;
  const a = left === null || left === undefined ? 0n : evaluate(run, left);
  return a === null || b === null || !OPS[op] ? null : BigInt(OPS[op](a, b));
}

// Where the parser goes on. A key of several parts is their bytes one after the other.
function turn(run, state, about) {
  const parts = about.key.map((part) => {
    const value = evaluate(run, part);
    const place = part.type === "lookahead" ? [run.at + part.value[0], part.value[1]] : run.where.get(part.value?.join?.("."));
    return { name: part.type === "lookahead" ? "what follows" : part.value.join("."), value, place: place ?? null, bytes: place ? Math.ceil(place[1] / 8) : null };
  });
  const whole = parts.length === 1 ? parts[0].value : parts.every((part) => part.value !== null && part.bytes)
    ? parts.reduce((sum, part) => sum << BigInt(8 * part.bytes) | part.value, 0n) : null;
  const fits = ({ value, mask, kind }) => kind === "default" || (kind === "hexstr" && whole !== null
    && (mask ? (whole & BigInt(mask)) === (BigInt(value) & BigInt(mask)) : whole === BigInt(value)));
  const taken = about.transitions.findIndex(fits);
  if (about.key.length) run.turns.push({ state, parts, options: about.transitions, taken });
  return about.transitions[taken]?.next ?? null;
}

// The frame in which a turn is another one: its key's bits are written, if they stand in the frame.
export function turned(bytes, turn, option) {
  const changed = Uint8Array.from(bytes), { value } = turn.options[option];
  if (value === null || !turn.parts.every((part) => part.place)) return null;
  let rest = BigInt(value);
  for (const part of [...turn.parts].reverse()) {
    setBits(changed, part.place[0], part.place[1], rest & ((1n << BigInt(part.place[1])) - 1n));
    rest >>= BigInt(8 * part.bytes);
  }
  return changed;
}

// What somebody typed into a field: a number, an IPv6 or IPv4 address, a MAC. Null: none of them, or too large.
export function typed(text, bits) {
  const plain = text.trim().toLowerCase();
  let value = null;
  if (/^(0x[0-9a-f]+|\d+)$/.test(plain)) value = BigInt(plain);
  else if (bits === 48 && /^([0-9a-f]{1,2}:){5}[0-9a-f]{1,2}$/.test(plain)) value = BigInt(`0x${plain.split(":").map((part) => part.padStart(2, "0")).join("")}`);
  else if (bits === 32 && /^(\d{1,3}\.){3}\d{1,3}$/.test(plain) && plain.split(".").every((part) => part < 256)) value = plain.split(".").reduce((sum, part) => sum << 8n | BigInt(part), 0n);
  else if (bits === 128 && plain.includes(":")) value = ipv6Value(plain);
  return value !== null && value < 1n << BigInt(bits) ? value : null;
}

function ipv6Value(text) {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [front, back] = halves.map((half) => (half ? half.split(":") : []));
  const words = back === undefined ? front : [...front, ...Array(Math.max(0, 8 - front.length - back.length)).fill("0"), ...back];
  if (words.length !== 8 || !words.every((word) => /^[0-9a-f]{1,4}$/.test(word))) return null;
  return words.reduce((sum, word) => sum << 16n | BigInt(`0x${word}`), 0n);
}
