import { byId, element, meter, svg } from "./dom.js";
import { problemBox, showProblem } from "./problem.js";
import { isFinal, secondsText, stateTag, whenText } from "./states.js";
import { percentText, timeText } from "./units.js";

const REPORT = "report";
const TITLE = document.title;
/** Width up to which a job is shown below the form (page.css), its artifacts folded. */
export const NARROW = 900;

/** One job: watched while it runs, read once it is done. */
export class JobView {
  /** `told(job)` hears what is known of the job whenever that changes. */
  constructor(service, told) {
    Object.assign(this, { service, told, place: byId("job"), watching: null, frameUrl: null });
  }

  /** No job: what to do about that. */
  empty() {
    this.close();
    document.title = TITLE;
    this.place.replaceChildren(element("div", { class: "card empty muted" }, element("p", {}, "Nothing is chosen. Drop a model, or choose one of the jobs.")));
  }

  async open(id) {
    this.close();
    this.watching = new AbortController();
    const { signal } = this.watching;
    this.found = [];
    this.lost = false;
    this.parts = { head: element("div", { class: "card" }), results: element("div", { class: "card", hidden: true }), report: element("div", { class: "report-box", hidden: true }) };
    this.place.replaceChildren(...Object.values(this.parts));
    try {
      this.job = await this.service.job(id);
      if (signal.aborted) return;
      this.show();
      if (!isFinal(this.job.state)) await this.watch(id, signal);
      if (!signal.aborted && this.job.state === "succeeded") await this.results(id, signal);
    } catch (error) {
      if (!signal.aborted) showProblem(this.parts.head, error);
    }
  }

  close() {
    this.watching?.abort();
    clearInterval(this.clock);
    if (this.frameUrl) URL.revokeObjectURL(this.frameUrl);
    this.frameUrl = null;
  }

  async watch(id, signal) {
    this.clock = setInterval(() => this.tick(), 500);
    try {
      for await (const { kind, data } of this.service.events(id, signal)) {
        if (signal.aborted) return;
        this.lost = kind === "lost";
        if (kind === "stage") this.job = { ...this.job, state: "running", progress: data, started_at: this.job.started_at ?? new Date().toISOString() };
        else if (kind === "incumbent") {
          this.job = { ...this.job, incumbent: data };
          this.found.push(data);
        }
        this.show();
      }
    } finally {
      clearInterval(this.clock);
    }
    if (signal.aborted) return;
    this.job = await this.service.job(id);
    this.show();
  }

  tick() {
    const shown = this.parts.head.querySelector(".spent");
    if (shown) shown.textContent = secondsText(this.job.started_at, this.job.finished_at);
  }

  show() {
    const { job } = this;
    this.told(job);
    document.title = `${job.name || job.id}: ${job.state} - ${TITLE}`;
    const held = this.parts.head.contains(document.activeElement);
    const buttons = isFinal(job.state) ? null : element("button", { type: "button", onclick: () => this.cancel() }, "Cancel");
    const facts = [job.board, job.policy].filter(Boolean).join(", ");
    this.parts.head.replaceChildren(
      element("div", { class: "title" }, element("h2", {}, element("bdi", {}, job.name || job.id)), stateTag(job.state), element("div", { class: "buttons" }, buttons)),
      element("p", { class: "muted" }, `${facts}, sent ${whenText(job.created_at)}`, ...this.spent()),
      isFinal(job.state) ? "" : this.live(), job.error ? problemBox({ title: "The job failed", ...job.error }) : "",
    );
    if (held) this.parts.head.querySelector("button")?.focus();
  }

  /** For how long it has run, or ran. */
  spent() {
    const { started_at: from, finished_at: to } = this.job;
    return from ? [to ? ", took " : ", running for ", element("span", { class: "spent" }, secondsText(from, to))] : [];
  }

  live() {
    const { progress, incumbent } = this.job;
    const share = progress?.fraction ?? 0;
    const stage = this.lost ? "no connection, trying again" : this.job.state === "queued" ? "waiting for a worker" : progress?.stage ?? "starting";
    const told = element("p", { role: "status" }, stage, " ", element("span", { class: "muted" }, percentText(share)));
    const figure = (name, text) => element("div", {}, element("dt", {}, name), element("dd", {}, text));
    return element("div", { class: "live" }, element("div", {}, told, meter(share, true)), element("div", {},
      element("dl", { class: "figures" }, figure("best plan", timeText(incumbent?.objective_ns)), figure("bound", timeText(incumbent?.bound_ns)), figure("gap", percentText(incumbent?.gap))),
      ...(this.found.length > 1 ? plot(this.found) : [])));
  }

  async cancel() {
    try {
      this.job = await this.service.cancel(this.job.id);
      this.show();
    } catch (error) {
      const place = element("div");
      this.parts.head.append(place);
      showProblem(place, error);
    }
  }

  async results(id, signal) {
    const listed = await this.service.artifacts(id);
    if (signal.aborted) return;
    const entries = listed.map(({ name, description }) => {
      const saves = element("button", { type: "button", "aria-label": `Download ${name}`, onclick: (event) => this.save(id, name, event.currentTarget) }, "Download");
      return element("li", {}, element("b", {}, name), element("span", { class: "muted" }, description ?? ""), saves);
    });
    const box = element("details", { open: window.innerWidth > NARROW }, element("summary", {}, `Artifacts (${listed.length})`), element("ul", { class: "artifacts" }, entries));
    this.parts.results.replaceChildren(box, element("div", { class: "save-problem", role: "alert" }));
    this.parts.results.hidden = false;
    if (listed.some(({ name }) => name === REPORT)) await this.frame(id, signal);
  }

  async save(id, name, button) {
    button.disabled = true;
    try {
      const { blob, fileName, suffix } = await this.service.artifact(id, name);
      const address = URL.createObjectURL(blob);
      element("a", { href: address, download: fileName ?? (this.job.name || name) + suffix }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      this.parts.results.querySelector(".save-problem").replaceChildren();
    } catch (error) {
      showProblem(this.parts.results.querySelector(".save-problem"), error);
    } finally {
      button.disabled = false;
    }
  }

  /** The report in a frame that has no access to this page, its storage or the service. */
  async frame(id, signal) {
    const { blob } = await this.service.artifact(id, REPORT, signal);
    if (signal.aborted) return;
    this.frameUrl = URL.createObjectURL(new Blob([blob], { type: "text/html;charset=utf-8" }));
    const box = this.parts.report;
    const fills = document.fullscreenEnabled ? element("button", { type: "button", onclick: () => box.requestFullscreen() }, "Full screen") : null;
    box.replaceChildren(element("div", { class: "report-head" }, element("h3", {}, "Report"), fills),
      element("iframe", { class: "report-frame", sandbox: "allow-scripts", title: "Report of the plan", src: this.frameUrl }));
    box.hidden = false;
  }
}

/** The best plan's time and what is proved, from one incumbent to the next, and what the lines mean. */
function plot(found) {
  const known = found.filter(({ objective_ns: ns }) => ns !== null);
  const all = known.flatMap(({ objective_ns: ns, bound_ns: bound }) => [ns, bound ?? ns]);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const y = (ns) => 95 - (90 * (ns - low)) / Math.max(1, high - low);
  const stairs = (figure) => known.map((at, n) => [figure(at), n && figure(known[n - 1])]).map(([ns, before], n) => (
    ns === null ? "" : `${n && before !== null ? "L" : "M"}${n} ${y(ns)}H${n + 1}`)).join("");
  const drawn = svg("svg", { class: "plot", viewBox: `0 0 ${known.length} 100`, preserveAspectRatio: "none", "aria-hidden": "true" });
  drawn.append(svg("path", { class: "proved", d: stairs(({ bound_ns: bound }) => bound) }), svg("path", { class: "best", d: stairs(({ objective_ns: ns }) => ns) }));
  return [drawn, element("p", { class: "muted plot-text" }, `best plan (line) and proven bound (dashed) as the search went on, ${timeText(low)} to ${timeText(high)}`)];
}
