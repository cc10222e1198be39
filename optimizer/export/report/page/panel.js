import { byId, element, meter, nameText, pairs, scrolled, swatch, table } from "./dom.js";
import { PLACEMENTS } from "./plan.js";
import { bytesText, counted, percentText, timeText } from "./units.js";

const LISTED = 12;

const OWN = "The op's own time alone: not what its operands, its weights, copies and the room in L1 would then cost. ttopt explain prices the whole plan with another choice.";

/** Why an op is as it is. */
export class Panel {
  constructor(plan, choice) {
    Object.assign(this, { plan, choice, place: byId("panel"), cameFrom: null });
    choice.watch((op, opens) => {
      if (op === null) this.close();
      else if (opens) this.open(op);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.place.hidden && !event.defaultPrevented) choice.choose(null);
    });
  }

  open(at) {
    const op = this.plan.ops[at];
    const walks = this.place.contains(document.activeElement) || document.activeElement === byId("graph");
    if (this.place.hidden) this.cameFrom = document.activeElement;
    this.place.hidden = false;
    document.body.classList.add("with-panel");
    this.place.replaceChildren(this.head(op), ...this.reason(op), ...this.prediction(op), ...this.values(op), ...this.identity(op));
    this.place.scrollTop = 0;
    if (!walks || this.place.contains(document.activeElement)) this.place.querySelector("h2").focus({ preventScroll: true });
  }

  close() {
    if (this.place.hidden) return;
    this.place.hidden = true;
    document.body.classList.remove("with-panel");
    if (this.cameFrom?.isConnected) this.cameFrom.focus({ preventScroll: true });
  }

  head(op) {
    const goes = (label, sign, to) => element("button", {
      type: "button", "aria-label": label, disabled: to < 0 || to >= this.plan.ops.length, onclick: () => this.choice.choose(to),
    }, sign);
    const tags = [element("span", { class: "tag place" }, swatch(op.placement), PLACEMENTS[op.placement])];
    if (op.role !== "compute") tags.push(element("span", { class: "tag" }, op.role));
    if (op.kernel) tags.push(element("span", { class: "tag" }, "kernel ", nameText(op.kernel)));
    if (op.chain) tags.push(element("span", { class: "tag" }, nameText(op.chain)));
    if (op.predicted) tags.push(element("span", { class: "tag" }, `${timeText(op.time_ns)}, bound by ${op.predicted.bound}`));
    return element("div", { class: "panel-head" },
      element("div", { class: "line" }, element("h2", { tabindex: "-1" }, op.kind), goes("Op before", "\u2039", op.at - 1),
        goes("Op after", "\u203a", op.at + 1), element("button", { type: "button", "aria-label": "Close", onclick: () => this.choice.choose(null) }, "\u00d7")),
      nameText(this.plan.name(op)), element("div", { class: "tags" }, tags));
  }

  reason(op) {
    const why = new Map(op.why ?? []);
    const chosen = why.get("chosen");
    why.delete("chosen");
    if (op.dram_ns !== undefined) why.delete("dram time");
    const found = [element("h3", {}, "Why"), element("p", { class: "lead" }, element("bdi", {}, chosen ?? "no reason is recorded"))];
    if (why.size) found.push(pairs([...why].map(([name, text]) => [name, element("bdi", {}, text)])));
    for (const [title, header, rows] of op.tables ?? []) {
      const cells = rows.map((row) => row.map((text) => element("bdi", {}, text)));
      found.push(element("h3", {}, title.charAt(0).toUpperCase() + title.slice(1)), scrolled(table(header, cells), title));
      if (title === "alternatives") found.push(element("p", { class: "hint" }, OWN));
    }
    return found;
  }

  prediction(op) {
    const p = op.predicted;
    if (!p) return [];
    const rows = [
      ["time", `${timeText(p.time_ns)} on ${p.cores} cores (${percentText(p.time_ns / (this.plan.total_ns || 1))} of the plan)`],
      ["bound by", p.bound],
      ["of limit", `${percentText(p.limit_ns / (p.time_ns || 1))} (limit ${timeText(p.limit_ns)})`],
      ["L1 per core", `${bytesText(p.peak_l1_bytes)}, buffers ${bytesText(p.cb_bytes)}`],
      ["DRAM", `${bytesText(p.dram_read_bytes)} read, ${bytesText(p.dram_write_bytes)} written`],
    ];
    if (op.dram_ns !== undefined) rows.push(["all in DRAM", timeText(op.dram_ns)]);
    const hint = p.parts.length ? element("p", { class: "hint" }, "A device program takes its start, what it needs longest of, and a share of the rest:") : null;
    return [element("h3", {}, "Predicted"), pairs(rows), ...[hint].filter(Boolean), ...p.parts.map((part) => this.part(part))];
  }

  /** A device program: what each resource alone would need; the longest bounds it. */
  part(part) {
    const longest = Math.max(...Object.values(part.terms_ns));
    const scale = Math.max(1, part.time_ns, longest);
    const bars = Object.entries(part.terms_ns).sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([bound, ns]) => {
      const name = ns === longest ? "label ours" : "label";
      return [element("span", { class: name }, bound), meter(ns / scale, ns === longest), element("span", { class: "value" }, timeText(ns))];
    });
    const tail = part.tail_ns ? `, not overlapped ${timeText(part.tail_ns)}` : "";
    return element("div", {}, element("p", { class: "hint" }, `${part.program}: ${timeText(part.time_ns)}, start ${timeText(part.start_ns)}${tail}`),
      bars.length ? element("div", { class: "rows" }, bars) : null);
  }

  values(op) {
    const lists = [["Reads", op.inputs ?? []], ["Gives", op.outputs ?? []]];
    return lists.filter(([, values]) => values.length).flatMap(([title, values]) => {
      const more = values.length > LISTED ? element("p", { class: "hint" }, `and ${values.length - LISTED} more`) : null;
      return [element("h3", {}, title), element("div", {}, values.slice(0, LISTED).map((value) => this.value(value, title === "Reads")), more)];
    });
  }

  value(number, isRead) {
    const value = this.plan.values[number];
    const layout = this.plan.layoutOf(number);
    const maker = this.plan.makers.get(number);
    const others = isRead ? (maker === undefined ? [] : [maker]) : this.plan.readers.get(number) ?? [];
    const links = others.slice(0, LISTED).map((at) => element("button", { type: "button", class: "link", onclick: () => this.choice.choose(at) },
      `${isRead ? "from" : "to"} ${this.plan.ops[at].kind} #${at}`));
    const where = layout ? element("span", { class: "place" }, swatch(layout.placement), layout.text) : "no layout";
    const text = element("div", {}, nameText(value.id), element("div", {}, `${value.type}${value.kind === "activation" ? "" : `, ${value.kind}`}`),
      element("div", {}, where), links.length ? element("div", { class: "ops-list" }, links.flatMap((link) => [link, " "])) : null);
    return element("div", { class: "operand" }, element("div", { class: "line" }, text, layout?.cores ? this.cores(layout) : null));
  }

  /** Which cores of the grid hold shards. */
  cores(layout) {
    const [rows, columns] = this.plan.grid_yx;
    const held = (x, y) => layout.cores.some(([x0, y0, x1, y1]) => x >= x0 && x <= x1 && y >= y0 && y <= y1);
    const cells = Array.from({ length: rows * columns }, (_, at) => {
      const cell = element("i");
      if (held(at % columns, Math.floor(at / columns))) cell.style.background = `var(--${layout.placement})`;
      return cell;
    });
    const made = element("div", { class: "grid-picture", role: "img", "aria-label": `cores that hold shards: ${layout.text}` }, cells);
    made.style.gridTemplateColumns = `repeat(${columns}, 6px)`;
    return made;
  }

  identity(op) {
    const names = (op.origin ?? []).slice(0, LISTED).flatMap((name, at) => [at ? ", " : "", nameText(name)]);
    const more = (op.origin ?? []).length > LISTED ? ` and ${op.origin.length - LISTED} more` : "";
    const rows = [["id", nameText(op.id)], ["call", element("bdi", {}, op.op)], ["from", names.length ? element("span", {}, names, more) : "-"]];
    if (op.attrs) rows.push(["attributes", element("bdi", {}, op.attrs)]);
    rows.push(["config", element("bdi", {}, op.config ?? "-")], ["in the schedule", `#${op.at} of ${counted(this.plan.ops.length, "op")}, from 0`]);
    return [element("h3", {}, "Op"), pairs(rows)];
  }
}
