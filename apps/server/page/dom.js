// Elements without HTML text: everything that is shown is set as text.

// Properties: `on…` are listeners, `class` and names with '-' are attributes, null ones are left out.
export function el(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "class" || name === "role" || name.includes("-")) e.setAttribute(name, value);
    else e[name] = value;
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

export const button = (text, onclick, properties = {}) =>
  el("button", { type: "button", textContent: text, onclick, ...properties });

// The browser's storage; where it is refused, values last until the page is closed.
function storage(name) {
  try {
    window[name].getItem("");
    return window[name];
  } catch {
    const values = new Map();
    return { getItem: (k) => values.get(k) ?? null, setItem: (k, v) => values.set(k, v), removeItem: (k) => values.delete(k) };
  }
}
export const local = storage("localStorage"), session = storage("sessionStorage");

export const byId = (id) => document.getElementById(id);

// Said by a screen reader; the same text twice is said twice.
export function say(text) {
  const status = byId("status");
  status.textContent = status.textContent === text ? text + "\u00a0" : text;
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Calls `draw` once in the next frame, however often it is asked; in a hidden tab, in half a second.
export function once(draw) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    const go = () => { if (waits) { waits = false; draw(); } };
    if (document.hidden) setTimeout(go, 500);
    else requestAnimationFrame(go);
  };
}
