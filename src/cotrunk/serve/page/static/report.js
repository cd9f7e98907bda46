// The report on the runs that the address names; made again when one of them changes.
import { Refused, ask, explained } from "/static/common.js";

const EVERY_MS = 5000;
const REST = 20; // times as long as a report took: training needs the processor more
const names = new URLSearchParams(location.search).getAll("run");
const place = document.getElementById("report");
const status = document.getElementById("status");
let shownVersion = "";
let times = 0;
let took = 0;
let refusal = "";

name();
await watch();

async function watch() {
  try {
    const { runs } = await (await ask("/runs.json")).json();
    const mine = runs.filter((run) => names.includes(run.name));
    const version = JSON.stringify(mine.map((run) => run.version));
    if (version !== shownVersion) {
      refusal = await refused(show);
      shownVersion = version;
    }
    const training = mine.filter((run) => run.state === "running").map((run) => `${run.name}, step ${run.steps ?? 0}`);
    tell(refusal || (training.length ? `Training: ${training.join("; ")}` : ""));
  } catch (error) {
    tell(explained(error));
  }
  document.documentElement.dataset.shown = "yes";
  setTimeout(watch, Math.max(EVERY_MS, REST * took));
}

// What the report is about, until it is there: making it may take seconds.
function name() {
  const title = names.length === 1 ? names[0] : `${names.length} runs`;
  place.querySelector("h1").textContent = title;
  document.title = `${title} - Cotrunk`;
  tell(names.length > 1 ? `Making the report on ${names.join(", ")}` : "Making the report");
}

// Why there is no report on these runs; not asked again until one of them changes.
async function refused(show) {
  try {
    await show();
    return "";
  } catch (error) {
    if (!(error instanceof Refused) || error.status >= 500) throw error;
    return error.message;
  }
}

// What has not changed is not read out again.
function tell(said) {
  if (status.textContent !== said) status.textContent = said;
}

async function show() {
  const begun = performance.now();
  const query = new URLSearchParams(names.map((name) => ["run", name]));
  const response = await ask(`/runs/report.html?${query}`);
  took = performance.now() - begun;
  // The service escapes all names and texts; scripts in what is parsed here never run.
  const made = new DOMParser().parseFromString(await response.text(), "text/html");
  const open = [...place.querySelectorAll("details[open] > summary")].map((each) => each.textContent);
  const top = scrollY;
  dispatchEvent(new Event("report-replaced")); // its charts and listeners end
  place.replaceChildren(...made.body.children);
  place.querySelector("h1").after(status);
  for (const each of place.querySelectorAll("details > summary")) each.parentElement.open = open.includes(each.textContent);
  document.title = `${place.querySelector("h1").textContent} - Cotrunk`;
  if (!place.querySelector("#charts")) return; // no scores yet
  await import("/static/vega.js");
  await import(`/static/charts.js?${++times}`);
  scrollTo({ top, behavior: "instant" });
}
