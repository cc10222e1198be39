import { byId, element, meter } from "./dom.js";
import { bytesText, percentText, timeText } from "./units.js";

export function showHeader(plan) {
  byId("title").textContent = plan.title;
  byId("plan").textContent = `on ${plan.board}: ${plan.plan ?? "this document states no figures of its plan"}`;
  if (plan.plan) byId("tiles").append(timeTile(plan), memoryTile(plan), trafficTile(plan));
}

function tile(name, ...content) {
  return element("div", { class: "tile card" }, element("h2", {}, name), ...content);
}

/** A change of a figure of which less is better. */
function changed(text) {
  const change = Number.parseFloat(text);
  return element("small", { class: change < 0 ? "better" : change > 0 ? "worse" : "muted" }, text);
}

function big(text, change) {
  return element("p", { class: "big" }, text, change ? changed(change) : null);
}

/** Rows of name, bar and figure; `share` of each is that of the longest. */
function rows(listed) {
  return element("div", { class: "rows" }, listed.flatMap(({ name, share, value, ours }) => [
    element("span", { class: ours ? "label ours" : "label" }, name),
    meter(share, ours),
    element("span", { class: ours ? "value ours" : "value" }, value),
  ]));
}

function timeTile(plan) {
  const time = plan.compared[0];
  const longest = Math.max(1, ...plan.plans.map(([, ns]) => ns));
  const listed = plan.plans.map(([name, ns], at) => (
    { name, share: ns / longest, value: timeText(ns), ours: at === plan.plans.length - 1 }
  ));
  return tile("Predicted time", big(time.after, time.change), rows(listed));
}

function memoryTile(plan) {
  const [peak, limit] = [plan.l1_peak_bytes, plan.l1_limit_bytes];
  const figures = plan.figures.filter(([name]) => ["weights in L1 per core", "L1-resident share", "DRAM peak per bank"].includes(name));
  return tile(
    "L1 peak per core",
    element("p", { class: "big" }, bytesText(peak), element("small", { class: "muted" }, `of ${bytesText(limit)} (${percentText(peak / limit)})`)),
    meter(peak / limit, true),
    element("div", { class: "rows plain" }, figures.flatMap(([name, text]) => [
      element("span", { class: "label" }, name), element("span", { class: "value" }, text.replace(/ \(.*/, "")),
    ])),
  );
}

function trafficTile(plan) {
  const [, read, written] = plan.compared;
  const longest = Math.max(1, ...read.numbers, ...written.numbers);
  const listed = [read, written].flatMap((figure) => [
    { name: `${figure.name}, all in DRAM`, share: figure.numbers[0] / longest, value: figure.before },
    { name: `${figure.name}, this plan`, share: figure.numbers[1] / longest, value: figure.after, ours: true },
  ]);
  const [before, after] = [0, 1].map((at) => read.numbers[at] + written.numbers[at]);
  const change = before ? `${after < before ? "-" : "+"}${percentText(Math.abs(after - before) / before)}` : "";
  return tile("DRAM traffic", big(bytesText(after), change), rows(listed));
}
