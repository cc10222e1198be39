import { byId, element, meter, pairs, placeText, swatch, table, tailText } from "./dom.js";
import { PLACEMENTS, SHORT } from "./plan.js";
import { bytesText, counted, percentText, timeText } from "./units.js";

const SHOWN = 12;

function card(name, ...content) {
  return element("div", { class: "card" }, element("h3", {}, name), ...content);
}

export function showShares(plan) {
  const lists = [["Time by op", plan.times.kind], ["Time by class", plan.times.class], ["Time bound by", plan.times.bound], ["The physical limit, and the time beyond it", plan.times.limit]];
  byId("shares").append(...lists.filter(([, spent]) => spent.length).map(([name, spent]) => card(name, shares(spent))));
}

function shares(spent) {
  const total = spent.reduce((sum, [, ns]) => sum + ns, 0) || 1;
  const longest = Math.max(1, ...spent.map(([, ns]) => ns));
  const shown = spent.length > SHOWN ? [...spent.slice(0, SHOWN - 1), rest(spent.slice(SHOWN - 1))] : spent;
  return element("div", { class: "rows" }, shown.flatMap(([name, ns, count]) => [
    element("span", { class: "label" }, name, count ? element("span", {}, ` \u00d7${count}`) : ""),
    meter(ns / longest),
    element("span", { class: "value" }, `${timeText(ns)} \u00b7 ${percentText(ns / total)}`),
  ]));
}

function rest(spent) {
  return [`${spent.length} more`, spent.reduce((sum, [, ns]) => sum + ns, 0)];
}

export function showMoved(plan, choice) {
  const results = plan.moved.placements.reduce((sum, [, count]) => sum + count, 0) || 1;
  const placed = plan.moved.placements.map(([place, count, bytes]) => [
    element("span", { class: "place" }, swatch(place), PLACEMENTS[place]), String(count), percentText(count / results), bytesText(bytes),
  ]);
  const copies = plan.moved.copies.map(([role, count, ns]) => [role, String(count), timeText(ns)]);
  const cards = [
    card("Where results lie", table(["placement", "results", "share", "bytes"], placed, [1, 2, 3])),
    card("Copies put in", table(["copy", "ops", "time"], copies, [1, 2]), element("p", { class: "hint" }, weightsText(plan))),
  ];
  if (plan.compared.length) {
    const rows = plan.compared.map((figure) => [figure.name, figure.before, figure.after, figure.change]);
    cards.unshift(card("Figures", table(["figure", "all in DRAM", "this plan", "change"], rows, [1, 2, 3])));
    const plans = plan.plans.map(([name, ns, change]) => [name, timeText(ns), change]);
    cards.splice(1, 0, card("Plans", table(["plan", "predicted time", "change"], plans, [1, 2])));
  }
  const compared = differences(plan, choice);
  byId("moved").append(...cards, ...(compared ? [compared] : []));
}

function weightsText(plan) {
  const { weights_in_l1: kept, prepared } = plan.moved;
  const weights = `${counted(kept, "weight")} ${kept === 1 ? "stays" : "stay"} in L1 from run to run.`;
  return prepared ? `${weights} What is made of weights only is made once, by ${counted(prepared, "op")} that the graph leaves out.` : weights;
}

/** The ops whose time differs most from that in the plan all in DRAM, as far as their reasons tell it. */
function differences(plan, choice) {
  const known = plan.ops.filter((op) => op.dram_ns !== undefined && op.time_ns !== null && op.dram_ns !== op.time_ns);
  if (!known.length) return null;
  known.sort((a, b) => Math.abs(b.dram_ns - b.time_ns) - Math.abs(a.dram_ns - a.time_ns) || a.at - b.at);
  const rows = known.slice(0, SHOWN).map((op) => [
    opButton(plan, op, choice), placeText(op.placement, PLACEMENTS[op.placement], SHORT[op.placement]),
    timeText(op.dram_ns), timeText(op.time_ns), `${op.time_ns < op.dram_ns ? "-" : "+"}${timeText(Math.abs(op.dram_ns - op.time_ns))}`,
  ]);
  const shown = table(["op", "its result", "all in DRAM", "this plan", "change"], rows, [2, 3, 4]);
  const made = card("Ops that differ most", element("div", { class: "scroll" }, shown), element("p", { class: "hint" },
    "The op's own time in both plans. The copies between layouts are ops of their own, and only this plan has them."));
  made.classList.add("wide", "differences");
  return made;
}

export function opButton(plan, op, choice) {
  return element("button", { type: "button", class: "link", onclick: () => choice.choose(op.at) }, op.kind, " ", tailText(plan.label(op), plan.name(op)));
}

const KINDS = { warning: "warn", "numeric risk": "warn", "fell back": "warn", "not judged": "warn", "unsupported ops": "bad", "failed chain": "bad" };
const LISTED = 24;

export function showNotes(plan, choice) {
  const tones = plan.notices.map(({ kind }) => KINDS[kind] ?? "");
  byId("notes-count").textContent = plan.notices.length;
  byId("notes-count").classList.add(...["bad", "warn"].filter((tone) => tones.includes(tone)).slice(0, 1));
  const notes = plan.notices.map(({ kind, text, ops }) => {
    const more = ops.length > LISTED ? element("span", {}, `and ${ops.length - LISTED} more`) : null;
    const listed = ops.slice(0, LISTED).map((at) => opButton(plan, plan.ops[at], choice));
    return element("div", { class: "note" }, element("div", {}, element("span", { class: `tag ${KINDS[kind] ?? ""}`.trim() }, kind)),
      element("div", {}, element("bdi", {}, text)), ops.length ? element("div", { class: "ops-list" }, listed, more) : null);
  });
  const none = element("div", { class: "note" }, element("div", {}, element("span", { class: "tag good" }, "none")),
    element("div", {}, "No warnings, numeric risks, fallbacks, failed chains or unsupported ops."));
  byId("notes").append(element("div", { class: "card" }, notes.length ? notes : none));
}

export function showFigures(plan) {
  const rows = (listed) => pairs(listed.map(([name, text]) => [name, element("bdi", {}, text)]));
  if (plan.figures.length) byId("figures").append(card("Plan", rows(plan.figures)));
  byId("figures").append(card("Model, board and options", rows(plan.model)));
}
