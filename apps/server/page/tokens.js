// Each token with its probability; at a tap, or with the arrow keys, the alternatives.
import { el, say } from "./dom.js";

const AT_ONCE = 400; // tokens drawn in one frame
let ids = 0;

const percent = (log) => {
  const p = Math.exp(log) * 100;
  return p >= 99.95 ? "100 %" : p >= 1 ? `${p.toFixed(1)} %` : p >= 0.01 ? `${p.toFixed(2)} %` : "< 0.01 %";
};
const shown = (text) => JSON.stringify(text).slice(1, -1).replaceAll(" ", "\u00b7") || "(nothing)";

// Tokens of a reply as the server told them.
export class Scored {
  constructor() { this.list = []; }
  get n() { return this.list.length; }
  add(content) {
    for (const t of content) this.list.push([t.token, t.logprob, (t.top_logprobs ?? []).map((a) => [a.token, a.logprob])]);
  }
}

export class TokenView {
  constructor(scored) {
    this.scored = scored;
    this.n = 0;
    this.at = -1;
    this.tokens = el("div", { class: "tokens", role: "listbox", tabIndex: 0, "aria-label": "Tokens with their probabilities",
      onclick: (e) => this.show([...this.tokens.children].indexOf(e.target)), onkeydown: (e) => this.move(e) });
    this.box = el("div", { class: "alternatives", hidden: true });
    this.element = el("div", { class: "token-view" }, this.tokens, this.box);
  }

  draw() {
    const { list } = this.scored, end = Math.min(list.length, this.n + AT_ONCE);
    const rest = document.createDocumentFragment();
    for (; this.n < end; this.n++) {
      const [text, log] = list[this.n], p = Math.exp(log);
      rest.append(el("span", { role: "option", "aria-selected": "false", textContent: text,
        class: p > 0.9 ? "p4" : p > 0.6 ? "p3" : p > 0.3 ? "p2" : "p1" }));
    }
    this.tokens.append(rest);
    if (this.n < list.length) requestAnimationFrame(() => this.draw());
  }

  move(e) {
    const last = this.tokens.children.length - 1;
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: 0, End: last, ArrowDown: this.at + 10, ArrowUp: this.at - 10 }[e.key];
    if (e.key === "Escape") this.box.hidden = true;
    if (to === undefined) return;
    e.preventDefault();
    this.show(Math.max(0, Math.min(last, to)));
  }

  show(at) {
    const token = this.tokens.children[at];
    if (!token) return;
    const before = this.tokens.children[this.at];
    before?.setAttribute("aria-selected", "false");
    before?.removeAttribute("id");
    this.at = at;
    token.id = `token-${ids++}`;
    token.setAttribute("aria-selected", "true");
    this.tokens.setAttribute("aria-activedescendant", token.id);
    const [text, log, others] = this.scored.list[at];
    const rows = others.some(([o]) => o === text) ? others : [[text, log], ...others];
    this.box.replaceChildren(...rows.map(([o, l]) => {
      const bar = el("span", { class: "bar" });
      bar.style.width = `${Math.exp(l) * 100}%`;
      return el("div", { class: o === text ? "taken" : null }, el("code", { textContent: shown(o) }), el("span", { class: "track" }, bar), el("span", { textContent: percent(l) }));
    }));
    if (!others.length) this.box.append(el("p", { textContent: "The server told no alternatives." }));
    this.box.hidden = false;
    this.box.style.top = `${token.offsetTop + token.offsetHeight + 4}px`;
    this.box.style.left = `${Math.max(0, Math.min(token.offsetLeft, this.tokens.clientWidth - this.box.offsetWidth))}px`;
    say(rows.map(([o, l]) => `${shown(o)} ${percent(l)}`).join(", "));
  }
}
