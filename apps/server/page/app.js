// The page: chats, messages, what is sent.
import { models, stream } from "./api.js";
import { button, byId, download, el, local, say } from "./dom.js";
import { Inside } from "./inside.js";
import { Message } from "./message.js";
import * as settings from "./settings.js";
import * as store from "./store.js";
import { Scored } from "./tokens.js";

const FILE_MOST_BYTES = 1 << 20;
const LISTED = 200; // chats

const prompt = byId("prompt"), messages = byId("messages"), inside = new Inside();
let chat = store.newChat();
let shown = new Map(); // messages on the page, by node
let running = null;    // { abort, node, chat }
let files = [];        // to be sent with the next message
const scored = new Map(); // probabilities of replies, by node; until the page is closed
const known = new Map();  // models by name

// ---- the conversation ------------------------------------------------------------------------------------------------

function actions(node) {
  const among = () => store.siblings(chat, node);
  return {
    pick(step) {
      stop();
      chat.pick[node.parent] = among()[among().indexOf(node.id) + step];
      keep(chat);
      show();
      say(`Version ${among().indexOf(chat.pick[node.parent]) + 1} of ${among().length}`);
      shown.get(chat.pick[node.parent])?.element.querySelector("button")?.focus();
    },
    edit: (text) => send(text, node.parent, node.files),
    again: () => reply(node.parent),
    async copy(from) {
      try {
        await navigator.clipboard.writeText(node.content);
        say("Copied");
        from.textContent = "Copied";
      } catch {
        from.textContent = "Not allowed here";
      }
      setTimeout(() => { from.textContent = "Copy"; }, 1500);
    },
  };
}

function append(node) {
  const among = store.siblings(chat, node);
  const m = new Message(node, [among.indexOf(node.id), among.length], actions(node));
  m.scored = scored.get(node.id) ?? null;
  if (running?.node === node) {
    m.runs = true;
    running.message = m;
  }
  shown.set(node.id, m);
  messages.append(m.element);
  m.draw(!m.runs);
  return m;
}

function show() {
  shown = new Map();
  messages.replaceChildren();
  store.path(chat).forEach(append);
  if (!shown.size) messages.append(el("p", { class: "hello", textContent: "Ask something. All of it stays on this machine and on the server’s." }));
  document.title = chat.title ? `${chat.title} – Lutra` : "Lutra";
  messages.scrollTop = messages.scrollHeight;
}

const quoted = (f) => {
  const longest = Math.max(2, ...(f.text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `File ${f.name}:\n${fence}\n${f.text}\n${fence}\n\n`;
};

function conversation(parent) {
  const list = [];
  for (let at = parent; at; at = chat.nodes[at].parent) {
    const { role, content, files: attached = [] } = chat.nodes[at];
    list.unshift({ role, content: attached.map(quoted).join("") + content });
  }
  if (settings.system()) list.unshift({ role: "system", content: settings.system() });
  return list;
}

function keep(what) {
  return store.save(what).then(list, (e) => say(`The chat could not be kept: ${e.message}`));
}

function send(text, parent, attached) {
  stop();
  if (!chat.title) chat.title = text.replace(/\s+/g, " ").slice(0, 60) || attached?.[0]?.name || "Files";
  const node = store.add(chat, parent, { role: "user", content: text, files: attached?.length ? attached : undefined });
  reply(node.id);
}

function take(run, event) {
  const { node, message } = run, choice = event.choices?.[0];
  if (event.timings) node.timings = event.timings;
  if (event.lutra) inside.event(event.lutra);
  if (!choice || choice.index > 0) return;
  const { content, reasoning_content: reasoning } = choice.delta ?? {};
  if (choice.logprobs?.content) run.scored.add(choice.logprobs.content);
  if (choice.finish_reason) node.finish = choice.finish_reason;
  if (reasoning) node.reasoning = (node.reasoning ?? "") + reasoning;
  if (content) {
    node.answerAt ??= Date.now();
    node.content += content;
  }
  if (content || reasoning) inside.token();
  message.update();
}

// A new reply to the message `parent`, beside those there are.
async function reply(parent) {
  stop();
  const abort = new AbortController();
  const node = store.add(chat, parent, { role: "assistant", model: byId("model").value });
  const run = { abort, node, chat, scored: new Scored() };
  running = run;
  scored.set(node.id, run.scored);
  show();
  busy(true);
  keep(chat);
  inside.begin(settings.method());
  say("The model is answering");
  try {
    const body = { model: node.model || undefined, messages: conversation(parent), stream: true,
      stream_options: { include_usage: true }, timings_per_token: true, ...settings.fields() };
    await stream(body, abort.signal, (event) => take(run, event));
  } catch (e) {
    if (e.name !== "AbortError") node.error = e.message;
  }
  run.message.runs = false;
  run.message.draw(true);
  if (running === run) {
    running = null;
    busy(false);
    inside.end(node.timings);
    say(node.error ?? (node.stopped ? "Stopped" : `Reply: ${node.content.slice(0, 2000)}`));
  }
  keep(run.chat);
}

function stop() {
  if (!running) return;
  running.abort.abort();
  running.node.stopped = true;
  inside.end(running.node.timings);
  running = null;
  busy(false);
}

function busy(is) {
  byId("stop").hidden = !is;
  byId("send").hidden = is;
  messages.setAttribute("aria-busy", String(is));
}

// The end stays in sight while it grows, unless the reader has scrolled away.
let follows = true;
messages.addEventListener("scroll", () => { follows = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 80; });
new MutationObserver(() => { if (follows) messages.scrollTop = messages.scrollHeight; }).observe(messages, { childList: true, subtree: true });

// ---- history -------------------------------------------------------------------------------------------------------

const safeName = (title) => title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 40) || "chat";

async function list() {
  const words = byId("find").value.trim();
  const found = (await store.all()).filter((c) => store.matches(c, words));
  const entries = found.slice(0, LISTED).map((c) => el("li", {},
    button(c.title || "New chat", () => open(c.id), { class: "open", "aria-current": c.id === chat.id ? "true" : null }),
    el("details", { class: "more" }, el("summary", { "aria-label": `More about ${c.title}`, textContent: "⋯" }),
      button("As Markdown", () => download(`${safeName(c.title)}.md`, "text/markdown", store.markdown(c))),
      button("As JSON", () => download(`${safeName(c.title)}.json`, "application/json", JSON.stringify(c, null, 1))),
      button("Delete", async () => {
        if (c.id === chat.id) begin();
        await store.remove(c.id);
        say("Deleted");
        list();
        byId("find").focus();
      }))));
  byId("chats").replaceChildren(...entries);
  const note = found.length > LISTED ? `${found.length - LISTED} older ones are found by their words.`
    : found.length ? "" : words ? "No chat has these words." : "No chats yet.";
  if (note) byId("chats").append(el("li", { class: "note", textContent: note }));
}

async function open(id) {
  stop();
  const found = await store.load(id);
  if (!found) return;
  chat = found;
  local.setItem("lutra.chat", id);
  drawer("history", false);
  inside.clear();
  show();
  list();
  prompt.focus();
}

function begin() {
  stop();
  chat = store.newChat();
  local.removeItem("lutra.chat");
  drawer("history", false);
  inside.clear();
  show();
  list();
  prompt.focus();
}

// ---- files ---------------------------------------------------------------------------------------------------------

// The text of a file; what it is instead.
async function readText(file) {
  if (file.size > FILE_MOST_BYTES) throw new Error(`${file.name} is larger than 1 MiB`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch { /* no UTF-8, a folder, or it cannot be read */ }
  throw new Error(`${file.name} is not a text in UTF-8`);
}

async function attach(chosen) {
  mode();
  for (const file of chosen) {
    try {
      files.push({ name: file.name, text: await readText(file) });
      say(`${file.name} attached`);
    } catch (e) {
      byId("mode").textContent = e.message;
      say(e.message);
    }
  }
  showFiles();
}

function showFiles() {
  byId("files").replaceChildren(...files.map((f) => el("li", {}, el("span", { textContent: f.name }),
    button("✕", () => { files = files.filter((o) => o !== f); showFiles(); prompt.focus(); }, { "aria-label": `Remove ${f.name}` }))));
}

// ---- the rest ------------------------------------------------------------------------------------------------------

function drawer(id, open) {
  document.body.classList.toggle(`${id}-open`, open);
  byId(`show-${id}`).setAttribute("aria-expanded", String(open));
}

function toggles(id, first) {
  const on = byId(`show-${id}`);
  on.onclick = () => {
    const open = !document.body.classList.contains(`${id}-open`);
    drawer(id, open);
    if (open && first) byId(first).focus();
  };
  byId(id).addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !document.body.classList.contains(`${id}-open`)) return;
    drawer(id, false);
    on.focus();
  });
}

function mode() {
  byId("mode").textContent = settings.method() ? `Search: ${settings.method()}` : "";
}

function submit() {
  const text = prompt.value.trim();
  if (!text && !files.length) return;
  const leaf = store.path(chat).at(-1);
  const attached = files;
  files = [];
  prompt.value = "";
  mode();
  showFiles();
  local.setItem("lutra.chat", chat.id);
  follows = true;
  // A message without an answer is not sent again: this one stands beside it.
  const unanswered = leaf?.role === "assistant" && !leaf.content;
  send(text, unanswered ? chat.nodes[leaf.parent].parent : leaf?.id ?? "", attached);
}

const amount = (n, units) => {
  let i = 0;
  while (n >= 999.5 && i < units.length - 1) { n /= 1000; i++; }
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
};

function needs() {
  const m = known.get(byId("model").value)?.meta;
  byId("needs").textContent = m ? `${amount(m.size, ["B", "kB", "MB", "GB"])} file, ${amount(m.n_params, ["", "thousand", "million", "billion"])} parameters, ${m.n_ctx} tokens of context` : "";
}

async function loadModels() {
  try {
    for (const m of await models()) known.set(m.id, m);
    const select = byId("model"), wanted = local.getItem("lutra.model");
    select.replaceChildren(...[...known.values()].map((m) => el("option", { value: m.id,
      textContent: m.meta ? `${m.id} (${amount(m.meta.size, ["B", "kB", "MB", "GB"])})` : m.id })));
    if (known.has(wanted)) select.value = wanted;
    needs();
  } catch (e) {
    byId("needs").textContent = e.message;
    say(e.message);
  }
}

function wire() {
  byId("send").onclick = submit;
  byId("stop").onclick = () => { stop(); prompt.focus(); };
  byId("new-chat").onclick = begin;
  byId("find").oninput = list;
  byId("export-all").onclick = async () => download("lutra-chats.json", "application/json", JSON.stringify(await store.all(), null, 1));
  byId("attach").onclick = () => byId("file").click();
  byId("file").onchange = (e) => { attach([...e.target.files]); e.target.value = ""; };
  byId("model").onchange = () => { local.setItem("lutra.model", byId("model").value); needs(); };
  prompt.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); submit(); }
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && running && !document.querySelector("dialog[open]")) { stop(); prompt.focus(); }
  });
  document.addEventListener("dragover", (e) => { e.preventDefault(); document.body.classList.add("drop"); });
  document.addEventListener("dragleave", (e) => { if (!e.relatedTarget) document.body.classList.remove("drop"); });
  document.addEventListener("drop", (e) => { e.preventDefault(); document.body.classList.remove("drop"); attach([...e.dataTransfer.files]); });
  toggles("history", "new-chat");
  toggles("view", null);
  settings.build(mode);
}

wire();
show();
if (!(await store.open())) say("This browser keeps no chats here: they last until the page is closed.");
const last = local.getItem("lutra.chat");
if (last && (chat = (await store.load(last)) ?? chat)) show();
list();
loadModels();
prompt.focus();
