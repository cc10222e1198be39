import { byId } from "./dom.js";
import { JobView, NARROW } from "./job.js";
import { JobList } from "./list.js";
import { problemBox } from "./problem.js";
import { Service } from "./service.js";
import { UploadForm } from "./upload.js";

/** Milliseconds between two looks at the list, while something in it goes on. */
const LOOK = 4000;

const service = new Service(askKey);
const list = new JobList(service, choose);
const view = new JobView(service, (job) => list.put(job));
const form = new UploadForm(service, (job) => {
  list.put(job);
  choose(job.id);
});

byId("key-change").addEventListener("click", async () => {
  const given = await askKey(null);
  if (given === null) return;
  service.key = given;
  await start();
});
window.addEventListener("hashchange", openNamed);
setInterval(() => document.visibilityState === "visible" && list.isWaiting && list.load(), LOOK);
start();

async function start() {
  await form.fill();
  await list.load();
  byId("key-change").hidden = !service.key;
  openNamed();
}

function choose(id) {
  if (window.innerWidth <= NARROW) byId("job").scrollIntoView({ block: "start" });
  if (location.hash === `#job=${id}`) openNamed();
  else location.hash = `job=${id}`;
}

/** `#job=ID` opens a job; without it none is open. */
function openNamed() {
  const named = /^#job=([0-9A-Za-z_-]+)$/.exec(location.hash);
  if (!named && location.hash) return;
  list.mark(named && named[1]);
  if (named) view.open(named[1]);
  else view.empty();
}

/** The key that a user gives; null if none. */
function askKey(problem) {
  const dialog = byId("key-dialog");
  byId("key").value = "";
  byId("key-problem").replaceChildren(...(problem ? [problemBox(problem.document)] : []));
  dialog.showModal();
  return new Promise((resolve) => {
    const end = (given) => {
      byId("key-form").onsubmit = byId("key-cancel").onclick = dialog.oncancel = null;
      if (dialog.open) dialog.close();
      byId("key-change").hidden = given === null;
      resolve(given);
    };
    byId("key-form").onsubmit = (event) => {
      event.preventDefault();
      end(byId("key").value.trim());
    };
    byId("key-cancel").onclick = dialog.oncancel = () => end(null);
  });
}
