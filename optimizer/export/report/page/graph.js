import { Painter } from "./canvas.js";
import { byId, element, nameText, swatch } from "./dom.js";
import { PLACEMENTS } from "./plan.js";
import { counted, timeText } from "./units.js";

const LARGEST = 3;
const STEP = 1.25;
/** Scale at which a chosen op is at least shown. */
const CLOSE = 0.85;
/** Milliseconds after the page has scrolled in which the wheel goes on scrolling it. */
const SCROLLING = 350;

/** The graph on its canvas: moved, zoomed, pointed at, walked through by keys. */
export class GraphView {
  constructor(plan, choice) {
    Object.assign(this, { plan, choice, canvas: byId("graph") });
    this.painter = new Painter(this.canvas, plan);
    this.nodeOf = new Map();
    plan.graph.nodes.forEach(([kind, at], index) => {
      if (kind === "op" || kind === "copy") this.nodeOf.set(at, index);
    });
    this.view = { x: 0, y: 0, scale: 1 };
    this.shown = { chosen: null, hovered: null, kept: null, colouring: "placement" };
    this.pointers = new Map();
    this.lastScroll = 0;
    this.listen();
    this.legend();
    this.start();
    choice.watch((op) => this.choose(op));
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    byId("zoom-in").addEventListener("click", () => this.zoom(STEP));
    byId("zoom-out").addEventListener("click", () => this.zoom(1 / STEP));
    byId("zoom-fit").addEventListener("click", () => this.fit());
    byId("colour").addEventListener("change", (event) => {
      this.shown.colouring = event.target.value;
      if (byId("legend").querySelector("[aria-pressed=true]")) this.keep(null);
      this.legend();
      this.redraw();
    });
    window.addEventListener("scroll", () => { this.lastScroll = performance.now(); }, { passive: true });
    new ResizeObserver(() => (this.fitted ? this.fit() : this.redraw())).observe(canvas);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.painter.readTheme();
      this.redraw();
    });
  }

  redraw() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.painter.draw(this.view, this.shown);
    });
  }

  // -- where it is looked at --------------------------------------------------------------------
  whole() {
    const { width, height } = this.plan.graph;
    return Math.min(this.canvas.clientWidth / width, this.canvas.clientHeight / height, 1.25);
  }

  fit() {
    const scale = this.whole();
    const { width, height } = this.plan.graph;
    this.view = { scale, x: (this.canvas.clientWidth - width * scale) / 2, y: (this.canvas.clientHeight - height * scale) / 2 };
    this.fitted = true;
    this.redraw();
  }

  /** At first the whole graph, unless the canvas is so narrow that nothing could be read: then its beginning. */
  start() {
    this.fit();
    const { width, height } = this.plan.graph;
    if (this.canvas.clientWidth >= this.canvas.clientHeight || width < height) return;
    const scale = Math.max(CLOSE, this.view.scale);
    this.view = { scale, x: 0, y: Math.max(0, (this.canvas.clientHeight - height * scale) / 2) };
    this.fitted = false;
  }

  /** Zoom about a point of the canvas, its middle by default. */
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(LARGEST, Math.max(Math.min(this.whole(), 1), this.view.scale * factor));
    const kept = scale / this.view.scale;
    this.view = { scale, x: x - (x - this.view.x) * kept, y: y - (y - this.view.y) * kept };
    this.fitted = false;
    this.redraw();
  }

  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.keepInSight();
    this.fitted = false;
    this.redraw();
  }

  /** Some of the graph stays on the canvas. */
  keepInSight() {
    const { width, height } = this.plan.graph;
    const margin = 60;
    const within = (value, size, room) => Math.min(room - margin, Math.max(margin - size * this.view.scale, value));
    this.view.x = within(this.view.x, width, this.canvas.clientWidth);
    this.view.y = within(this.view.y, height, this.canvas.clientHeight);
  }

  /** Bring a node to the middle of what the panel leaves free, large enough to read, with as little emptiness as can be. */
  show(index) {
    const [, , x, y, w, h] = this.plan.graph.nodes[index];
    const scale = Math.max(this.view.scale, CLOSE);
    this.fitted = false;
    const canvas = this.canvas.getBoundingClientRect();
    const panel = byId("panel").getBoundingClientRect();
    const room = {
      width: panel.width && panel.left > canvas.left ? Math.min(canvas.width, panel.left - canvas.left) : canvas.width,
      height: panel.width && panel.left <= canvas.left && panel.top > canvas.top ? Math.min(canvas.height, panel.top - canvas.top) : canvas.height,
    };
    const [left, top] = [x * scale + this.view.x, y * scale + this.view.y];
    const inside = left > 20 && top > 20 && left + w * scale < room.width - 20 && top + h * scale < room.height - 20;
    if (scale === this.view.scale && inside) return;
    const { width, height } = this.plan.graph;
    this.view = { scale, x: placed(x + w / 2, width, scale, room.width), y: placed(y + h / 2, height, scale, room.height) };
  }

  // -- pointers ---------------------------------------------------------------------------------
  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.moved = this.pointers.size > 1;
  }

  move(event) {
    if (!this.pointers.has(event.pointerId)) {
      this.hover(this.nodeAt(event.offsetX, event.offsetY), event);
      return;
    }
    const before = [...this.pointers.values()];
    const from = this.pointers.get(event.pointerId);
    const to = [event.offsetX, event.offsetY];
    if (!this.moved && Math.hypot(to[0] - from[0], to[1] - from[1]) < 4) return;
    this.moved = true;
    this.hover(null);
    this.canvas.classList.add("moving");
    this.pointers.set(event.pointerId, to);
    if (before.length === 2) this.pinch(before, [...this.pointers.values()]);
    else this.pan(to[0] - from[0], to[1] - from[1]);
  }

  pinch([a, b], [c, d]) {
    const middle = (p, q) => [(p[0] + q[0]) / 2, (p[1] + q[1]) / 2];
    const apart = (p, q) => Math.max(1, Math.hypot(p[0] - q[0], p[1] - q[1]));
    const [from, to] = [middle(a, b), middle(c, d)];
    this.pan(to[0] - from[0], to[1] - from[1]);
    this.zoom(apart(c, d) / apart(a, b), ...to);
  }

  release(event) {
    const clicked = this.pointers.delete(event.pointerId) && !this.moved && event.type === "pointerup";
    if (!this.pointers.size) this.canvas.classList.remove("moving");
    if (!clicked) return;
    const index = this.nodeAt(event.offsetX, event.offsetY);
    const op = index === null ? null : this.opOf(index);
    if (op !== null) this.choice.choose(op);
  }

  wheel(event) {
    const out = event.deltaY > 0;
    const zoomable = event.ctrlKey || !(out && this.view.scale <= this.whole() * 1.001);
    if (!event.ctrlKey && (!zoomable || performance.now() - this.lastScroll < SCROLLING)) return;
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 200 : 1);
    this.zoom(Math.exp(-Math.max(-200, Math.min(200, pixels)) * (event.ctrlKey ? 0.01 : 0.0018)), event.offsetX, event.offsetY);
  }

  nodeAt(left, top) {
    const [x, y] = [(left - this.view.x) / this.view.scale, (top - this.view.y) / this.view.scale];
    const near = 3 / this.view.scale;
    const found = this.plan.graph.nodes.findIndex(
      ([, , nx, ny, w, h]) => x >= nx - near && x <= nx + w + near && y >= ny - near && y <= ny + h + near,
    );
    return found < 0 ? null : found;
  }

  opOf(index) {
    const [kind, at] = this.plan.graph.nodes[index];
    return kind === "op" || kind === "copy" ? at : null;
  }

  hover(index, event = null) {
    const tip = byId("graph-tip");
    this.canvas.classList.toggle("over", index !== null);
    if (index === null) tip.hidden = true;
    else {
      tip.replaceChildren(...this.tipLines(index));
      tip.hidden = false;
      const left = Math.min(event.offsetX + 14, this.canvas.clientWidth - tip.offsetWidth - 4);
      const below = event.offsetY + 18 + tip.offsetHeight < this.canvas.clientHeight;
      tip.style.left = `${Math.max(4, left)}px`;
      tip.style.top = `${below ? event.offsetY + 18 : event.offsetY - tip.offsetHeight - 8}px`;
    }
    if (index === this.shown.hovered) return;
    this.shown.hovered = index;
    this.redraw();
  }

  tipLines(index) {
    const [kind, at] = this.plan.graph.nodes[index];
    const op = this.opOf(index) === null ? null : this.plan.ops[at];
    if (!op) {
      const value = this.plan.values[at];
      return [element("b", {}, kind), element("span", {}, nameText(value.id)), element("span", {}, value.type)];
    }
    const layout = op.outputs ? this.plan.layoutOf(op.outputs[0]) : null;
    return [
      element("b", {}, `${op.kind} \u00b7 ${timeText(op.time_ns)}`), element("span", {}, nameText(this.plan.name(op))),
      element("span", {}, layout ? layout.text : ""), element("span", { class: "muted" }, op.chain ? nameText(op.chain) : "in no chain"),
    ];
  }

  // -- keys ---------------------------------------------------------------------------------------
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = 60;
    const pans = { ArrowLeft: [far, 0], ArrowRight: [-far, 0], ArrowUp: [0, far], ArrowDown: [0, -far] };
    const acts = {
      "+": () => this.zoom(STEP), "=": () => this.zoom(STEP), "-": () => this.zoom(1 / STEP), 0: () => this.fit(),
      Enter: () => this.choice.op !== null && this.choice.choose(this.choice.op),
      Escape: () => this.choice.choose(null),
      Home: () => this.walk(() => 0), End: () => this.walk((at, last) => last),
    };
    if (event.shiftKey && pans[event.key]) this.pan(...pans[event.key]);
    else if (pans[event.key]) this.step(event.key);
    else if (acts[event.key]) acts[event.key]();
    else return;
    event.preventDefault();
  }

  /** Along the schedule, or along an edge to what is read or who reads. */
  step(key) {
    if (this.choice.op === null || !this.nodeOf.has(this.choice.op)) this.walk(() => 0);
    else if (key === "ArrowLeft") this.walk((at) => at - 1);
    else if (key === "ArrowRight") this.walk((at) => at + 1);
    else {
      const own = this.nodeOf.get(this.choice.op);
      const ends = key === "ArrowUp" ? [1, 0] : [0, 1];
      const next = this.plan.graph.edges.filter((edge) => edge[ends[0]] === own).map((edge) => this.opOf(edge[ends[1]]));
      const found = next.find((op) => op !== null);
      if (found !== undefined) this.choice.choose(found, this.isOpen());
    }
  }

  walk(next) {
    const drawn = [...this.nodeOf.keys()].sort((a, b) => a - b);
    if (!drawn.length) return;
    const to = next(drawn.indexOf(this.choice.op), drawn.length - 1);
    this.choice.choose(drawn[Math.min(drawn.length - 1, Math.max(0, to))], this.isOpen());
  }

  isOpen() {
    return !byId("panel").hidden;
  }

  choose(op) {
    const index = op === null ? null : this.nodeOf.get(op) ?? null;
    this.shown.chosen = index;
    if (index !== null) this.show(index);
    this.redraw();
    const { ops } = this.plan;
    byId("graph-says").textContent = op === null ? ""
      : `${ops[op].kind} ${this.plan.label(ops[op])}, ${PLACEMENTS[ops[op].placement]}, ${timeText(ops[op].time_ns)}`;
  }

  // -- what is kept bright ------------------------------------------------------------------------
  /** Fade all ops but these; null: none. */
  keep(ops) {
    this.shown.kept = ops === null ? null : new Set(ops.map((op) => this.nodeOf.get(op)).filter((index) => index !== undefined));
    this.redraw();
  }

  /** What the colours mean, and buttons that keep one placement bright. */
  legend() {
    const heat = this.shown.colouring === "time";
    byId("legend").replaceChildren(...(heat ? this.heatEntries() : this.placementButtons()));
    const copies = this.plan.graph.nodes.filter(([kind]) => kind === "copy").length;
    byId("legend").append(
      element("span", { class: "entry" }, swatch("band"), swatch("band-other"), `${counted(this.plan.chains.size, "chain")} in L1`),
      element("span", { class: "entry" }, `dashed: copies, views ${copies.toLocaleString("en")}`),
    );
  }

  heatEntries() {
    return [element("span", { class: "entry" }, "0 ns", element("span", { class: "heat", "aria-hidden": "true" }), timeText(this.plan.slowest_ns))];
  }

  placementButtons() {
    const counts = new Map();
    for (const op of this.nodeOf.keys()) {
      const { placement } = this.plan.ops[op];
      counts.set(placement, (counts.get(placement) ?? 0) + 1);
    }
    const buttons = Object.keys(PLACEMENTS).filter((name) => counts.has(name)).map((name) => element(
      "button", { type: "button", "aria-pressed": "false", onclick: (event) => this.pressLegend(event.currentTarget, name, buttons) },
      swatch(name), `${PLACEMENTS[name]} ${counts.get(name).toLocaleString("en")}`,
    ));
    return buttons;
  }

  pressLegend(button, name, buttons) {
    const pressed = button.getAttribute("aria-pressed") === "true";
    for (const other of buttons) other.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", String(!pressed));
    this.keep(pressed ? null : this.plan.ops.filter((op) => op.placement === name).map((op) => op.at));
  }
}

/** Where the graph begins so that a point of it is in the middle of the room, but no more is empty than has to be. */
function placed(point, size, scale, room) {
  const margin = 24;
  if (size * scale + 2 * margin <= room) return (room - size * scale) / 2;
  return Math.min(margin, Math.max(room - margin - size * scale, room / 2 - point * scale));
}
