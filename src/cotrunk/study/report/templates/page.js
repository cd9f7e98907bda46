// Draws the charts; their data and specifications are in the page.
const { charts, datasets, config } = JSON.parse(document.getElementById("charts").textContent);
const views = new Map();
// Expressions are interpreted and styles are in our own sheet: the page may neither evaluate text nor add styles.
const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } };

const replaced = new AbortController();
// Sent where another report takes the place of this one.
addEventListener(
  "report-replaced",
  () => {
    replaced.abort();
    for (const view of views.values()) view.finalize();
  },
  { once: true },
);

// The select of the section may have been changed before its charts are drawn.
async function draw(place) {
  const variants = charts[place.dataset.chart];
  const select = place.closest("section").querySelector("select[data-sets]");
  const ofVariant = select?.dataset.sets === "variant";
  const spec = structuredClone((ofVariant && variants[select.value]) || Object.values(variants)[0]);
  spec.datasets = { ...spec.datasets, records: datasets[place.dataset.chart] };
  spec.config = config;
  const { view } = await vegaEmbed(place, spec, options);
  if (replaced.signal.aborted) {
    view.finalize();
    return;
  }
  views.get(place)?.finalize();
  views.set(place, view);
  if (select && !ofVariant) await choose(view, select);
}

async function choose(view, select) {
  await view.signal(select.dataset.sets, select.value).runAsync();
}

async function changed(section, select) {
  const places = section.querySelectorAll("[data-chart]");
  if (select.dataset.sets === "variant") {
    for (const place of places) await draw(place);
    return;
  }
  for (const each of section.querySelectorAll("[data-run]")) each.hidden = each.dataset.run !== select.value;
  for (const place of places) {
    const figure = place.parentElement;
    const revealed = figure.hidden;
    figure.hidden = select.dataset.sets === "run" && !hasRecords(place, select.value);
    // What is hidden has no width to be drawn in.
    if (!figure.hidden && revealed) await draw(place);
    else if (views.has(place)) await choose(views.get(place), select);
  }
}

function hasRecords(place, run) {
  return datasets[place.dataset.chart].some((record) => record.run === run);
}

for (const select of document.querySelectorAll("select[data-sets]")) {
  select.addEventListener("change", () => changed(select.closest("section"), select));
}
// Paper cannot be unfolded.
const folded = new Set();
addEventListener(
  "beforeprint",
  () => {
    for (const each of document.querySelectorAll("details:not([open])")) {
      folded.add(each);
      each.open = true;
    }
  },
  { signal: replaced.signal },
);
addEventListener(
  "afterprint",
  () => {
    for (const each of folded) each.open = false;
    folded.clear();
  },
  { signal: replaced.signal },
);
for (const place of document.querySelectorAll("[data-chart]")) {
  if (!place.parentElement.hidden) await draw(place);
}
document.documentElement.dataset.drawn = "all";
