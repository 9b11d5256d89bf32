// A search as its events tell it: candidates with their steps, forks, prunes, votes, the winner.
//
// Events are chunks with `choices: []` and { "lutra": { "search": { "event": "step" | "fork" | "prune" | "finish" |
// "decided", "candidate", "parent", "n_step", "reward", "score", "text", "answer", "why" } } }; -1 is no parent.

export class Search {
  constructor() {
    this.candidates = new Map();
    this.winner = null;
    this.answer = "";
    this.changed = new Set(); // candidates to be drawn anew
  }

  candidate(id) {
    let c = this.candidates.get(id);
    if (!c) {
      c = { id, parent: -1, from: 0, steps: [], score: null, state: "live", answer: null };
      this.candidates.set(id, c);
    }
    this.changed.add(id);
    return c;
  }

  // True when the event was one of a search.
  take(e) {
    if (!e || typeof e.event !== "string") return false;
    const id = e.candidate ?? 0;
    if (e.event === "decided") {
      this.answer = e.answer ?? "";
      this.decide(id);
      return true;
    }
    const c = this.candidate(id);
    if (e.event !== "fork" && Number.isFinite(e.score)) c.score = e.score;
    if (e.event === "step") c.steps.push({ text: e.text ?? "", reward: e.reward, score: e.score, why: e.why ?? "" });
    else if (e.event === "fork" && this.candidates.has(e.parent) && e.parent !== id) {
      c.parent = e.parent;
      c.from = e.n_step ?? 0;
    } else if (e.event === "prune") c.state = "pruned";
    else if (e.event === "finish") {
      c.state = "whole";
      c.answer = e.answer ?? "";
    }
    return true;
  }

  decide(id) {
    this.winner = id;
    for (let at = id, seen = new Set(); this.candidates.has(at) && !seen.has(at); at = this.candidates.get(at).parent) {
      seen.add(at);
      this.candidate(at).wins = true;
    }
  }

  // [answer, how many, sum of scores], most votes first.
  votes() {
    const by = new Map();
    for (const c of this.candidates.values()) {
      if (!c.answer) continue;
      const v = by.get(c.answer) ?? [c.answer, 0, 0];
      v[1]++;
      v[2] += c.score ?? 0;
      by.set(c.answer, v);
    }
    return [...by.values()].sort((a, b) => b[1] - a[1] || b[2] - a[2]);
  }
}
