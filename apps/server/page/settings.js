// Settings that explain themselves.  An empty field is left to the model's file and the server's options, as its
// placeholder says.
import { byId, el, local } from "./dom.js";

const number = (min, max, step, empty = "the server's") => ({ kind: "number", min, max, step, empty });

const FIELDS = [
  { title: "Reply" },
  { name: "system", label: "System prompt", kind: "text", help: "Stands before every chat: who answers, and how." },
  { name: "max_tokens", label: "Longest reply", ...number(1, 1 << 30, 1), help: "In tokens, thinking included. A token is about four letters." },
  { name: "temperature", label: "Temperature", ...number(0, 2, 0.05, "the model's"), help: "0 always takes the most likely token; 1 draws by the model's own probabilities; more is wilder." },
  { name: "top_p", label: "Top-p", ...number(0, 1, 0.01, "the model's"), help: "Draws among the likeliest tokens that together have this probability." },
  { name: "min_p", label: "Min-p", ...number(0, 1, 0.01, "the model's"), help: "Leaves out tokens below this share of the likeliest one's probability." },
  { name: "seed", label: "Seed", ...number(0, 2 ** 32 - 1, 1, "at random"), help: "The same seed and settings give the same reply." },
  { name: "reasoning", label: "Thinking", kind: "choice", help: "Of models that can think before they answer.",
    choices: [["", "as the model is"], ["none", "off"], ["low", "little"], ["medium", "medium"], ["high", "much"]] },
  { title: "Search: several candidates, one answer" },
  { name: "method", label: "Method", kind: "choice", help: "Vote: the most frequent answer. The others need a verifier that the server was started with.",
    choices: [["", "none, one reply"], ["vote", "vote"], ["weighted", "vote weighted by score"], ["best", "best of all"],
      ["beam", "beam search over steps"], ["dvts", "beam search in subtrees"], ["rebase", "rebase"], ["auto", "what the budget buys"]] },
  { name: "width", label: "Candidates", ...number(1, 256, 1), help: "How many are decoded together." },
  { name: "expand", label: "Children of each survivor", ...number(1, 64, 1), help: "For the two beam searches." },
  { name: "budget", label: "Budget", ...number(1, 1 << 30, 1), help: "Generated tokens of all candidates." },
  { title: "Page" },
  { name: "top", label: "Alternatives of each token", ...number(0, 20, 1, "none"), help: "With a number, “Tokens” below a reply shows how likely each token was, and that many alternatives at a tap." },
];

const defaults = { top: "5" };
let values = { ...defaults };
try {
  values = { ...values, ...JSON.parse(local.getItem("lutra.settings") ?? "{}") };
} catch { /* the defaults */ }

export const system = () => (values.system ?? "").trim();
export const method = () => values.method ?? "";

const numeric = (name) => (values[name] === undefined || values[name] === "" ? undefined : Number(values[name]));

// Fields of a request.
export function fields() {
  const body = {};
  for (const name of ["max_tokens", "temperature", "top_p", "min_p", "seed"]) body[name] = numeric(name);
  if (values.reasoning) body.reasoning_effort = values.reasoning;
  if (numeric("top") > 0) Object.assign(body, { logprobs: true, top_logprobs: numeric("top") });
  if (values.method) {
    const [width, expand, budget] = ["width", "expand", "budget"].map(numeric);
    body.lutra = { search: { method: values.method, width, expand, budget }, events: true };
  }
  return body;
}

function control(f, changed) {
  const properties = { id: `set-${f.name}`, value: values[f.name] ?? "", "aria-describedby": `help-${f.name}` };
  const set = (e) => {
    if (!e.target.validity.valid) return;
    values[f.name] = e.target.value;
    local.setItem("lutra.settings", JSON.stringify(values));
    changed();
  };
  if (f.kind === "text") return el("textarea", { ...properties, rows: 3, oninput: set });
  if (f.kind === "number")
    return el("input", { ...properties, type: "number", min: f.min, max: f.max, step: f.step, placeholder: f.empty, oninput: set });
  const select = el("select", { id: properties.id, "aria-describedby": properties["aria-describedby"], onchange: set },
    ...f.choices.map(([value, text]) => el("option", { value, textContent: text })));
  select.value = values[f.name] ?? "";
  return select;
}

export function build(changed) {
  const draw = () => byId("fields").replaceChildren(...FIELDS.map((f) => (f.title
    ? el("h3", { textContent: f.title })
    : el("div", { class: "field" }, el("label", { htmlFor: `set-${f.name}`, textContent: f.label }), control(f, changed),
      el("p", { id: `help-${f.name}`, textContent: f.help })))));
  byId("show-settings").onclick = () => byId("settings").showModal();
  byId("close-settings").onclick = () => byId("settings").close();
  byId("reset-settings").onclick = () => {
    values = { ...defaults };
    local.removeItem("lutra.settings");
    draw();
    changed();
  };
  draw();
  changed();
}
