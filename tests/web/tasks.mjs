// How long the page's tasks take, in a Chromium that nothing else watches: playwright's network domain decodes each body
// at its end, in the page's own thread (42 ms of the 2 MB that 10,000 tokens are).
import { spawn } from "node:child_process";
import fs from "node:fs";

// A program's line that matches; its first group.
function says(program, pattern) {
  return new Promise((resolve, reject) => {
    let said = "";
    program.stderr.on("data", (d) => {
      said += d;
      const found = pattern.exec(said);
      if (found) resolve(found[1]);
    });
    program.on("exit", () => reject(new Error(`it ended: ${said}`)));
  });
}

// Chromium's protocol: call(method, parameters, session), and the events of all sessions.
async function connect(Socket, address) {
  const socket = new Socket(address), waiting = new Map(), events = [];
  await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = () => reject(new Error(address)); });
  socket.onmessage = ({ data }) => {
    const m = JSON.parse(data), { resolve, reject } = waiting.get(m.id) ?? {};
    waiting.delete(m.id);
    if (m.method) events.push(m);
    else if (m.error) reject(new Error(m.error.message));
    else resolve(m.result);
  };
  let id = 0;
  const call = (method, params = {}, sessionId = undefined) => new Promise((resolve, reject) => {
    waiting.set(++id, { resolve, reject });
    socket.send(JSON.stringify({ id, method, params, sessionId }));
  });
  return { call, events, close: () => socket.close() };
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The tasks of the page's thread from `first`, evaluated in it when it is `ready`, until it is no longer `busy`: their
// milliseconds of processor time, which other programs do not count in, and by the clock, longest first; then `last`.
// Socket: a class of web sockets; folder: Chromium's own, emptied.  ready, first, busy, last: JavaScript.
export async function taskTimes(Socket, chromium, folder, url, { ready, first, busy, last }) {
  fs.rmSync(folder, { recursive: true, force: true });
  const program = spawn(chromium, ["--headless", "--no-sandbox", "--remote-debugging-port=0", `--user-data-dir=${folder}`,
    "--window-size=1280,800", "about:blank"], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => program.on("exit", resolve));
  try {
    const { call, events, close } = await connect(Socket, await says(program, /listening on (ws:\S+)/));
    const { targetId } = await call("Target.createTarget", { url });
    const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
    const evaluate = async (expression) => (await call("Runtime.evaluate", { expression, returnByValue: true }, sessionId)).result.value;
    const until = async (expression) => { while (!(await evaluate(expression))) await pause(200); };
    await until(ready);
    await call("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel", "__metadata"] } });
    await evaluate(first);
    await pause(200);
    await until(`!(${busy})`);
    await call("Tracing.end");
    while (!events.some((e) => e.method === "Tracing.tracingComplete")) await pause(50);
    const seen = await evaluate(last);
    close();
    const all = events.filter((e) => e.method === "Tracing.dataCollected").flatMap((e) => e.params.value);
    const main = new Set(all.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid} ${e.tid}`));
    const tasks = all.filter((e) => e.name.endsWith("RunTask") && e.tdur !== undefined && main.has(`${e.pid} ${e.tid}`));
    const longest = (field) => tasks.map((e) => e[field] / 1000).sort((a, b) => b - a);
    return { processor: longest("tdur"), clock: longest("dur"), seen };
  } finally {
    program.kill();
    await ended;
  }
}
