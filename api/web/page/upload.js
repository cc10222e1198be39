import { byId, element } from "./dom.js";
import { problemBox, showProblem } from "./problem.js";
import { bytesText } from "./units.js";

/** The form: a model, a board, a policy. */
export class UploadForm {
  /** `taken(job)` hears of every job that was made. */
  constructor(service, taken) {
    Object.assign(this, { service, taken, file: null });
    const drop = byId("drop");
    byId("file").addEventListener("change", (event) => this.take(event.target.files[0]));
    for (const name of ["dragenter", "dragover"]) {
      document.addEventListener(name, (event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        drop.classList.add("over");
      });
    }
    document.addEventListener("dragleave", (event) => event.relatedTarget === null && drop.classList.remove("over"));
    document.addEventListener("drop", (event) => {
      drop.classList.remove("over");
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      if (event.dataTransfer.files.length === 1) this.take(event.dataTransfer.files[0]);
      else byId("form-problem").replaceChildren(problemBox({ title: "One model at a time", detail: "Every job is of one file." }));
    });
    byId("policy").addEventListener("change", () => this.sayPolicy());
    byId("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
  }

  async fill() {
    const place = byId("form-problem");
    try {
      const [boards, policies] = await Promise.all([this.service.boards(), this.service.policies()]);
      fillSelect(byId("board"), boards, "n150");
      fillSelect(byId("policy"), policies, "global");
      this.sayPolicy();
      place.replaceChildren();
    } catch (error) {
      showProblem(place, error);
    }
    this.enable();
  }

  sayPolicy() {
    byId("policy-says").textContent = byId("policy").selectedOptions[0]?.title ?? "";
  }

  take(file) {
    if (!file) return;
    this.file = file;
    byId("file-name").replaceChildren(element("bdi", {}, file.name), `, ${bytesText(file.size)}`);
    byId("form-problem").replaceChildren();
    this.enable();
  }

  enable() {
    byId("send").disabled = !this.file || this.sending || !byId("board").value;
  }

  async send() {
    if (byId("send").disabled) return;
    const bar = byId("upload");
    this.sending = true;
    this.enable();
    bar.value = 0;
    bar.hidden = false;
    byId("form-problem").replaceChildren();
    const name = this.file.name.replace(/\.[^.]+$/, "") || this.file.name;
    try {
      const options = { board: byId("board").value, policy: byId("policy").value, allow_host_ops: byId("host-ops").checked, name };
      this.taken(await this.service.submit(this.file, options, (share) => { bar.value = share; }));
    } catch (error) {
      showProblem(byId("form-problem"), error);
    } finally {
      this.sending = false;
      bar.hidden = true;
      this.enable();
    }
  }
}

function fillSelect(select, entries, preferred) {
  const chosen = select.value || preferred;
  select.replaceChildren(...entries.map(({ name, description }) => element("option", { value: name, title: description ?? null }, name)));
  if (entries.some(({ name }) => name === chosen)) select.value = chosen;
}
