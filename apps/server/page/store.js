// Chats of this browser, in IndexedDB.  Where that is refused (private windows) they last until the page is closed.
//
// A chat is a tree: { id, title, created, updated, nodes: { ID: node }, children: [ID], pick: { PARENT: ID } }, a node
// { id, parent, role, content, reasoning, files, children, at, ... }; "" is the root; `pick` says which branch is shown.

let database = null;
let read = null;          // all chats as they were read or saved last
const memory = new Map(); // all chats, where there is no database

// Another tab may have changed them.
addEventListener("focus", () => { read = null; });

const promise = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

export async function open() {
  try {
    const request = indexedDB.open("lutra", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("chats", { keyPath: "id" });
    database = await promise(request);
    return true;
  } catch {
    return false;
  }
}

const chats = (mode) => database.transaction("chats", mode).objectStore("chats");

export async function all() {
  if (database) read ??= new Map((await promise(chats("readonly").getAll())).map((c) => [c.id, c]));
  return [...(read ?? memory).values()].sort((a, b) => b.updated - a.updated);
}

export async function load(id) {
  return database ? promise(chats("readonly").get(id)) : structuredClone(memory.get(id));
}

export async function save(chat) {
  chat.updated = Date.now();
  read?.set(chat.id, chat);
  if (database) await promise(chats("readwrite").put(chat));
  else memory.set(chat.id, structuredClone(chat));
}

export async function remove(id) {
  if (database) await promise(chats("readwrite").delete(id));
  read?.delete(id);
  memory.delete(id);
}

// crypto.randomUUID() exists in secure contexts only; a page of another machine is none without TLS.
const newId = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("");

export function newChat() {
  return { id: newId(), title: "", created: Date.now(), updated: Date.now(), nodes: {}, children: [], pick: {} };
}

export const siblings = (chat, node) => (node.parent ? chat.nodes[node.parent] : chat).children;

export function add(chat, parent, fields) {
  const node = { id: newId(), parent, children: [], at: Date.now(), content: "", ...fields };
  chat.nodes[node.id] = node;
  siblings(chat, node).push(node.id);
  chat.pick[parent] = node.id;
  return node;
}

// The branch that is shown, from its first message on.
export function path(chat) {
  const list = [];
  for (let at = chat.pick[""]; at; at = chat.pick[at]) list.push(chat.nodes[at]);
  return list;
}

export function matches(chat, words) {
  if (!words) return true;
  const texts = [chat.title, ...Object.values(chat.nodes).map((n) => n.content)];
  return texts.some((t) => t.toLowerCase().includes(words.toLowerCase()));
}

export function markdown(chat) {
  const parts = path(chat).map((n) => `## ${n.role === "user" ? "You" : "Model"}\n\n` +
    (n.files ?? []).map((f) => `(file ${f.name})\n\n`).join("") + `${n.content}\n`);
  return `# ${chat.title}\n\n${parts.join("\n")}`;
}
