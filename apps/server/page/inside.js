// What goes on beside the chat: speed, rows, votes, the tree of candidates.
import { metrics } from "./api.js";
import { byId, el, once, say } from "./dom.js";
import { Search } from "./search.js";

const POLL_MS = 500;
const LEVELS = 6; // the tree is indented so far
const ROWS = [["valid", "kept"], ["wasted", "evaluated for nothing: rejected drafts, candidates that were dropped"], ["idle", "free at about the cost of one row"]];

const fixed = (x, n = 2) => (Number.isFinite(x) ? x.toFixed(n) : "–");
const part = (n, whole) => (whole > 0 ? n / whole : 0);

// A bar with its text before it; redrawn in place.
function meter(label) {
  const bar = el("span", { class: "bar" }), value = el("span", { class: "value" });
  const node = el("div", { class: "meter" }, el("span", { class: "label", textContent: label }), el("span", { class: "track" }, bar), value);
  return { node, set(share, shown) { bar.style.width = `${100 * share}%`; value.textContent = shown; } };
}

export class Inside {
  constructor() {
    this.draw = once(() => this.paint());
    this.rows = ROWS.map(([name, title]) => {
      const m = meter(name);
      m.node.title = title;
      return { ...m, name };
    });
    byId("rows").replaceChildren(...this.rows.map((m) => m.node), el("p", { class: "note", textContent: "Of all requests to the server since this reply began." }));
    this.clear();
  }

  clear() {
    clearInterval(this.timer);
    this.search = new Search();
    this.nodes = new Map();
    this.n = 0;
    this.began = this.first = this.last = 0;
    this.timings = null;
    this.base = this.now = null;
    this.method = "";
    this.ended = false;
    byId("tree").replaceChildren();
    this.draw();
  }

  // A reply begins: counts from here on.
  begin(method) {
    this.clear();
    this.method = method;
    this.began = performance.now();
    this.poll(true);
    this.timer = setInterval(() => this.poll(false), POLL_MS);
  }

  async poll(first) {
    try {
      const seen = await metrics();
      if (first) this.base = seen;
      this.now = seen;
      this.draw();
    } catch { /* the gauge stays as it is */ }
  }

  token() {
    this.last = performance.now();
    if (this.n++ === 0) this.first = this.last;
    this.draw();
  }

  event(lutra) {
    if (this.search.take(lutra.search)) this.draw();
  }

  end(timings) {
    clearInterval(this.timer);
    this.timings = timings ?? null;
    this.ended = true;
    this.poll(false);
    if (this.search.winner !== null) say(`Candidate ${this.search.winner} won, answer ${this.search.answer || "none"}`);
    this.draw();
  }

  paint() {
    this.paintSpeed();
    this.paintRows();
    this.paintVote();
    this.paintTree();
  }

  paintSpeed() {
    const t = this.timings, ms = this.last - this.first;
    const rate = t?.predicted_per_second ?? (this.n > 1 && ms > 0 ? ((this.n - 1) * 1000) / ms : NaN);
    const lines = [["Tokens per second", fixed(rate, 1)], ["Tokens", String(t?.predicted_n ?? this.n)],
      ["First token after", this.first ? `${fixed((this.first - this.began) / 1000)} s` : "–"]];
    if (t?.prompt_n !== undefined) lines.push(["Prompt", `${t.prompt_n} evaluated, ${t.cache_n} from the cache`]);
    if (t?.draft_n) lines.push(["Accepted drafts", `${t.draft_n_accepted} of ${t.draft_n}`]);
    if (t?.passes) lines.push(["Passes", String(t.passes)]);
    byId("speed").replaceChildren(...lines.flatMap(([name, value]) => [el("dt", { textContent: name }), el("dd", { textContent: value })]));
  }

  paintRows() {
    const of = (name) => (this.now && this.base ? (this.now[`lutra:rows_${name}_total`] ?? 0) - (this.base[`lutra:rows_${name}_total`] ?? 0) : 0);
    const total = ROWS.reduce((sum, [name]) => sum + of(name), 0);
    for (const m of this.rows) m.set(part(of(m.name), total), total ? `${of(m.name)} (${Math.round(100 * part(of(m.name), total))} %)` : "–");
  }

  paintVote() {
    const votes = this.search.votes(), most = votes[0]?.[1] ?? 1;
    byId("vote").replaceChildren(...votes.slice(0, 12).map(([answer, n, sum]) => {
      const m = meter(answer);
      m.set(n / most, sum > 0 ? `${n}, score ${fixed(sum)}` : String(n));
      return el("li", { class: answer === this.search.answer ? "wins" : null }, m.node);
    }));
  }

  // Only candidates that changed, and of these only new steps.
  paintTree() {
    const { search } = this, n = search.candidates.size;
    byId("tree-note").textContent = n ? `${n} candidates, ${[...search.candidates.values()].filter((c) => c.state === "live").length} live`
      : this.method ? (this.ended ? "The server told nothing of a search." : "No event of a search has come yet.") : "With a search method in the settings, its candidates grow here.";
    for (const id of [...search.changed].sort((a, b) => a - b)) this.paintCandidate(search.candidates.get(id));
    search.changed.clear();
  }

  paintCandidate(c) {
    let v = this.nodes.get(c.id);
    if (!v) {
      v = { head: el("span", { class: "head" }), steps: el("ol"), children: el("ul"), n: 0 };
      v.node = el("li", {}, el("details", { open: this.nodes.size < 32 }, el("summary", {}, v.head), v.steps), v.children);
      this.nodes.set(c.id, v);
    }
    const above = this.nodes.get(c.parent);
    const level = above ? above.level + 1 : 0;
    if (v.level === undefined || v.above !== above) {
      v.level = level;
      v.above = above;
      v.children.className = level < LEVELS ? "in" : "";
      (above?.children ?? byId("tree")).append(v.node);
    }
    v.node.className = `${c.state}${c.wins ? " wins" : ""}`;
    v.head.textContent = `#${c.id}` + (c.parent >= 0 ? `, from #${c.parent} after step ${c.from}` : "") + ` · ${c.state}` +
      (c.score !== null ? ` · score ${fixed(c.score)}` : "") + (c.answer ? ` · answer ${c.answer}` : "") +
      (c.id === this.search.winner ? " · won" : c.wins ? " · on the winner's path" : "");
    for (; v.n < c.steps.length; v.n++) {
      const { text, reward, why } = c.steps[v.n];
      v.steps.append(el("li", {}, el("span", { textContent: text.trim() }), Number.isFinite(reward) && reward !== 0 ? el("span", { class: "score", textContent: ` ${fixed(reward)}` }) : null,
        why ? el("span", { class: "error", textContent: ` ${why}` }) : null));
    }
  }
}
