import { byId, element, nameText, swatch } from "./dom.js";
import { counted } from "./units.js";

const LISTED = 40;

/** The box above: lists ops, keeps them bright in the graph and alone in the table. */
export class Search {
  constructor(plan, choice, viewers) {
    Object.assign(this, { plan, choice, viewers, box: byId("search"), list: byId("found"), found: [], at: -1 });
    this.box.addEventListener("input", () => this.search());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.found.length && this.open(true));
    this.box.addEventListener("blur", () => setTimeout(() => this.open(false), 150));
    document.addEventListener("keydown", (event) => {
      const typing = event.target instanceof Element && event.target.closest("input, select, textarea");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        this.box.focus();
        this.box.select();
      }
    });
  }

  search() {
    const asked = this.box.value.trim();
    this.found = this.plan.find(asked);
    this.at = -1;
    const kept = asked ? this.found : null;
    this.viewers.graph.keep(kept && kept.map((op) => op.at));
    this.viewers.table.keep(kept);
    this.list.replaceChildren(...this.found.slice(0, LISTED).map((op, at) => this.entry(op, at)));
    const spoken = this.found.length ? { "aria-hidden": "true" } : { role: "option", "aria-disabled": "true" };
    if (asked) this.list.append(element("li", { class: "muted", ...spoken }, counted(this.found.length, "op")));
    byId("found-count").textContent = asked ? counted(this.found.length, "op") : "";
    this.open(asked !== "");
  }

  entry(op, at) {
    const made = element("li", { role: "option", id: `found-${at}`, "aria-selected": "false" }, swatch(op.placement), element("b", {}, op.kind), nameText(this.plan.label(op), this.plan.name(op)));
    made.addEventListener("pointerdown", (event) => event.preventDefault());
    made.addEventListener("click", () => this.take(at));
    return made;
  }

  open(shown) {
    this.list.hidden = !shown;
    this.box.setAttribute("aria-expanded", String(shown));
    if (!shown) this.box.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const last = Math.min(this.found.length, LISTED) - 1;
    if (event.key === "ArrowDown") this.mark(Math.min(last, this.at + 1));
    else if (event.key === "ArrowUp") this.mark(Math.max(0, this.at - 1));
    else if (event.key === "Enter" && this.found.length) this.take(Math.max(0, this.at));
    else if (event.key === "Escape" && this.box.value) {
      this.box.value = "";
      this.search();
    } else return;
    event.preventDefault();
  }

  mark(at) {
    if (at < 0) return;
    this.open(true);
    this.at = at;
    [...this.list.children].forEach((entry, n) => entry.role === "option" && entry.setAttribute("aria-selected", String(n === at)));
    this.box.setAttribute("aria-activedescendant", `found-${at}`);
    this.list.children[at].scrollIntoView({ block: "nearest" });
  }

  take(at) {
    this.open(false);
    byId("graph-section").scrollIntoView({ block: "nearest" });
    this.choice.choose(this.found[at].at);
  }
}
