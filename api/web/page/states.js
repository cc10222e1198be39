import { element } from "./dom.js";

const TONES = { succeeded: "good", failed: "bad", cancelled: "warn", running: "", queued: "" };

export function stateTag(state) {
  return element("span", { class: `tag ${TONES[state] ?? ""}` }, state);
}

export function isFinal(state) {
  return state === "succeeded" || state === "failed" || state === "cancelled";
}

/** A time of day, with its date where that is not today's. */
export function whenText(iso) {
  if (!iso) return "";
  const at = new Date(iso);
  const today = at.toDateString() === new Date().toDateString();
  return today ? at.toLocaleTimeString() : at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

export function secondsText(from, to) {
  if (!from) return "-";
  const seconds = (new Date(to ?? Date.now()) - new Date(from)) / 1000;
  return seconds < 60 ? `${Math.max(0, seconds).toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}
