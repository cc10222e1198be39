import { byId, element } from "./dom.js";
import { showProblem } from "./problem.js";
import { stateTag, whenText } from "./states.js";
import { timeText } from "./units.js";

/** Whether a job makes a plan: what is made of finished plans are jobs too. */
function isPlan(job) {
  return (job.kind ?? "optimize") === "optimize";
}

/** The caller's jobs, the newest first. */
export class JobList {
  constructor(service, choose) {
    Object.assign(this, { service, choose, jobs: [], next: null, chosen: null });
    byId("refresh").addEventListener("click", () => this.load());
    byId("jobs-more").addEventListener("click", () => this.load(this.next));
  }

  async load(cursor = null) {
    try {
      const page = await this.service.jobs(cursor);
      page.jobs = page.jobs.filter(isPlan);
      const known = new Set(page.jobs.map((job) => job.id));
      const others = this.jobs.filter((job) => !known.has(job.id));
      this.jobs = cursor ? [...others, ...page.jobs] : [...page.jobs, ...others];
      if (cursor || !this.next || others.length === 0) this.next = page.next;
      byId("jobs-problem").replaceChildren();
    } catch (error) {
      showProblem(byId("jobs-problem"), error);
    }
    this.show();
  }

  /** Take in what is known of a job now. */
  put(job) {
    const at = this.jobs.findIndex((known) => known.id === job.id);
    if (at < 0) this.jobs.unshift(job);
    else this.jobs[at] = { ...this.jobs[at], ...job };
    this.show();
  }

  mark(id) {
    this.chosen = id;
    this.show();
  }

  show() {
    const focused = document.activeElement?.dataset?.job;
    byId("jobs").replaceChildren(...this.jobs.map((job) => this.entry(job)));
    if (!this.jobs.length) byId("jobs").append(element("li", { class: "muted" }, "No jobs yet."));
    byId("jobs-more").hidden = !this.next;
    if (focused) byId("jobs").querySelector(`[data-job="${CSS.escape(focused)}"]`)?.focus();
  }

  entry(job) {
    const opens = element("button", { type: "button", class: "link", "data-job": job.id, onclick: () => this.choose(job.id) }, element("bdi", {}, job.name || job.id));
    const what = [job.board, job.policy].filter(Boolean).join(", ");
    const time = job.predicted_time_ns ?? job.incumbent?.objective_ns;
    return element("li", { class: job.id === this.chosen ? "chosen" : null, "aria-current": job.id === this.chosen ? "true" : null },
      opens, stateTag(job.state), element("span", { class: "line" }, `${what}${time ? `: ${timeText(time)}` : ""}`),
      element("span", { class: "line end" }, whenText(job.created_at)));
  }

  get isWaiting() {
    return this.jobs.some((job) => job.state === "queued" || job.state === "running");
  }
}
