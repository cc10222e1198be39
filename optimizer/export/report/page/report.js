import { Choice } from "./choice.js";
import { byId } from "./dom.js";
import { GraphView } from "./graph.js";
import { showHeader } from "./header.js";
import { MemoryChart } from "./memory.js";
import { Panel } from "./panel.js";
import { Plan } from "./plan.js";
import { Search } from "./search.js";
import { showFigures, showMoved, showNotes, showShares } from "./summary.js";
import { OpsTable } from "./table.js";

const plan = new Plan(JSON.parse(byId("data").textContent));
const choice = new Choice(plan.ops.length);
showHeader(plan);
const panel = new Panel(plan, choice);
const graph = new GraphView(plan, choice);
const memory = new MemoryChart(plan, choice);
showShares(plan);
const table = new OpsTable(plan, choice);
showMoved(plan, choice);
showNotes(plan, choice);
showFigures(plan);
const search = new Search(plan, choice, { graph, table });
openNamed();
window.addEventListener("hashchange", openNamed);
document.addEventListener("click", goWithin);

/** Links within the page scroll: in a frame without an origin of its own the browser refuses to follow them. */
function goWithin(event) {
  const link = event.target.closest('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  const section = byId(link.getAttribute("href").slice(1));
  section.scrollIntoView();
  section.focus({ preventScroll: true });
}

/** `report.html#op=ID` opens an op. */
function openNamed() {
  if (!location.hash.startsWith("#op=")) return;
  let name = location.hash.slice(4);
  try {
    name = decodeURIComponent(name);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
  }
  const found = plan.ops.find((op) => op.id === name || op.name === name);
  if (found) choice.choose(found.at);
}
