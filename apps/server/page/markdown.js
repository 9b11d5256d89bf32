// Markdown as DOM nodes.  A model's text is only ever set as text: no HTML, no images, links of http(s) and mailto.
// Time grows with the text's length, whatever it holds; nesting is bounded.
import { button, el, say } from "./dom.js";

const DEPTH = 8;
const LINK = /\[([^[\]\n]{1,500})\]\((<[^<>\n]{1,2000}>|[^()\s]{1,2000})(?:\s+"[^"\n]{0,300}")?\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`]{1,2000}/y;
const LETTER = /[\p{L}\p{N}]/u;

function link(text, url) {
  const address = url.replace(/^<|>$/g, "");
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return document.createTextNode(text);
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer", textContent: text, title: address });
}

// Marks that are open, each kind at most once: **, *, ~~ (and __, _).
class Inline {
  constructor(root) {
    this.open = [{ mark: "", node: root }];
    this.text = "";
  }
  get top() { return this.open[this.open.length - 1]; }
  flush() {
    if (this.text) this.top.node.append(this.text);
    this.text = "";
  }
  add(node) {
    this.flush();
    this.top.node.append(node);
  }
  begin(mark, tag) {
    this.flush();
    this.open.push({ mark, node: el(tag) });
  }
  // Closes up to the mark; others that are open within were plain text.
  end(mark) {
    this.flush();
    while (this.open.length > 1) {
      const { mark: last, node } = this.open.pop();
      if (last === mark) return void this.top.node.append(node);
      this.top.node.append(last, ...node.childNodes);
    }
  }
  has(mark) { return this.open.some((o) => o.mark === mark); }
}

// Code between runs of backticks of the same length; 0 where it does not close.
function code(text, at, out, missing) {
  let n = 1;
  while (text[at + n] === "`") n++;
  const run = "`".repeat(n);
  for (let from = at + n; !missing.has(n);) {
    const end = text.indexOf(run, from);
    if (end < 0) break;
    let after = end + n;
    while (text[after] === "`") after++;
    if (after === end + n && text[end - 1] !== "`") {
      out.add(el("code", { textContent: text.slice(at + n, end).replace(/^ (.*) $/s, "$1") }));
      return after - at;
    }
    from = after;
  }
  missing.add(n);
  out.text += run;
  return n;
}

function mark(text, at, out) {
  const c = text[at], two = text[at + 1] === c;
  const m = two ? c + c : c;
  const before = text[at - 1] ?? " ", after = text[at + m.length] ?? " ";
  if (c === "~" && !two) return 0;
  const closes = !/\s/.test(before) && !(c === "_" && LETTER.test(after));
  const opens = !/\s/.test(after) && !(c === "_" && LETTER.test(before));
  if (closes && out.has(m)) out.end(m);
  else if (opens && !out.has(m)) out.begin(m, c === "~" ? "del" : two ? "strong" : "em");
  else return 0;
  return m.length;
}

export function inline(text, root) {
  const out = new Inline(root), missing = new Set();
  for (let i = 0; i < text.length;) {
    const c = text[i];
    let n = 0;
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? "")) {
      out.text += text[i + 1];
      n = 2;
    } else if (c === "`") {
      n = code(text, i, out, missing);
    } else if (c === "*" || c === "_" || c === "~") {
      n = mark(text, i, out);
    } else if (c === "[") {
      LINK.lastIndex = i;
      const found = LINK.exec(text);
      if (found) out.add(link(found[1], found[2]));
      n = found ? found[0].length : 0;
    } else if (c === "h" && !LETTER.test(text[i - 1] ?? " ")) {
      ADDRESS.lastIndex = i;
      const found = ADDRESS.exec(text)?.[0].replace(/[.,;:!?)\]*_~]+$/, "");
      if (found && found.length > 8) out.add(link(found, found));
      n = found && found.length > 8 ? found.length : 0;
    } else if (c === "\n") {
      out.add(el("br"));
      n = 1;
    }
    if (n === 0) out.text += c;
    i += n || 1;
  }
  out.end(null);
  return root;
}

function codeBlock(lines, language) {
  const text = lines.join("\n");
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      say("Copied");
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block);
      copy.textContent = "Selected";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  }, { "aria-label": language ? `Copy ${language} code` : "Copy code" });
  const block = el("code", { textContent: text });
  return el("div", { class: "code" }, el("div", { class: "bar" }, el("span", { textContent: language }), copy),
    el("pre", { tabIndex: 0, role: "region", "aria-label": language ? `${language} code` : "Code" }, block));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]{0,30})[^`]*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const TABLE_MOST = 1000; // characters of the line under a table's head
const TABLE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

const starts = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || ITEM.test(line) || /^ {0,3}>/.test(line);

const isRuler = (line) => line.length < TABLE_MOST && line.includes("|") && TABLE.test(line);

function cells(line) {
  return line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((c) => c.trim().replaceAll("\\|", "|"));
}

function table(lines, i, root) {
  const head = cells(lines[i]);
  const row = (tag, texts) => el("tr", {}, ...head.map((_, k) => inline(texts[k] ?? "", el(tag))));
  const body = el("tbody");
  const first = row("th", head);
  for (i += 2; i < lines.length && lines[i].includes("|"); i++) body.append(row("td", cells(lines[i])));
  root.append(el("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Table" },
    el("table", {}, el("thead", {}, first), body)));
  return i;
}

function list(lines, i, root, depth) {
  const ordered = /\d/.test(ITEM.exec(lines[i])[2]);
  const node = el(ordered ? "ol" : "ul");
  if (ordered) node.start = parseInt(ITEM.exec(lines[i])[2], 10);
  while (i < lines.length) {
    const found = ITEM.exec(lines[i]);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[i])) break;
    const indent = Math.min(found[0].length, found[1].length + found[2].length + 4) || 2;
    const inner = [lines[i].slice(found[0].length)];
    for (i++; i < lines.length; i++) {
      const blank = lines[i].trim() === "", lead = lines[i].length - lines[i].trimStart().length;
      if (blank ? i + 1 >= lines.length || !/^\s{2,}\S/.test(lines[i + 1]) : lead < 2 && (starts(lines[i]) || lines[i - 1].trim() === "")) break;
      inner.push(lines[i].slice(Math.min(lead, indent)));
    }
    const item = el("li");
    blocks(inner, item, depth + 1, true);
    node.append(item);
    if (lines[i]?.trim() === "" && ITEM.test(lines[i + 1] ?? "")) i++;
  }
  root.append(node);
  return i;
}

function quote(lines, i, root, depth) {
  const inner = [];
  for (; i < lines.length && /^ {0,3}>/.test(lines[i]); i++) inner.push(lines[i].replace(/^ {0,3}> ?/, ""));
  const node = el("blockquote");
  blocks(inner, node, depth + 1, false);
  root.append(node);
  return i;
}

function fence(lines, i, root) {
  const [, mark, language] = FENCE.exec(lines[i]), inner = [];
  for (i++; i < lines.length; i++) {
    const line = lines[i].trim();
    if (line.startsWith(mark) && line.replaceAll(mark[0], "") === "") break;
    inner.push(lines[i]);
  }
  root.append(codeBlock(inner, language));
  return i + 1;
}

function blocks(lines, root, depth, tight) {
  for (let i = 0; i < lines.length;) {
    const line = lines[i], deep = depth >= DEPTH;
    let found;
    if (line.trim() === "") i++;
    else if (FENCE.test(line)) i = fence(lines, i, root);
    else if ((found = HEADING.exec(line))) {
      root.append(inline(found[2].trimEnd().replace(/#{1,6}$/, "").trimEnd(), el(`h${Math.min(6, found[1].length + 2)}`)));
      i++;
    } else if (RULE.test(line)) {
      root.append(el("hr"));
      i++;
    } else if (!deep && /^ {0,3}>/.test(line)) i = quote(lines, i, root, depth);
    else if (!deep && ITEM.test(line)) i = list(lines, i, root, depth);
    else if (line.includes("|") && isRuler(lines[i + 1] ?? ""))
      i = table(lines, i, root);
    else {
      const from = i++;
      while (i < lines.length && lines[i].trim() !== "" && (deep || !starts(lines[i]))) i++;
      inline(lines.slice(from, i).map((l) => l.trim()).join("\n"), tight && from === 0 ? root : root.appendChild(el("p")));
    }
  }
}

// Where the last block that may still change begins: behind the last blank line outside of code, before plain text.
function stable(text, from) {
  let at = from, last = from, open = null;
  for (;;) {
    const end = text.indexOf("\n", at);
    if (end < 0) return last;
    const line = text.slice(at, end), found = FENCE.exec(line);
    if (open ? line.trim().startsWith(open) && line.trim().replaceAll(open[0], "") === "" : found) open = open ? null : found[1];
    if (!open && line.trim() === "" && /^[^\s>\-*+\d|]/.test(text[end + 1] ?? "")) last = end + 1;
    at = end + 1;
  }
}

// A text that grows: blocks that are whole stay as they are, the rest is drawn anew.
export class Growing {
  constructor(root) {
    this.root = root;
    this.fixed = 0; // characters whose nodes stay
    this.tail = [];
  }
  draw(text, whole) {
    for (const node of this.tail) node.remove();
    const end = whole ? text.length : stable(text, this.fixed);
    if (end > this.fixed) blocks(text.slice(this.fixed, end).split("\n"), this.root, 0, false);
    this.fixed = end;
    const rest = document.createDocumentFragment();
    if (end < text.length) blocks(text.slice(end).split("\n"), rest, 0, false);
    this.tail = [...rest.childNodes];
    this.root.append(rest);
  }
}
