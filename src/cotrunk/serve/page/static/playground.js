// Sentences answered while they are typed, by all tasks of one or two runs.
import { ask, count, element, explained } from "/static/common.js";

const WAIT_MS = 150;
const EXAMPLES = [
  ["The room was bright and the tea was good."],
  ["A slow film with a dull plot, saved by its actors."],
  ["Maria Keller moved from Oslo to Lisbon in March."],
  ["How do I learn to cook?", "What is the best way to learn cooking?"],
  ["Two dogs run along the river.", "A cat sleeps on a stone."],
];
const SERIES = 7;
// Whitespace as Python's str.split sees it, and so the service; \s has U+FEFF, and lacks others.
const BLANKS = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
const text = document.getElementById("text");
const pair = document.getElementById("pair");
const status = document.getElementById("status");
const spoken = document.getElementById("spoken");

const { runs } = await (await ask("/playground.json")).json();
const readsPair = runs.some((run) => run.tasks.some((task) => task.reads === "pair"));
const cards = runs.map(() => new Map());
let newest = 0;
let asked = null;
let timer = null;

begin();

function begin() {
  document.getElementById("about").textContent = runs
    .map((run) => `${run.name} (${run.which}): layers ${run.plan}, ${count(run.parameters)} parameters`)
    .join("; ");
  document.title = `${runs.map((run) => run.name).join(" and ")} - Cotrunk`;
  document.getElementById("second").hidden = !readsPair;
  for (const field of [text, pair]) {
    field.maxLength = Math.min(...runs.map((run) => run.characters));
    field.addEventListener("input", () => {
      clearTimeout(timer);
      state("typing");
      timer = setTimeout(answer, WAIT_MS);
    });
  }
  document.getElementById("fields").addEventListener("submit", (event) => event.preventDefault());
  for (const [first, second] of EXAMPLES) {
    if (second && !readsPair) continue;
    const button = element("button", { type: "button" }, second ? `${first} / ${second}` : first);
    button.addEventListener("click", () => {
      [text.value, pair.value] = [first, second ?? ""];
      answer();
    });
    document.getElementById("tries").append(element("li", {}, button));
  }
  document.getElementById("runs").append(...runs.map(section));
  if (!split(text.value).length) example();
  answer({ aloud: false });
}

// Selected, so that typing replaces it.
function example() {
  const [first, second] = EXAMPLES.find((each) => each.length === (readsPair ? 2 : 1));
  [text.value, pair.value] = [first, second ?? ""];
  if (document.activeElement === text) text.select();
}

function split(given) {
  return given.split(BLANKS).filter(Boolean);
}

// For style sheets and tests.
function state(now) {
  document.documentElement.dataset.state = now;
  if (now !== "typing" && now !== "asking") document.documentElement.toggleAttribute("data-stale", now === "refused");
}

function section(run, number) {
  const list = element("div", { class: "cards" });
  for (const task of run.tasks) {
    const answerPlace = element("div", { class: "answer" });
    const card = element(
      "article",
      { class: "card", "data-task": task.name, "aria-label": task.name },
      element("h3", {}, task.name, " ", element("span", { class: "note" }, task.kind)),
      answerPlace,
    );
    cards[number].set(task.name, answerPlace);
    list.append(card);
  }
  const title = runs.length > 1 ? run.name : "Answers";
  const id = `run-${number}`;
  return element(
    "section",
    { "aria-labelledby": id, "data-run": number },
    element("h2", { id }, title),
    list,
    element("h3", { class: "over" }, "Plan"),
    drawing(run),
    element("p", { class: "note" }, passes(run)),
  );
}

function passes(run) {
  const parts = run.passes
    .filter(({ tasks }) => tasks.length > 1)
    .map(({ tasks, whole }) => {
      const what = whole ? "The encoder is" : "Layers that tasks share are";
      return `${what} computed once for ${tasks.join(" + ")}.`;
    });
  const alone = run.passes.filter(({ tasks }) => tasks.length === 1).map(({ tasks }) => tasks[0]);
  if (alone.length) parts.push(`Computed separately: ${alone.join(", ")}.`);
  return parts.join(" ");
}

// As in a report: boxes are copies of parameters, and tasks in one box share it.
function drawing(run) {
  const { width, height, rows, says } = run.drawing;
  const svg = shape("svg", {
    viewBox: `-1 -1 ${width + 2} ${height + 2}`, width, role: "img",
    "aria-label": `Plan, from the top: ${says}`, "font-size": 11.5,
  });
  for (const row of rows) {
    svg.append(word(row.label, { x: 84, y: row.middle + 4, "text-anchor": "end", fill: "var(--muted)" }));
    for (const box of row.boxes) {
      const one = box.mark === "one";
      const stroke = { stroke: one ? "var(--rest)" : "var(--accent)", "stroke-opacity": 0.8 };
      svg.append(shape("rect", {
        x: box.x, y: box.y, width: box.width, height: box.height, rx: 3, ...stroke,
        fill: one ? "none" : "var(--accent)", "fill-opacity": box.mark === "all" ? 0.26 : 0.13,
      }));
      for (const y of box.lines) {
        svg.append(shape("path", { d: `M${box.x} ${y}h5M${box.x + box.width} ${y}h-5`, ...stroke }));
      }
      svg.append(word(box.label, {
        x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, "text-anchor": "middle", fill: "var(--ink)",
      }));
    }
  }
  const label = `Plan of ${run.name}`;
  return element("div", { class: "drawing scroll more", tabindex: 0, role: "region", "aria-label": label }, svg);
}

function shape(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function word(content, attributes) {
  const made = shape("text", attributes);
  made.textContent = content;
  return made;
}

// Only the newest answer is shown: what was asked before is given up. What nobody has asked for,
// the first example, is not read out, and its time may include that the service warms up.
async function answer({ aloud = true } = {}) {
  clearTimeout(timer);
  asked?.abort();
  const mine = ++newest;
  state("asking");
  const input = { text: text.value, ...(readsPair && split(pair.value).length && { pair: pair.value }) };
  if (!split(input.text).length) {
    spoken.textContent = show(runs.map(() => ({})), input);
    status.textContent = "Type a sentence, or try one of the examples.";
    state("ready");
    return;
  }
  asked = new AbortController();
  try {
    const found = await Promise.all(runs.map((run) => predicted(run, input, asked.signal)));
    if (mine !== newest) return;
    const said = show(found.map((one) => one.output), input);
    if (aloud) tell(said, found);
    state("answered");
  } catch (error) {
    if (mine !== newest || error.name === "AbortError") return;
    status.textContent = explained(error);
    spoken.textContent = "";
    state("refused");
    if (error.status === 429) timer = setTimeout(answer, 1000 * (error.seconds || 1));
  }
}

function tell(said, found) {
  spoken.textContent = said;
  const times = found.map((one, number) => (runs.length > 1 ? `${runs[number].name} ` : "") + `${one.ms.toFixed(0)} ms`);
  status.textContent = [`Answered in ${times.join(", ")}`, ...cut()].join(". ");
}

// The field itself cuts what is pasted, without a word; a text of just that length looks the same.
function cut() {
  const isFull = [text, pair].some((field) => field.value.length >= field.maxLength);
  return isFull ? [`Only ${text.maxLength.toLocaleString("en")} characters of a text are read`] : [];
}

async function predicted(run, input, signal) {
  const tasks = run.tasks.filter((task) => input.pair || task.reads !== "pair").map((task) => task.name);
  if (!tasks.length) return { output: {}, ms: 0 };
  const given = run.tasks.some((task) => task.reads === "pair") ? input : { text: input.text };
  const begun = performance.now();
  const response = await ask(run.predict, {
    method: "POST", signal, headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ inputs: [given], tasks }),
  });
  const { outputs } = await response.json();
  return { output: outputs[0], ms: performance.now() - begun };
}

// Shows the answers, and gives them in words.
function show(outputs, input) {
  const said = [];
  runs.forEach((run, number) => {
    for (const task of run.tasks) {
      const place = cards[number].get(task.name);
      const found = outputs[number][task.name];
      if (!found) {
        const isAlone = split(input.text).length && task.reads === "pair";
        place.replaceChildren(...(isAlone ? [element("p", { class: "note" }, "Needs a second sentence.")] : []));
        continue;
      }
      place.replaceChildren(...DRAWN[task.drawn_as](task, found, input));
      said.push(`${task.name}: ${plain(found)}`);
    }
  });
  return said.join("; ");
}

function plain({ prediction, name }) {
  if (Array.isArray(prediction)) return prediction.map((each) => each ?? "-").join(" ") || "none";
  return typeof prediction === "number" && !Number.isInteger(prediction) ? prediction.toFixed(2) : String(name ?? prediction);
}

const DRAWN = {
  bars: (task, found) => [
    verdict(plain(found)),
    element("ul", { class: "bars" }, ...(found.probabilities ?? []).map((share, index) => bar(task.outputs[index], share, share === Math.max(...found.probabilities)))),
  ],
  probability: (task, found) => [
    verdict(plain(found)),
    element("ul", { class: "bars" }, bar(task.outputs[0], found.probabilities[0], true)),
  ],
  chips: (task, found) => [
    verdict(found.prediction.length ? found.prediction.join(", ") : "no class"),
    element("ul", { class: "chips" }, ...task.outputs.map((name, index) => chip(name, found.probabilities[index], found.prediction.includes(name)))),
  ],
  gauge,
  words,
};

function verdict(said) {
  return element("p", { class: "verdict-word" }, said);
}

function percent(share) {
  return share == null ? "-" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

// A meter to be read out, and the same drawn: browsers draw their own too differently.
function measured(min, max, value, label) {
  const share = Math.min(1, Math.max(0, (value - min) / (max - min)));
  const svg = shape("svg", { class: "bar", "aria-hidden": "true" });
  svg.append(shape("rect", { width: `${100 * share}%`, height: "100%", fill: "var(--accent)" }));
  return element("span", { class: "measured" }, element("meter", { class: "unseen", min, max, value, "aria-label": label }), svg);
}

function bar(name, share, strong) {
  const meter = measured(0, 1, share ?? 0, `${name}: ${percent(share)}`);
  return element(
    "li",
    strong ? { class: "strong" } : {},
    element("span", { class: "name" }, name),
    meter,
    element("span", { class: "share", "aria-hidden": "true" }, percent(share)),
  );
}

function chip(name, share, chosen) {
  return element("li", { class: chosen ? "chosen" : "" }, chosen ? "\u2713 " : "", name, " ", element("span", { class: "note" }, percent(share)));
}

function gauge(task, found) {
  const value = found.prediction;
  const shown = verdict(typeof value === "number" ? value.toFixed(2) : "-");
  if (!task.span) return [shown];
  const [low, high] = task.span;
  const meter = measured(low, high, value, `${value} on a scale from ${low} to ${high}`);
  const ends = element("div", { class: "ends", "aria-hidden": "true" }, element("span", {}, String(low)), element("span", {}, String(high)));
  return [shown, element("div", { class: "gauge" }, meter, ends)];
}

// Words that were cut off have no tag.
function words(task, found, input) {
  const types = [...new Set(task.outputs.filter((tag) => tag !== "O").map(type))];
  const shown = split(input.text).map((one, index) => {
    const tag = found.prediction[index];
    const number = tag && tag !== "O" ? types.indexOf(type(tag)) : -1;
    const colour = number < 0 ? "" : number < SERIES ? `tag-${number + 1}` : "tag-rest";
    return element("span", { class: `word ${colour}` }, one, ...(colour ? [element("span", { class: "tag" }, tag)] : []));
  });
  return [element("p", { class: "words" }, ...shown.flatMap((one) => [one, " "]))];
}

function type(tag) {
  return tag.replace(/^[BIES]-/u, "");
}
