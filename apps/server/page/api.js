// The server: OpenAI's API, a key where one is needed, streams of events.
import { byId, session } from "./dom.js";

let key = session.getItem("lutra.key") || "";

export class ApiError extends Error {}

// Asks for a key; resolves to false when there is none.
function askKey(again) {
  const dialog = byId("key"), input = byId("key-text");
  byId("key-wrong").textContent = again ? "The server does not know this key." : "";
  input.value = "";
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    const off = new AbortController(), { signal } = off;
    const end = (ok) => {
      if (ok && !input.value.trim()) return;
      off.abort();
      if (ok) {
        key = input.value.trim();
        session.setItem("lutra.key", key);
      }
      dialog.close();
      resolve(ok);
    };
    byId("key-ok").addEventListener("click", () => end(true), { signal });
    byId("key-cancel").addEventListener("click", () => end(false), { signal });
    input.addEventListener("keydown", (e) => e.key === "Enter" && end(true), { signal });
    dialog.addEventListener("cancel", (e) => { e.preventDefault(); end(false); }, { signal });
  });
}

let asking = null; // several requests that get 401 share one question

async function problemOf(response) {
  let text = await response.text();
  try {
    text = JSON.parse(text).error.message;
  } catch { /* no error object: the text as it is */ }
  const wait = response.headers.get("Retry-After");
  return new ApiError(`${text || response.statusText} (${response.status})` + (wait ? `; try again in ${wait} s` : ""));
}

export async function request(path, { body, signal } = {}) {
  for (;;) {
    const used = key, headers = {};
    if (used) headers.Authorization = `Bearer ${used}`;
    if (body) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body) });
    } catch (e) {
      if (e.name === "AbortError") throw e;
      throw new ApiError("The server cannot be reached. Is `lutra serve` still running?");
    }
    if (response.ok) return response;
    if (response.status !== 401) throw await problemOf(response);
    if (used === key) {
      asking ??= askKey(used !== "").finally(() => { asking = null; });
      if (!(await asking)) throw new ApiError("The server needs an API key.");
    }
  }
}

export async function models() {
  return (await (await request("v1/models")).json()).data;
}

// Names and values of the server's counters, labels left out.
export async function metrics() {
  const values = {};
  for (const line of (await (await request("metrics")).text()).split("\n")) {
    const found = /^([A-Za-z_:][\w:]*)(?:\{[^}]*\})? ([-+\d.eE]+)/.exec(line);
    if (found) values[found[1]] = Number(found[2]);
  }
  return values;
}

// Lets the browser paint and react.
const pause = () => new Promise((resolve) => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => { channel.port1.close(); resolve(); };
  channel.port2.postMessage(null);
});

// Calls `take` with the object of each event.  Many events that come at once are handled in pieces of some ms.
export async function stream(body, signal, take) {
  const response = await request("v1/chat/completions", { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", began = performance.now();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const text = line.slice(5).trim();
      if (text === "[DONE]") return;
      const event = JSON.parse(text);
      if (event.error) throw new ApiError(event.error.message || "The server broke off.");
      take(event);
      if (performance.now() - began < 8) continue;
      await pause();
      if (signal.aborted) throw new DOMException("stopped", "AbortError");
      began = performance.now();
    }
  }
}
