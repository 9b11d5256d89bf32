// node test.mjs LUTRA FOLDER CHROMIUM; see README.md.
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { EVENTS, fake, KEY, RICH } from "./fake.mjs";
import { taskTimes } from "./tasks.mjs";

const [lutra, folder, chromium] = process.argv.slice(2);
const require = createRequire(path.join(folder, "x.js"));
const { chromium: browserType } = require("playwright-core");
const { ws: WebSocket } = require("playwright-core/lib/utilsBundle");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");

let failed = 0;
function check(ok, name, seen = "") {
  if (ok) return;
  failed++;
  console.log(`FAILED: ${name}: ${String(typeof seen === "string" ? seen : JSON.stringify(seen)).slice(0, 600)}`);
}

function serve(...options) {
  const program = spawn(lutra, ["serve", "-m", path.join(root, "models/abacus-3m-f16.gguf"), "--port", "0", ...options], { stdio: ["ignore", "ignore", "pipe"] });
  process.on("exit", () => program.kill("SIGKILL"));
  return new Promise((resolve, reject) => {
    let said = "";
    program.stderr.on("data", (d) => {
      said += d;
      const found = /serving .* at (http\S+)/.exec(said);
      if (found) resolve({ url: found[1] + "/", program });
    });
    program.on("exit", () => reject(new Error(`no server: ${said}`)));
  });
}

const real = await serve("--prm", path.join(root, "models/abacus-xs-prm-f16.gguf"));
const server = await fake(real.url.slice(0, -1));
const browser = await browserType.launch({ executablePath: chromium, args: ["--no-sandbox"] });

// A page whose console, errors and requests are watched.
async function open(url, options = {}, allowed = []) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", ...options });
  const page = await context.newPage(), own = new URL(url).origin;
  page.setDefaultTimeout(60000);
  page.on("console", (m) => check(!["error", "warning"].includes(m.type()) || allowed.some((a) => m.text().includes(a)), "console is silent", m.text()));
  page.on("pageerror", (e) => check(false, "no error of the page", e.stack));
  page.on("request", (r) => check(r.url().startsWith(own) || /^(data|blob):/.test(r.url()), "no foreign request", r.url()));
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector("#model").options.length > 0 || document.querySelector("#key").open);
  return page;
}

async function ask(page, text, { waits = true } = {}) {
  await page.fill("#prompt", text);
  await page.press("#prompt", "Enter");
  if (waits) await done(page);
}
const done = (page) => page.waitForFunction(() => document.querySelector("#messages").getAttribute("aria-busy") === "false" && document.querySelector("#messages article.assistant:last-child .tools"));
const last = (page) => page.locator("article.assistant").last();
const shot = (page, name) => page.screenshot({ path: path.join(folder, name) });
const wide = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

async function accessible(page, name) {
  await page.evaluate(axe); // not a <script>: the policy refuses these
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter((v) => ["serious", "critical"].includes(v.impact));
  check(serious.length === 0, `axe-core: ${name}`, serious.map((v) => [v.id, v.nodes.map((n) => [n.html.slice(0, 150), n.failureSummary]).slice(0, 2)]));
}

// Something that went wrong in one test does not hide the others.
async function test(name, body) {
  if (process.env.ONLY && !name.includes(process.env.ONLY)) return;
  try {
    await body();
  } catch (e) {
    check(false, name, e.stack);
  }
}

await test("headers", async () => {
  const get = (where, headers) => fetch(real.url + where, { headers });
  const page = await get("", { Accept: "text/html" });
  check(page.headers.get("content-type").startsWith("text/html"), "the page for browsers");
  check(/default-src 'none'; script-src 'self'; style-src 'self'/.test(page.headers.get("content-security-policy")), "policy", page.headers.get("content-security-policy"));
  check((await (await get("", {})).text()) === "Ollama is running", "Ollama's words for others");
  const script = await get("page/app.js", {}), etag = script.headers.get("etag");
  check(script.headers.get("content-type").startsWith("text/javascript") && etag, "type and ETag of a script");
  check((await script.text()) === fs.readFileSync(path.join(root, "apps/server/page/app.js"), "utf8"), "the script's bytes");
  const again = await get("page/app.js", { "If-None-Match": etag });
  check(again.status === 304 && (await again.text()) === "", "304", again.status);
  check((await get("page/app.js", { "If-None-Match": "\"other\"" })).status === 200, "another ETag");
  for (const name of ["page/", "page/none.js", "page/..%2fserver.c", "page/../server.c"]) check((await get(name, {})).status === 404, `404 for ${name}`);
  const total = fs.readdirSync(path.join(root, "apps/server/page")).reduce((n, f) => n + fs.statSync(path.join(root, "apps/server/page", f)).size, 0);
  check(total < 200 * 1024, "under 200 KB", total);
});

await test("a Host of another name", async () => {
  const { port } = new URL(real.url);
  const status = await new Promise((resolve) => http.get({ port, host: "127.0.0.1", headers: { Host: "evil.example", Accept: "text/html" } }, (r) => resolve(r.statusCode)));
  check(status === 403, "the page is not for a name that was pointed here", status);
});

await test("chat", async () => {
  const page = await open(server.url);
  await ask(page, "rich");
  const text = last(page).locator(".text");
  check((await text.locator("h3").textContent()) === "A heading", "heading");
  check((await text.locator("strong").textContent()) === "bold" && (await text.locator("em").textContent()) === "italic" && (await text.locator("del").textContent()) === "gone", "marks");
  check((await text.locator("a").getAttribute("href")) === "https://example.org/a_b_c", "link");
  check((await text.locator("ol > li").count()) === 2 && (await text.locator("ol ul li").count()) === 2, "lists", await text.locator("ol").first().innerHTML());
  check((await text.locator("tbody tr").count()) === 2 && (await text.locator("td").nth(2).textContent()) === "b | c", "table");
  check((await text.locator("pre code").textContent()) === "def f(x):\n    return x * 2  # **not bold**", "code");
  check((await text.textContent()).includes("snake_case_name") && (await text.textContent()).includes("2 * 3 * 4 = 24, and done."), "plain marks stay");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await text.locator(".code button").click();
  check((await page.evaluate(() => navigator.clipboard.readText())).startsWith("def f(x):"), "copied code");
  check((await last(page).locator(".summary").textContent()).includes("30 of 40 drafted"), "timings", await last(page).locator(".summary").textContent());
  await ask(page, "think");
  const thought = last(page).locator(".thought");
  check(!(await thought.evaluate((d) => d.open)) && (await thought.textContent()).includes("Let me think about <b>this</b>."), "thinking is folded");
  check((await last(page).locator(".text").textContent()) === "The thought answer.", "answer behind it");
  const sent = server.seen.bodies.at(-1).messages;
  check(sent.length === 3 && sent[1].role === "assistant" && sent[2].content === "think", "the conversation is sent", sent);
  await shot(page, "light.png");
  await accessible(page, "chat, light");
  await page.context().close();
});

await test("hostile text", async () => {
  const page = await open(server.url);
  await ask(page, "hostile");
  await page.setInputFiles("#file", { name: "<img src=x onerror=window.hacked=9>.txt", mimeType: "text/plain", buffer: Buffer.from("<script>window.hacked=10</script>") });
  await ask(page, "<b onmouseover=window.hacked=11>hostile");
  await page.waitForTimeout(300);
  check((await page.evaluate(() => window.hacked)) === undefined, "nothing of the model's text runs");
  check((await page.locator("#messages :is(img, script, svg, b, i, iframe)").count()) === 0, "no element of the model's text");
  check((await page.locator("#messages a").evaluateAll((list) => list.every((a) => /^https?:/.test(a.href)))), "only web links");
  check((await last(page).textContent()).includes("<script>window.hacked = 2</script>"), "it is shown as text");
  check(server.seen.bodies.at(-1).messages.at(-1).content.includes("<script>window.hacked=10</script>"), "the file is sent");
  await page.context().close();
});

await test("texts made to be slow or deep", async () => {
  const page = await open(server.url);
  const longest = await page.evaluate(async () => {
    const { Growing } = await import("/page/markdown.js");
    let most = [0, ""];
    for (const s of ["*a ", "**a*", "_a*~~", "`", "``a`", "[", "[a](", "[a]((", "> ", "- ", "  - a\n", "1. ", "| - ", "|-|\n", "# ", "~~~", "```\n", "http://", "\\", "\n\n", "- - ", "x|y\n-|-\n", " ", "<b>", "---   ", "#".repeat(7)]) {
      const text = s.repeat(40000 / s.length), root = document.createElement("div"), began = performance.now();
      const grows = new Growing(root);
      grows.draw(text.slice(0, text.length / 2), false);
      grows.draw(text, true);
      const ms = performance.now() - began;
      if (ms > most[0]) most = [ms, s];
    }
    return most;
  });
  console.log(`40,000 characters of Markdown made to be slow: at most ${Math.round(longest[0])} ms, by ${JSON.stringify(longest[1])} (not judged)`);
  // However it comes in pieces, the same nodes.
  const differs = await page.evaluate(async (text) => {
    const { Growing } = await import("/page/markdown.js");
    const whole = document.createElement("div"), parts = document.createElement("div"), grows = new Growing(parts);
    new Growing(whole).draw(text, true);
    for (let i = 0; i <= text.length; i += 3) grows.draw(text.slice(0, i), false);
    grows.draw(text, true);
    return whole.isEqualNode(parts) ? "" : parts.outerHTML;
  }, RICH);
  check(differs === "", "a text in pieces is drawn as the whole one", differs);
  await page.context().close();
});

await test("files", async () => {
  const page = await open(server.url);
  const drop = (name, bytes) => page.evaluate(([n, b]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(b)], n));
    document.querySelector("#messages").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, [name, [...bytes]]);
  await drop("notes.md", Buffer.from("# Notes\n```\ncode\n```\n"));
  await page.waitForFunction(() => document.querySelectorAll("#files li").length === 1);
  await drop("picture.png", [0x89, 0x50, 0, 1]);
  await page.waitForFunction(() => document.querySelector("#mode").textContent.includes("picture.png is not a text"));
  await drop("gone.txt", Buffer.from("gone"));
  await page.waitForFunction(() => document.querySelectorAll("#files li").length === 2);
  await page.click("[aria-label='Remove gone.txt']");
  await ask(page, "sum it up");
  const { content } = server.seen.bodies.at(-1).messages[0];
  check(content === "File notes.md:\n````\n# Notes\n```\ncode\n```\n\n````\n\nsum it up", "the file stands before the message", content);
  check((await page.locator("article.user .attached summary").textContent()) === "notes.md, 21 characters", "and is shown folded", await page.locator("article.user .attached summary").textContent());
  await page.context().close();
});

await test("stop, edit, branches, history", async () => {
  const page = await open(server.url), hungUp = server.seen.hangUps;
  await ask(page, "endless", { waits: false });
  await page.waitForFunction(() => document.querySelector("article.assistant .text")?.textContent.includes("10"));
  await page.click("#stop");
  await done(page);
  check((await last(page).locator(".summary").textContent()).includes("stopped"), "stopped");
  for (let i = 0; i < 100 && server.seen.hangUps === hungUp; i++) await page.waitForTimeout(50);
  check(server.seen.hangUps === hungUp + 1, "the server sees the stop");
  await page.locator("article.user button", { hasText: "Edit" }).click();
  await page.locator("article.user textarea").fill("an edited one");
  await page.locator("article.user textarea").press("Enter");
  await done(page);
  check((await last(page).locator(".text").textContent()) === "You said: an edited one", "edited and sent again", await last(page).textContent());
  check(server.seen.bodies.at(-1).messages.length === 1, "in the place of the old one");
  check((await page.locator("article.user .tools span").textContent()) === "2 / 2", "two versions of the message");
  await last(page).locator("button", { hasText: "Again" }).click();
  await done(page);
  check((await last(page).locator(".tools span").textContent()) === "2 / 2", "two replies");
  await page.click("[aria-label='Earlier version'] >> nth=0");
  check((await page.locator("article.user .text").textContent()) === "endless", "the first version is kept");
  await page.click("[aria-label='Later version'] >> nth=0");
  await page.reload();
  await page.waitForSelector("article.assistant .tools");
  check((await page.locator("article.user .text").textContent()) === "an edited one" && (await last(page).locator(".tools span").textContent()) === "2 / 2", "history after reload");
  await page.click("#new-chat");
  await ask(page, "second conversation");
  check((await page.locator("#chats .open").count()) === 2, "two chats");
  await page.fill("#find", "EDITED");
  await page.waitForFunction(() => document.querySelectorAll("#chats .open").length === 1);
  await page.locator("#chats .more summary").click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.locator("#chats button", { hasText: "As Markdown" }).click()]);
  check(fs.readFileSync(await file.path(), "utf8").includes("## Model\n\nYou said: an edited one"), "exported");
  await page.locator("#chats button", { hasText: "As JSON" }).click();
  await page.locator("#chats button", { hasText: "Delete" }).click();
  await page.waitForFunction(() => document.querySelector("#chats .note"));
  await page.fill("#find", "");
  await page.waitForFunction(() => document.querySelectorAll("#chats .open").length === 1);
  await ask(page, "broken");
  check((await last(page).locator(".error").textContent()) === "The model <b>broke</b>.", "an error in the stream is told");
  await page.context().close();
});

await test("keys", async () => {
  const guarded = await fake(real.url.slice(0, -1), { needsKey: true });
  const page = await open(guarded.url, {}, ["401"]);
  await page.waitForSelector("#key[open]");
  await accessible(page, "the question for a key");
  await page.fill("#key-text", "wrong");
  await page.press("#key-text", "Enter");
  await page.waitForFunction(() => document.querySelector("#key-wrong").textContent !== "" && document.querySelector("#key").open);
  await page.fill("#key-text", KEY);
  await page.click("#key-ok");
  await page.waitForFunction(() => document.querySelector("#model").options.length > 0);
  await ask(page, "with a key");
  check((await last(page).locator(".text").textContent()) === "You said: with a key", "a chat with a key");
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#model").options.length > 0);
  check(!(await page.locator("#key").evaluate((d) => d.open)), "the key is kept in the tab");
  check(!(await page.evaluate(() => JSON.stringify(localStorage))).includes(KEY), "and nowhere else");
  await page.context().close();
  guarded.close();
});

await test("search and tokens", async () => {
  const page = await open(server.url, { colorScheme: "dark" });
  await page.click("#show-settings");
  await page.selectOption("#set-method", "beam");
  await page.fill("#set-width", "4");
  await page.fill("#set-temperature", "0.7");
  await accessible(page, "settings");
  await shot(page, "settings.png");
  await page.click("#close-settings");
  await ask(page, "find it");
  const body = server.seen.bodies.at(-1);
  check(body.lutra.search.method === "beam" && body.lutra.search.width === 4 && body.temperature === 0.7 && body.top_logprobs === 5, "settings are sent", body);
  await page.waitForFunction(() => document.querySelectorAll("#tree details").length === 6 && document.querySelector("#speed").textContent.includes("30 of 40"));
  const names = new Set(EVENTS.map((e) => e.candidate));
  check((await page.locator("#tree details").count()) === names.size, "all candidates");
  const head = (id) => page.locator("#tree .head", { hasText: `#${id}` }).filter({ hasText: new RegExp(`^#${id}\\b`) });
  const node = (id) => head(id).locator("xpath=ancestor::li[1]");
  for (const [id, state] of [[0, "whole wins"], [4, "whole wins"], [3, "pruned"], [1, "pruned"], [2, "whole"], [5, "whole"]])
    check((await node(id).getAttribute("class")) === state, `state of candidate ${id}`, await node(id).getAttribute("class"));
  check((await head(4).textContent()).includes("from #0 after step 1") && (await head(4).textContent()).includes("won") && (await head(4).textContent()).includes("0.86"), "the winner", await head(4).textContent());
  check((await node(0).locator(":scope > ul > li > ul > li").count()) === 1, "a fork of a fork is two levels down");
  check((await node(0).locator(":scope > details li").allTextContents()).join("|") === "First step of 0. 0.90|Zero goes on. <b>bold</b> 0.50", "steps", await node(0).locator(":scope > details li").allTextContents());
  check((await page.locator("#vote li").allTextContents()).join("|").startsWith("843, score 2.01|<i>44</i>1"), "votes", await page.locator("#vote li").allTextContents());
  check((await page.locator("#vote .wins").count()) === 1, "the vote's winner");
  await page.waitForFunction(() => /\(60 %\).*\(30 %\).*\(10 %\)/s.test(document.querySelector("#rows").textContent));
  await last(page).locator("button", { hasText: "Tokens" }).click();
  await page.locator(".tokens span").nth(1).click();
  check((await page.locator(".alternatives").textContent()).includes("<u>other") && (await page.locator(".alternatives").textContent()).includes("74.1 %"), "alternatives", await page.locator(".alternatives").textContent());
  await page.locator(".tokens").press("ArrowRight");
  check((await page.locator(".tokens [aria-selected=true]").textContent()) === " find", "arrow keys", await page.locator(".tokens [aria-selected=true]").textContent());
  await shot(page, "dark.png");
  await accessible(page, "search and tokens, dark");
  await page.context().close();
});

await test("phone", async () => {
  const page = await open(server.url, { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  await ask(page, "rich");
  check((await wide(page)) <= 0, "360 px without horizontal scroll", await wide(page));
  await shot(page, "phone.png");
  await accessible(page, "phone");
  for (const id of ["history", "view"]) {
    await page.click(`#show-${id}`);
    check(await page.locator(`#${id}`).isVisible() && (await wide(page)) <= 0, `${id} fits`);
    await shot(page, `phone-${id}.png`);
    await accessible(page, `phone, ${id}`);
    await page.click(`#show-${id}`);
    check(!(await page.locator(`#${id}`).isVisible()), `${id} closes`);
  }
  await page.click("#show-settings");
  check((await wide(page)) <= 0, "settings fit");
  await shot(page, "phone-settings.png");
  await page.context().close();
});

await test("keyboard only", async () => {
  const page = await open(server.url), { keyboard } = page;
  const focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim());
  const tabTo = async (wanted, key = "Tab") => {
    for (let i = 0; i < 60; i++) {
      if ((await focus()) === wanted) return true;
      await keyboard.press(key);
    }
    return false;
  };
  check((await focus()) === "prompt", "the message has the focus at first", await focus());
  check(await tabTo("Skip to the message box", "Shift+Tab"), "the skip link is reached", await focus());
  await keyboard.press("Shift+Tab");
  check(await page.evaluate(() => document.activeElement === document.body), "and is first", await focus());
  await keyboard.press("Tab");
  await keyboard.press("Enter");
  check((await focus()) === "prompt", "and leads to the message", await focus());
  await keyboard.type("endless");
  await keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("article.assistant .text")?.textContent.includes("5"));
  await keyboard.press("Escape");
  await done(page);
  check((await last(page).locator(".summary").textContent()).includes("stopped"), "Escape stops");
  check(await tabTo("Edit", "Shift+Tab"), "Edit is reached");
  await keyboard.press("Enter");
  await keyboard.press("Control+A");
  await keyboard.type("by keys");
  await keyboard.press("Enter");
  await done(page);
  check((await last(page).locator(".text").textContent()) === "You said: by keys", "edited by keys");
  check((await page.locator("#status").textContent()).startsWith("Reply: You said: by keys"), "the reply is announced", await page.locator("#status").textContent());
  check(await tabTo("show-settings"), "settings are reached");
  await keyboard.press("Enter");
  check(await page.locator("#settings").evaluate((d) => d.open && d.contains(document.activeElement)), "they take the focus");
  await keyboard.press("Escape");
  check((await focus()) === "show-settings", "and give it back", await focus());
  await page.context().close();
});

await test("10,000 tokens", async () => {
  const { processor, clock, seen } = await taskTimes(WebSocket, chromium, path.join(folder, "profile"), server.url, {
    ready: `document.querySelector("#model")?.options.length > 0`,
    first: `document.querySelector("#prompt").value = "long"; document.querySelector("#send").click()`,
    busy: `document.querySelector("#messages").getAttribute("aria-busy") === "true"`,
    last: `document.querySelector("article.assistant .text").textContent.match(/word\\d/g).length`,
  });
  check(seen > 9000, "all words are shown", seen);
  check(processor.length > 100 && processor[0] < 50, "no task takes 50 ms", processor.slice(0, 5));
  const some = (times) => times.slice(0, 3).map((t) => t.toFixed(1)).join(", ");
  console.log(`10,000 tokens: of ${processor.length} tasks the longest by processor time ${some(processor)} ms; by the clock (not judged: the machine may be busy) ${some(clock)} ms`);
});

await test("the real server", async () => {
  const page = await open(real.url);
  const question = "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have in the end?";
  await page.click("#show-settings");
  await page.fill("#set-temperature", "0");
  await page.click("#close-settings");
  await ask(page, question);
  check((await last(page).locator(".text").textContent()).includes("84"), "an answer", await last(page).textContent());
  check((await page.locator("#needs").textContent()).includes("parameters"), "what the model needs");
  await page.waitForFunction(() => document.querySelector("#rows").textContent.includes("%"));
  await last(page).locator("button", { hasText: "Tokens" }).click();
  check((await page.locator(".tokens span").allTextContents()).join("").includes("84"), "its tokens", await page.locator(".tokens").textContent());
  await shot(page, "real.png");
  for (const [method, states] of [["vote", ["whole", "whole wins"]], ["beam", ["pruned", "whole", "whole wins"]]]) {
    await page.click("#show-settings");
    await page.selectOption("#set-method", method);
    await page.fill("#set-width", "6");
    await page.fill("#set-expand", "2");
    await page.fill("#set-temperature", "1.5");
    await page.fill("#set-seed", "4");
    await page.click("#close-settings");
    await ask(page, question);
    await page.waitForFunction(() => document.querySelector("#tree .wins"));
    const shown = await page.locator("#tree li[class]").evaluateAll((all) => all.map((li) => li.className));
    check(shown.length >= 6 && states.every((s) => shown.includes(s)), `${method}: candidates`, shown);
    check((await page.locator("#vote .wins").count()) === 1, `${method}: the answer that wins`, await page.locator("#vote").textContent());
    check((await page.locator("#tree").textContent()).includes(" * "), `${method}: their steps`, await page.locator("#tree").textContent());
    check((await last(page).locator(".text").textContent()).length > 5, `${method}: the reply`, await last(page).textContent());
  }
  await shot(page, "real-search.png");
  await page.context().close();
  const keyed = await serve("--api-key", KEY), other = await open(keyed.url, {}, ["401"]);
  await other.fill("#key-text", KEY);
  await other.click("#key-ok");
  await other.waitForFunction(() => document.querySelector("#model").options.length > 0);
  await ask(other, question);
  check((await last(other).locator(".text").textContent()).length > 5, "an answer with a key", await last(other).textContent());
  keyed.program.removeAllListeners("exit");
  keyed.program.kill();
});

await browser.close();
server.close();
real.program.removeAllListeners("exit");
real.program.kill();
console.log(failed ? `${failed} checks failed` : "all checks passed");
process.exit(failed ? 1 : 0);
