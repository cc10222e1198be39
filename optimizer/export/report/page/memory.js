import { byId, element, nameText, svg, swatch, tailText } from "./dom.js";
import { bytesText, percentText } from "./units.js";

const BANDS = ["weight", "tensor", "result", "circular_buffers", "temporaries"];
const NAMES = { weight: "weights", tensor: "tensors", result: "results", circular_buffers: "circular buffers", temporaries: "temporaries" };
const LISTED = 7;
const HEIGHT = 1000;

/** L1 per core over the schedule: bands, limit, and at one step what lies there. */
export class MemoryChart {
  constructor(plan, choice) {
    Object.assign(this, { plan, choice, steps: plan.memory.steps, at: null });
    const place = byId("memory");
    if (!this.steps.length) {
      place.append(element("p", { class: "card note" }, "This document states no L1 figures of its ops."));
      return;
    }
    this.totals = this.steps.map((step) => step.slice(1).reduce((sum, bytes) => sum + bytes, 0));
    this.top = Math.max(plan.memory.limit_bytes, ...this.totals) * 1.04;
    place.append(element("div", { class: "card" }, this.chart(), this.readout = element("div", { class: "readout", "aria-live": "off" })));
    byId("memory-legend").append(...BANDS.map((band) => element("span", { class: "entry" }, swatch(band), NAMES[band])));
    this.point(this.totals.indexOf(Math.max(...this.totals)));
    choice.watch((op) => op !== null && plan.steps.has(op) && this.point(plan.steps.get(op)));
  }

  chart() {
    const { limit_bytes: limit } = this.plan.memory;
    const drawing = svg("svg", { viewBox: `0 0 ${this.steps.length} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const below = this.steps.map(() => 0);
    const y = (bytes) => HEIGHT * (1 - bytes / this.top);
    BANDS.forEach((band, at) => {
      const above = below.map((bytes, step) => bytes + this.steps[step][at + 1]);
      const area = svg("path", { d: outline(above.map(y), below.map(y)) });
      area.style.fill = `var(--${band})`;
      drawing.append(area);
      above.forEach((bytes, step) => { below[step] = bytes; });
    });
    const line = (bytes, kind) => svg("line", { x1: 0, x2: this.steps.length, y1: y(bytes), y2: y(bytes), class: kind });
    const marks = evenBytes(limit);
    drawing.append(...marks.map((bytes) => line(bytes, "line")), line(limit, "limit-line"));
    drawing.append(this.cursor = svg("rect", { y: 0, width: 1, height: HEIGHT, class: "cursor" }));
    const axis = (bytes, kind, text) => this.axis(bytes, kind, text);
    const box = element("div", { class: "chart" }, drawing, marks.map((bytes) => axis(bytes, "axis", bytesText(bytes).replace(".0", ""))),
      axis(limit, "axis limit", `limit ${bytesText(limit)}`), this.ticks(), this.slider = this.handle());
    return box;
  }

  axis(bytes, kind, text) {
    const made = element("span", { class: kind, "aria-hidden": "true" }, text);
    made.style.top = `calc(var(--top) + (100% - var(--top) - var(--foot)) * ${1 - bytes / this.top})`;
    return made;
  }

  ticks() {
    const count = Math.min(6, this.steps.length);
    return Array.from({ length: count }, (_, n) => {
      const step = count === 1 ? 0 : Math.round((n * (this.steps.length - 1)) / (count - 1));
      const made = element("span", { class: "tick", "aria-hidden": "true" }, `${n ? "" : "op "}${this.steps[step][0]}`);
      const share = (step + 0.5) / this.steps.length;
      made.style.left = `calc(var(--left) + (100% - var(--left) - var(--right)) * ${share})`;
      return made;
    });
  }

  handle() {
    const made = element("div", {
      class: "slider", role: "slider", tabindex: "0", "aria-label": "Position in the schedule", "aria-valuemin": "0",
      "aria-valuemax": this.steps.length - 1, "aria-describedby": "memory-heading",
    });
    const under = (event) => {
      const box = made.getBoundingClientRect();
      return Math.min(this.steps.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * this.steps.length)));
    };
    made.addEventListener("pointermove", (event) => this.point(under(event)));
    made.addEventListener("click", (event) => {
      this.point(under(event));
      this.choice.choose(this.steps[this.at][0]);
    });
    made.addEventListener("pointerleave", () => this.choice.op !== null && this.plan.steps.has(this.choice.op) && this.point(this.plan.steps.get(this.choice.op)));
    made.addEventListener("keydown", (event) => this.key(event));
    return made;
  }

  key(event) {
    const last = this.steps.length - 1;
    const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -last, End: last };
    if (event.key === "Enter" || event.key === " ") this.choice.choose(this.steps[this.at][0]);
    else if (moves[event.key]) this.point(Math.min(last, Math.max(0, this.at + moves[event.key])));
    else return;
    event.preventDefault();
  }

  /** Tell of one step. */
  point(step) {
    if (step === this.at) return;
    this.at = step;
    this.cursor.setAttribute("x", step);
    const op = this.plan.ops[this.steps[step][0]];
    const { limit_bytes: limit } = this.plan.memory;
    const total = this.totals[step];
    this.slider.setAttribute("aria-valuenow", step);
    this.slider.setAttribute("aria-valuetext", `${op.kind} ${this.plan.label(op)}: ${bytesText(total)} of ${bytesText(limit)}`);
    const parts = BANDS.map((band, at) => element("li", {}, element("span", { class: "place" }, swatch(band), NAMES[band]),
      element("span", { class: "number" }, bytesText(this.steps[step][at + 1]))));
    const title = element("button", { type: "button", class: "link", onclick: () => this.choice.choose(op.at) }, op.kind, " ", nameText(this.plan.label(op), this.plan.name(op)));
    this.readout.replaceChildren(
      element("div", {}, element("p", {}, title), element("p", {}, element("b", {}, bytesText(total)), ` of ${bytesText(limit)} (${percentText(total / limit)}), op ${op.at}`), element("ul", {}, parts)),
      element("div", {}, element("p", { class: "muted" }, "in L1 then, per core"), element("ul", {}, this.values(step))),
    );
  }

  values(step) {
    const held = this.plan.memory.held.filter(([, first, last]) => first <= step && step <= last);
    held.sort((a, b) => (a.length - b.length) || b[3] - a[3] || a[0] - b[0]);
    const lines = held.slice(0, LISTED).map(([value, , , bytes, alias]) => element("li", {}, tailText(this.plan.values[value].id, this.plan.values[value].id),
      element("span", { class: "number" }, alias === undefined ? bytesText(bytes) : "in another's buffer")));
    if (!held.length) lines.push(element("li", { class: "muted" }, "nothing but what the op itself takes"));
    if (held.length > LISTED) lines.push(element("li", { class: "muted" }, `and ${held.length - LISTED} more`));
    return lines;
  }
}

/** From nothing to a limit in steps of a power of two, none near the limit itself. */
function evenBytes(limit) {
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, limit) / 6));
  const count = Math.ceil((0.94 * limit) / step);
  return Array.from({ length: count }, (_, at) => at * step);
}

/** Steps of one unit each: along the upper edge, and back along the lower one. */
function outline(upper, lower) {
  const there = upper.map((y, at) => `${at ? "L" : "M"}${at} ${round(y)}H${at + 1}`);
  const back = lower.map((y, at) => `L${at + 1} ${round(y)}H${at}`).reverse();
  return `${there.join("")}${back.join("")}Z`;
}

function round(y) {
  return Math.round(y * 10) / 10;
}
