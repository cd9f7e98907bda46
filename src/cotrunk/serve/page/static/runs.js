// A table of runs that is read again every few seconds; sorted, filtered and searched here.
import { ask, count, element, explained } from "/static/common.js";

const EVERY_MS = 3000;
const MOST_TASKS = 8;
const ORDER = ["running", "finished", "stopped", "broken"];
const about = document.getElementById("about");
const search = document.getElementById("search");
const state = document.getElementById("state");
const compare = document.getElementById("compare");
const clear = document.getElementById("clear");
const table = document.getElementById("table");

const when = new Intl.DateTimeFormat([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

let runs = [];
let columns = [];
let shownVersion = "";
let sorting = { key: "changed", down: true };
const selected = new Set();

search.addEventListener("input", fill);
state.addEventListener("change", fill);
document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
compare.addEventListener("click", () => {
  const chosen = runs.filter((run) => selected.has(run.name)).map((run) => run.name);
  location.href = reportOn(chosen);
});
clear.addEventListener("click", () => {
  selected.clear();
  fill();
  search.focus();
});
await read();

async function read() {
  try {
    const found = await (await ask("/runs.json")).json();
    const version = JSON.stringify(found);
    if (version !== shownVersion) {
      shownVersion = version;
      runs = found.runs;
      columns = columnsOf(tasks());
      const known = new Set(runs.map((run) => run.name));
      for (const name of selected) if (!known.has(name)) selected.delete(name);
      document.title = `${found.folder} - Cotrunk`;
      document.querySelector("h1").textContent = found.folder;
      head();
      fill();
      tell(found.problems);
    }
    document.documentElement.dataset.read = "yes";
  } catch (error) {
    about.textContent = explained(error);
    shownVersion = "";
  }
  setTimeout(read, EVERY_MS);
}

function tell(problems) {
  const counts = ORDER.map((each) => [runs.filter((run) => run.state === each).length, each]).filter(([n]) => n);
  about.textContent = [...problems, counts.map(([n, each]) => `${n} ${each}`).join(", ")].filter(Boolean).join("; ");
}

function tasks() {
  const found = new Map();
  for (const run of runs) for (const [task, metric] of Object.entries(run.metrics)) found.set(task, metric);
  return [...found].slice(0, MOST_TASKS);
}

function columnsOf(tasks) {
  return [
    { key: "name", title: "run", of: (run) => run.name },
    { key: "state", title: "state", of: (run) => ORDER.indexOf(run.state) },
    { key: "steps", title: "steps", of: (run) => run.steps, number: true },
    { key: "changed", title: "changed", of: (run) => run.changed, number: true },
    { key: "plan", title: "plan", of: (run) => run.plan },
    { key: "overall", title: "overall", of: (run) => run.overall, number: true },
    ...tasks.map(([task, metric]) => ({ key: `task ${task}`, title: task, note: metric, of: (run) => run.scores[task], number: true })),
    { key: "parameters", title: "parameters", of: (run) => run.parameters, number: true },
    { key: "seed", title: "seed", of: (run) => run.seed, number: true },
  ];
}

function head() {
  const focused = document.activeElement?.dataset?.key;
  const cells = columns.map((column) => {
    const here = column.key === sorting.key;
    const button = element("button", { type: "button", "data-key": column.key }, column.title, element("span", { "aria-hidden": "true" }, here ? (sorting.down ? " \u2193" : " \u2191") : ""), ...(column.note ? [" ", element("span", { class: "note" }, column.note)] : []));
    button.addEventListener("click", () => {
      sorting = { key: column.key, down: here ? !sorting.down : Boolean(column.number) };
      head();
      fill();
    });
    return element("th", { scope: "col", "aria-sort": here ? (sorting.down ? "descending" : "ascending") : null }, button);
  });
  table.tHead.replaceChildren(element("tr", {}, ...cells));
  if (focused) [...table.tHead.querySelectorAll("button")].find((each) => each.dataset.key === focused)?.focus();
}

function wanted(run) {
  const words = search.value.toLowerCase().split(/\s+/u).filter(Boolean);
  const all = [run.name, run.plan, run.weights, run.why, ...Object.keys(run.metrics)].join(" ").toLowerCase();
  return (!state.value || run.state === state.value) && words.every((word) => all.includes(word));
}

function fill() {
  const column = columns.find((each) => each.key === sorting.key) ?? columns[0];
  const shown = runs.filter(wanted).sort((a, b) => compared(column.of(a), column.of(b)));
  const width = columns.length;
  const focused = document.activeElement?.closest?.("tbody") && document.activeElement.dataset.run;
  table.tBodies[0].replaceChildren(...(shown.length ? shown.map((run) => row(run, width)) : [element("tr", {}, element("td", { colspan: width }, "No matching runs."))]));
  if (focused) [...table.querySelectorAll("input")].find((each) => each.dataset.run === focused)?.focus();
  document.getElementById("caption").textContent = `${shown.length} of ${runs.length} runs; select a column header to sort`;
  choose();
}

// What is missing comes last, whichever way the table is sorted.
function compared(a, b) {
  const [noA, noB] = [a == null || a === "", b == null || b === ""];
  if (noA || noB) return noA - noB;
  const found = typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
  return sorting.down ? -found : found;
}

function row(run, width) {
  const broken = run.state === "broken";
  const box = element("input", { type: "checkbox", "data-run": run.name, "aria-label": `Select ${run.name}`, disabled: broken });
  box.checked = selected.has(run.name);
  box.addEventListener("change", () => {
    selected[box.checked ? "add" : "delete"](run.name);
    choose();
  });
  const name = broken ? element("span", {}, run.name) : element("a", { href: reportOn([run.name]) }, run.name);
  const first = element("th", { scope: "row" }, element("span", { class: "pick" }, box, name));
  const said = element("span", { class: `state is-${run.state}` }, run.state);
  if (broken) return element("tr", { class: "broken-row" }, first, element("td", { colspan: width - 1 }, said, element("p", { class: "why" }, run.why)));
  const cells = columns.slice(2).map((column) => element("td", {}, written(column, run)));
  return element("tr", {}, first, element("td", {}, said), ...cells);
}

function written(column, run) {
  const value = column.of(run);
  if (value == null || value === "") return "\u2013";
  if (column.key === "overall" || column.key.startsWith("task ")) return value.toFixed(3).replace("-", "\u2212");
  if (column.key === "parameters") return count(value);
  if (column.key === "changed") return when.format(1000 * value);
  return String(value);
}

function choose() {
  compare.disabled = !selected.size;
  compare.textContent = selected.size > 1 ? `Compare ${selected.size} runs` : "Report on selected";
  clear.hidden = !selected.size;
}

function reportOn(names) {
  return `/runs/report?${new URLSearchParams(names.map((name) => ["run", name]))}`;
}
