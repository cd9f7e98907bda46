// Draws the charts; their data and specifications are in the page.
const { charts, datasets, config } = JSON.parse(document.getElementById("charts").textContent);
const views = new Map();

async function draw(place, variant, signals) {
  const variants = charts[place.dataset.chart];
  const spec = structuredClone(variants[variant] ?? Object.values(variants)[0]);
  spec.datasets = { ...spec.datasets, records: datasets[place.dataset.chart] };
  spec.config = config;
  const { view } = await vegaEmbed(place, spec, { actions: false, renderer: "svg" });
  views.get(place)?.finalize();
  views.set(place, view);
  await choose(view, signals);
}

async function choose(view, signals) {
  for (const [name, value] of Object.entries(signals)) view.signal(name, value);
  await view.runAsync();
}

async function changed(section, select) {
  const places = section.querySelectorAll("[data-chart]");
  if (select.dataset.sets === "variant") {
    for (const place of places) await draw(place, select.value, {});
    return;
  }
  for (const place of places) await choose(views.get(place), { [select.dataset.sets]: select.value });
  for (const each of section.querySelectorAll("[data-run]")) each.hidden = each.dataset.run !== select.value;
}

for (const select of document.querySelectorAll("select[data-sets]")) {
  select.addEventListener("change", () => changed(select.closest("section"), select));
}
// Paper cannot be unfolded.
const folded = new Set();
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details:not([open])")) {
    folded.add(each);
    each.open = true;
  }
});
addEventListener("afterprint", () => {
  for (const each of folded) each.open = false;
  folded.clear();
});
for (const place of document.querySelectorAll("[data-chart]")) await draw(place, undefined, {});
document.documentElement.dataset.drawn = "all";
