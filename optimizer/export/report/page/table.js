import { byId, element, nameText, placeText, tailText } from "./dom.js";
import { PLACEMENTS, SHORT } from "./plan.js";
import { bytesText, counted, percentText, timeText } from "./units.js";

const FIRST = 25;
/** Rows that a press of the button adds: as many as a browser lays out at once. */
const MORE = 250;

/** Columns: title, what to sort by, what to show, whether it is a number, whether narrow screens leave it out. */
const COLUMNS = [
  { title: "#", key: (op) => op.at, show: (op) => String(op.at), number: true, wide: true },
  { title: "op", key: (op) => op.kind, show: null },
  { title: "result", key: (op) => op.placement, show: (op) => placeText(op.placement, PLACEMENTS[op.placement], SHORT[op.placement]) },
  { title: "time", key: (op) => op.time_ns, show: (op) => timeText(op.time_ns), number: true },
  { title: "share", key: (op) => op.time_ns, show: (op, plan) => percentText(op.time_ns === null ? null : op.time_ns / (plan.total_ns || 1)), number: true },
  { title: "bound by", key: (op) => op.predicted?.bound ?? null, show: (op) => op.predicted?.bound ?? "-", wide: true },
  { title: "cores", key: (op) => op.predicted?.cores ?? null, show: (op) => String(op.predicted?.cores ?? "-"), number: true, wide: true },
  { title: "L1 peak", key: (op) => op.predicted?.peak_l1_bytes ?? null, show: (op) => bytesText(op.predicted?.peak_l1_bytes), number: true, wide: true },
  { title: "DRAM read", key: (op) => op.predicted?.dram_read_bytes ?? null, show: (op) => bytesText(op.predicted?.dram_read_bytes), number: true, wide: true },
  { title: "DRAM written", key: (op) => op.predicted?.dram_write_bytes ?? null, show: (op) => bytesText(op.predicted?.dram_write_bytes), number: true, wide: true },
  { title: "chain", key: (op) => op.chain ?? "", show: (op) => (op.chain ? nameText(op.chain) : "-"), wide: true },
];

/** All ops, the slowest first until somebody sorts them otherwise. */
export class OpsTable {
  constructor(plan, choice) {
    Object.assign(this, { plan, choice, sorted: 3, descending: true, shown: FIRST, kept: null });
    const heads = COLUMNS.map((column, at) => element("th", { scope: "col", class: classes(column) },
      element("button", { type: "button", onclick: () => this.sort(at) }, column.title)));
    this.heads = heads;
    this.body = element("tbody");
    this.more = element("button", { type: "button", class: "more", onclick: () => { this.shown += MORE; this.fill(); } });
    const table = element("table", { class: "ops-table" }, element("thead", {}, element("tr", {}, heads)), this.body);
    byId("ops").append(element("div", { class: "card" }, element("div", { class: "scroll" }, table), this.more));
    this.fill();
    choice.watch((op) => this.mark(op));
  }

  sort(column) {
    this.descending = column === this.sorted ? !this.descending : COLUMNS[column].number === true;
    this.sorted = column;
    this.fill();
  }

  /** Show these ops only; null: all. */
  keep(ops) {
    this.kept = ops;
    this.shown = FIRST;
    this.fill();
  }

  fill() {
    const { key } = COLUMNS[this.sorted];
    const turn = this.descending ? -1 : 1;
    const listed = [...(this.kept ?? this.plan.ops)].sort((a, b) => turn * compared(key(a), key(b)) || a.at - b.at);
    const shown = listed.slice(0, this.shown);
    this.body.replaceChildren(...shown.map((op) => this.row(op)));
    this.more.hidden = shown.length === listed.length;
    this.more.textContent = `Show ${Math.min(MORE, listed.length - shown.length)} more of ${counted(listed.length, "op")}`;
    this.heads.forEach((head, at) => {
      if (at === this.sorted) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.mark(this.choice.op);
  }

  row(op) {
    const cells = COLUMNS.map((column) => {
      if (column.show) return element("td", { class: classes(column) }, column.show(op, this.plan));
      const opens = element("button", { type: "button", class: "link", onclick: () => this.choice.choose(op.at) }, op.kind);
      return element("td", { class: "op" }, element("div", { class: "op-name" }, opens, tailText(this.plan.label(op), this.plan.name(op))));
    });
    return element("tr", { "data-op": op.at }, cells);
  }

  mark(op) {
    for (const row of this.body.children) row.classList.toggle("chosen", row.dataset.op === String(op));
  }
}

function classes(column) {
  return [column.number ? "number" : "", column.wide ? "wide-only" : ""].join(" ").trim() || null;
}

/** What is not known comes before everything else. */
function compared(a, b) {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? -1 : 1;
  return a < b ? -1 : 1;
}
