import { element, nameText, pairs } from "./dom.js";
import { Problem } from "./service.js";

/** A problem document as a person reads it. */
export function problemBox(document) {
  const rows = [];
  if (document.node) rows.push(["place", nameText(String(document.node))]);
  if (document.limit !== undefined && document.limit !== null) rows.push(["limit", String(document.limit)]);
  if (document.alternatives?.length) rows.push(["one of", element("bdi", {}, document.alternatives.join(", "))]);
  if (document.code) rows.push(["code", element("code", {}, document.code)]);
  return element("div", { class: "problem" }, element("b", {}, document.title || "Problem"),
    element("p", {}, element("bdi", {}, document.detail ?? "")), rows.length ? pairs(rows) : null);
}

/** Show what went wrong in a place, or throw what is no problem of the service. */
export function showProblem(place, error) {
  if (!(error instanceof Problem)) throw error;
  place.replaceChildren(problemBox(error.document));
}
