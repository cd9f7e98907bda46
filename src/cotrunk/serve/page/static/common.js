// What all pages need: elements made without HTML, and requests with the token, if the service wants one.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export class Refused extends Error {
  constructor(status, lines, seconds) {
    super(lines.join("; "));
    this.status = status;
    this.seconds = seconds;
  }
}

const KEY = "cotrunk-token";

export async function ask(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  if (response.status === 401) {
    await tokenGiven(token !== null);
    return ask(path, options);
  }
  throw new Refused(response.status, await problems(response), Number(response.headers.get("Retry-After")));
}

async function problems(response) {
  try {
    const { detail } = await response.json();
    return detail.map(({ field, message }) => (field ? `${field}: ${message}` : message));
  } catch {
    return [`the service answered ${response.status}`];
  }
}

// One form for all requests that wait for the token.
let waiting = null;

function tokenGiven(wasWrong) {
  waiting ??= new Promise((resolve) => {
    const before = document.activeElement;
    const input = element("input", { type: "password", id: "token", autocomplete: "off", required: true });
    const says = wasWrong ? "That token was not accepted." : "This service needs a token.";
    const form = element(
      "form",
      { class: "token", "aria-label": "Token" },
      element("p", { role: "alert" }, says),
      element("label", { for: "token" }, "Token"),
      input,
      element("button", { type: "submit" }, "Use token"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      form.remove();
      delete document.documentElement.dataset.locked;
      waiting = null;
      focusAgain(before);
      resolve();
    });
    document.querySelector("main").prepend(form);
    document.documentElement.dataset.locked = "yes"; // nothing is loading until then
    input.focus();
  });
  return waiting;
}

function focusAgain(before) {
  const first = document.querySelector("main :is(textarea, input, select)");
  (before && before !== document.body && before.isConnected ? before : first)?.focus();
}

export function explained(error) {
  return error instanceof TypeError ? "The service is not responding; is it still running?" : error.message;
}

export function count(number) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (number >= size) return `${(number / size).toPrecision(3)} ${unit}`;
  }
  return String(number);
}
