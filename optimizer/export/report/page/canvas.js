import { colour } from "./dom.js";
import { PLACEMENTS, SHORT } from "./plan.js";
import { timeText } from "./units.js";

/** Scale from which nodes have all their texts; below it only their kind, in letters as large as they have room for. */
const READABLE = 0.7;
/** Scale from which they have any. */
const NAMED = 0.34;
const CORNER = 6;
const BAND = 5;

/** Draws the graph into a canvas; knows nothing of what a user does. */
export class Painter {
  constructor(canvas, plan) {
    this.canvas = canvas;
    this.plan = plan;
    this.context = canvas.getContext("2d");
    this.paths = plan.graph.edges.map(([, , , points]) => rounded(points));
    this.labels = new Map();
    this.readTheme();
  }

  readTheme() {
    this.theme = Object.fromEntries(
      [...Object.keys(PLACEMENTS), "surface", "text", "muted", "edge", "band", "band-other", "accent", "line", "strong-line", "heat-low", "heat-high"]
        .map((name) => [name, colour(name)]),
    );
    const family = getComputedStyle(document.body).fontFamily;
    this.fonts = { kind: `600 11.5px ${family}`, small: `10px ${family}` };
    this.labels.clear();
  }

  /** `view`: x, y, scale. `shown`: chosen and hovered node, set of nodes that are not faded or null, how to colour. */
  draw(view, shown) {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    const seen = {
      left: -view.x / view.scale, top: -view.y / view.scale,
      right: (width - view.x) / view.scale, bottom: (height - view.y) / view.scale,
    };
    this.bands(c, view);
    this.edges(c, view, shown);
    this.plan.graph.nodes.forEach((node, at) => {
      const [, , x, y, w, h] = node;
      if (x + w < seen.left || x > seen.right || y + h < seen.top || y > seen.bottom) return;
      c.globalAlpha = shown.kept && !shown.kept.has(at) ? 0.22 : 1;
      this.node(c, node, at, view, shown);
    });
    c.globalAlpha = 1;
  }

  /** Behind the nodes of a chain and the edges along which it goes on, in two shades by turns. */
  bands(c, view) {
    const { nodes, edges } = this.plan.graph;
    const chainOf = ([kind, at]) => (kind === "op" || kind === "copy" ? this.plan.ops[at].chain : undefined);
    c.lineWidth = 2 * BAND + 2;
    c.lineJoin = "round";
    for (const shade of [0, 1]) {
      c.strokeStyle = c.fillStyle = this.theme[shade ? "band-other" : "band"];
      c.beginPath();
      for (const node of nodes) {
        const [, , x, y, w, h] = node;
        if (this.plan.chains.get(chainOf(node)) % 2 === shade) c.roundRect(x - BAND, y - BAND, w + 2 * BAND, h + 2 * BAND, 8);
      }
      c.fill();
      edges.forEach(([source, , goesOn], at) => {
        if (goesOn && this.plan.chains.get(chainOf(nodes[source])) % 2 === shade) c.stroke(this.paths[at]);
      });
    }
    if (view.scale >= READABLE) this.chainNames(c, nodes, chainOf);
  }

  /** Above the first node of every chain. */
  chainNames(c, nodes, chainOf) {
    const named = new Set();
    c.font = this.fonts.small;
    c.fillStyle = this.theme.muted;
    c.textBaseline = "alphabetic";
    c.textAlign = "left";
    for (const node of nodes) {
      const [, , x, y] = node;
      const chain = chainOf(node);
      if (!chain || named.has(chain)) continue;
      named.add(chain);
      c.fillText(this.cut(chain.replaceAll("_", " "), 64, false), x + 2, y - BAND - 2);
    }
  }

  edges(c, view, shown) {
    const width = Math.max(1, 1.25 / Math.min(1, view.scale));
    const own = [];
    c.strokeStyle = this.theme.edge;
    c.lineWidth = width;
    c.globalAlpha = shown.kept ? 0.3 : 0.9;
    this.plan.graph.edges.forEach(([source, target], at) => {
      if (source === shown.chosen || target === shown.chosen || source === shown.hovered || target === shown.hovered) own.push(at);
      else c.stroke(this.paths[at]);
    });
    c.globalAlpha = 1;
    c.strokeStyle = this.theme.accent;
    c.lineWidth = width * 1.8;
    for (const at of own) c.stroke(this.paths[at]);
  }

  node(c, [kind, at, x, y, w, h], index, view, shown) {
    const op = kind === "op" || kind === "copy" ? this.plan.ops[at] : null;
    const strong = op ? this.fill(op, shown.colouring) : this.theme.muted;
    const radius = kind === "op" ? 5 : h / 2;
    const named = view.scale >= NAMED;
    c.beginPath();
    c.roundRect(x, y, w, h, radius);
    c.fillStyle = this.theme.surface;
    c.fill();
    const faded = c.globalAlpha;
    if (op) {
      c.fillStyle = strong;
      c.globalAlpha = faded * (shown.colouring === "time" ? 1 : named ? 0.16 : kind === "op" ? 0.95 : 0.6);
      c.fill();
      c.globalAlpha = faded;
    }
    const chosen = index === shown.chosen;
    c.strokeStyle = chosen || index === shown.hovered ? this.theme.accent : op ? strong : this.theme["strong-line"];
    c.lineWidth = (chosen ? 3 : 1.2) / Math.min(1, view.scale);
    if (kind === "copy") c.setLineDash([3, 2]);
    c.stroke();
    c.setLineDash([]);
    if (!named) return;
    if (kind === "op") {
      c.save();
      c.clip();
      c.fillStyle = strong;
      c.fillRect(x, y, 4, h);
      c.restore();
    }
    if (view.scale >= READABLE) this.texts(c, kind, at, op, x, y, w, h, shown.colouring === "time");
    else if (kind === "op") this.kindAlone(c, op, x, y, w, h, view.scale);
  }

  /** The kind of an op in letters of nine pixels of the screen, whatever the scale. */
  kindAlone(c, op, x, y, w, h, scale) {
    c.font = this.fonts.kind.replace("11.5px", `${9.5 / scale}px`);
    c.fillStyle = this.theme.text;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.fillText(this.cut(op.kind, w - 18, false), x + 10, y + h / 2 + 0.5);
  }

  texts(c, kind, at, op, x, y, w, h, heated) {
    c.textBaseline = "middle";
    c.direction = "ltr";
    if (kind === "op") {
      const time = op.time_ns === null ? "" : timeText(op.time_ns);
      c.font = this.fonts.small;
      const room = w - 24 - c.measureText(time).width;
      c.fillStyle = heated ? this.theme.text : this.theme.muted;
      c.textAlign = "right";
      c.fillText(time, x + w - 7, y + 10.5);
      c.textAlign = "left";
      c.fillText(this.cut(this.plan.label(op), w - 44, true), x + 10, y + 23);
      c.textAlign = "right";
      c.fillText(SHORT[op.placement], x + w - 7, y + 23);
      c.textAlign = "left";
      c.font = this.fonts.kind;
      c.fillStyle = this.theme.text;
      c.fillText(this.cut(op.kind, room, false), x + 10, y + 10.5);
    } else {
      c.font = this.fonts.small;
      c.fillStyle = this.theme.text;
      c.textAlign = "center";
      const text = op ? `${op.kind.replace("to_memory_config", "copy")} \u2192 ${SHORT[op.placement]}` : `${kind} ${this.plan.values[at].id}`;
      c.fillText(this.cut(text, w - 16, false), x + w / 2, y + h / 2 + 0.5);
    }
  }

  fill(op, colouring) {
    if (colouring !== "time") return this.theme[op.placement];
    const heat = Math.sqrt((op.time_ns ?? 0) / Math.max(1, this.plan.slowest_ns));
    return `color-mix(in srgb, ${this.theme["heat-high"]} ${Math.round(70 * heat)}%, ${this.theme["heat-low"]})`;
  }

  /** As much of a text as has room: its end where names begin alike, else its beginning. */
  cut(text, room, keepsEnd) {
    const key = `${this.context.font}${keepsEnd}${Math.round(room)}${text.slice(0, 200)}${text.length > 200 ? text.slice(-200) : ""}`;
    if (!this.labels.has(key)) this.labels.set(key, this.fitted(text, room, keepsEnd));
    return this.labels.get(key);
  }

  fitted(text, room, keepsEnd) {
    const clean = text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
    const letters = Array.from(keepsEnd ? clean.slice(-120) : clean.slice(0, 120));
    const shown = (count) => (keepsEnd ? `\u2026${letters.slice(-count).join("")}` : `${letters.slice(0, count).join("")}\u2026`);
    if (clean.length <= 120 && this.context.measureText(clean).width <= room) return clean;
    let [low, high] = [0, letters.length];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.context.measureText(shown(middle)).width <= room) low = middle;
      else high = middle - 1;
    }
    return low ? shown(low) : "";
  }
}

/** A path through corners, which are rounded. */
function rounded(points) {
  const path = new Path2D();
  path.moveTo(points[0], points[1]);
  for (let at = 2; at < points.length - 2; at += 2) {
    const [x0, y0, x1, y1, x2, y2] = points.slice(at - 2, at + 4);
    const radius = Math.min(CORNER, (Math.abs(x1 - x0) + Math.abs(y1 - y0)) / 2, (Math.abs(x2 - x1) + Math.abs(y2 - y1)) / 2);
    path.arcTo(x1, y1, x2, y2, radius);
  }
  path.lineTo(points.at(-2), points.at(-1));
  return path;
}
