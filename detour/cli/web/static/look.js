// SPDX-License-Identifier: Apache-2.0
// Colours and texts that all parts share.

// Use of a link, from idle to full: light to dark and blue to orange, told apart without red and green (cividis-like).
const STEPS = [[0, 0, 82, 147], [0.25, 60, 112, 150], [0.5, 150, 140, 110], [0.75, 214, 170, 60], [1, 240, 120, 0]];

export function useColour(use) {
  let k = 1;
  while (k < STEPS.length - 1 && use > STEPS[k][0]) k++;
  const [low, ...from] = STEPS[k - 1], [high, ...to] = STEPS[k];
  const part = Math.min(1, Math.max(0, (use - low) / (high - low)));
  return `rgb(${from.map((value, i) => Math.round(value + part * (to[i] - value))).join(" ")})`;
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const percent = (x) => `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`;
export const natural = (a, b) => a.localeCompare(b, "en", { numeric: true });

export function clock(seconds) {
  const whole = Math.max(0, seconds), minutes = Math.floor(whole / 60);
  return `${minutes}:${(whole - 60 * minutes).toFixed(1).padStart(4, "0")}`;
}

// An element with properties and children; text is never read as HTML.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// `columns`: [head, value of a row, is a number]; `pick`: what a click or Enter on a row does.
export function table(columns, rows, pick = null, mark = () => "") {
  const heads = columns.map(([head, , number]) => make("th", { class: number ? "n" : "" }, head));
  const body = rows.map((row) => {
    const cells = columns.map(([, value, number]) => make("td", { class: number ? "n" : "" }, String(value(row))));
    const line = make("tr", { class: `${pick ? "pick" : ""} ${mark(row)}`, tabindex: pick ? "0" : null }, ...cells);
    if (pick) {
      line.addEventListener("click", () => pick(row));
      line.addEventListener("keydown", (event) => event.key === "Enter" && pick(row));
    }
    return line;
  });
  return make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body));
}

// A rate in megabits a second with the unit that suits it.
export function rateText(mbps) {
  const [factor, unit] = mbps >= 1000 ? [1e-3, "Gb/s"] : mbps >= 1 || !mbps ? [1, "Mb/s"] : [1000, "kb/s"];
  return `${Number((factor * mbps).toPrecision(3))} ${unit}`;
}

// A field to type into, wide enough for its placeholder.
export function field(placeholder, properties = {}) {
  return make("input", { placeholder, size: placeholder.length + 1, "aria-label": placeholder, ...properties });
}

// The next number of 1, 2, 5, 10... that is no less: where a scale ends.
function roundedUp(value) {
  const unit = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((k) => Number((k * unit).toPrecision(1))).find((top) => top >= value);
}

// Values over time with their scale. `text`: a value with its unit; `begin`, `end`: times as they are shown; `top`:
// where the scale ends (default: behind the largest value).
export function chart(values, label, text, [begin, end], top = roundedUp(Math.max(0, ...values))) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg"), line = document.createElementNS(space, "polyline");
  picture.setAttribute("viewBox", `0 0 ${Math.max(1, values.length - 1)} 40`);
  picture.setAttribute("preserveAspectRatio", "none");
  line.setAttribute("points", values.map((value, i) => `${i},${39 - (38 * value) / top}`).join(" "));
  picture.append(line);
  return make("figure", { class: "chart", role: "img", "aria-label": `${label}: ${text(values.at(-1) ?? 0)}` },
    picture, make("span", {}, text(top)), make("span", {}, text(0)), make("span", {}, begin), make("span", {}, end));
}
