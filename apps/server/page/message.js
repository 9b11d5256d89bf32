// One message: its text, thinking, tools below it.
import { button, el, once } from "./dom.js";
import { Growing } from "./markdown.js";
import { TokenView } from "./tokens.js";

const seconds = (ms) => (ms < 10000 ? (ms / 1000).toFixed(1) : Math.round(ms / 1000)) + " s";

function summary(node) {
  const t = node.timings, parts = [];
  if (node.model) parts.push(node.model);
  if (t?.predicted_n) parts.push(`${t.predicted_n} tokens`, `${t.predicted_per_second.toFixed(1)} tokens/s`);
  if (t?.draft_n) parts.push(`${t.draft_n_accepted} of ${t.draft_n} drafted tokens accepted`);
  if (node.finish === "length") parts.push("cut off: the longest reply or the context is full");
  if (node.stopped) parts.push("stopped");
  return parts.join(" · ");
}

// `does`: edit, again, copy, pick(step) as the chat offers them; `place`: [index, count] among the branches.
export class Message {
  constructor(node, place, does) {
    this.node = node;
    this.does = does;
    this.text = el("div", { class: "text" });
    this.tokens = null;
    this.foot = el("div", { class: "foot" });
    const who = node.role === "user" ? "You" : "Model";
    this.thought = el("details", { class: "thought", hidden: true }, el("summary", { textContent: "Thinking" }), el("div"));
    this.element = el("article", { class: node.role, "aria-label": who }, el("h2", { class: "who", textContent: who }),
      this.thought, ...this.attached(), this.text, this.foot);
    this.place = place;
    this.grows = new Growing(this.text);
    this.growsThought = new Growing(this.thought.lastChild);
    this.scored = null; // tokens of this reply with probabilities
    this.update = once(() => this.draw(false));
    this.runs = false;
  }

  attached() {
    return (this.node.files ?? []).map((f) => el("details", { class: "attached" },
      el("summary", { textContent: `${f.name}, ${f.text.length} characters` }), el("pre", { textContent: f.text, tabIndex: 0, role: "region", "aria-label": f.name })));
  }

  draw(whole) {
    const { node } = this;
    if (node.role === "user") {
      this.text.textContent = node.content;
    } else {
      if (node.reasoning) {
        this.thought.hidden = false;
        const thinks = this.runs && !node.content;
        this.thought.firstChild.textContent = thinks ? "Thinking…"
          : `Thought for ${seconds((node.answerAt ?? node.at) - node.at)}`;
        this.growsThought.draw(node.reasoning, whole);
      }
      this.grows.draw(node.content, whole);
      this.tokens?.draw();
    }
    if (whole) this.finish();
  }

  finish() {
    const { node, does } = this, [index, count] = this.place;
    const parts = [];
    if (node.error) parts.push(el("p", { class: "error", role: "alert", textContent: node.error }));
    const tools = el("div", { class: "tools" });
    if (count > 1)
      tools.append(button("‹", () => does.pick(-1), { disabled: index === 0, "aria-label": "Earlier version" }),
        el("span", { textContent: `${index + 1} / ${count}` }),
        button("›", () => does.pick(1), { disabled: index === count - 1, "aria-label": "Later version" }));
    if (node.role === "user") tools.append(button("Edit", () => this.edit()));
    else {
      tools.append(button("Copy", (e) => does.copy(e.target)), button("Again", does.again, { title: "Another reply to the same message; this one is kept" }));
      if (this.scored?.n) tools.append(this.toggle ??= button("Tokens", () => this.showTokens(), { "aria-pressed": "false" }));
    }
    parts.push(tools, el("span", { class: "summary", textContent: summary(node) }));
    this.foot.replaceChildren(...parts);
  }

  showTokens() {
    const on = !this.tokens;
    this.toggle.setAttribute("aria-pressed", String(on));
    this.text.hidden = on;
    if (on) {
      this.tokens = new TokenView(this.scored);
      this.text.after(this.tokens.element);
      this.tokens.draw();
    } else {
      this.tokens.element.remove();
      this.tokens = null;
    }
  }

  edit() {
    const area = el("textarea", { value: this.node.content, rows: Math.min(12, this.node.content.split("\n").length + 1), "aria-label": "Edit your message" });
    const end = (text) => {
      this.text.replaceChildren();
      this.draw(true);
      if (text) this.does.edit(text);
      else this.foot.querySelector("button:last-of-type")?.focus();
    };
    area.addEventListener("keydown", (e) => {
      if (e.key === "Escape") end("");
      if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); end(area.value.trim()); }
    });
    this.text.replaceChildren(area);
    this.foot.replaceChildren(el("div", { class: "tools" }, button("Send", () => end(area.value.trim())), button("Cancel", () => end(""))));
    area.focus();
  }
}
