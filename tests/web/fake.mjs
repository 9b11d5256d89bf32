// A server with recorded replies: the page comes from the real one at `page`, the API is answered here.
import http from "node:http";

const MODEL = { id: "fake", object: "model", meta: { size: 6861568, n_params: 3000000, n_ctx: 4096 } };
export const KEY = "a secret";

export const HOSTILE = [
  "<img src=x onerror=\"window.hacked = 1\"><script>window.hacked = 2</script>",
  "[click](javascript:window.hacked=3) [data](data:text/html,<script>window.hacked=4</script>)",
  "![picture](http://example.invalid/picture.png) <svg onload=window.hacked=5>",
  "```html\n<script>window.hacked = 6</script>\n```",
  "[x]( javascript:window.hacked=7 ) **<b onclick=window.hacked=8>b</b>** `<i>`",
].join("\n\n");

export const RICH = `# A heading

A **bold** word, an *italic* one, \`code\`, ~~gone~~, [a link](https://example.org/a_b_c) and snake_case_name.

1. first
2. second
   - inner
   - inner two

| name | value |
|---|--:|
| a | 1 |
| b \\| c | 2 |

> quoted
> again

\`\`\`python
def f(x):
    return x * 2  # **not bold**
\`\`\`

2 * 3 * 4 = 24, and done.`;

// Rounds of a beam search: forks, prunes, two answers.
export const EVENTS = [
  ...[0, 1, 2, 3].map((c) => ({ event: "fork", candidate: c, parent: -1, n_step: 0 })),
  ...[0.9, 0.4, 0.7, 0.2].map((s, c) => ({ event: "step", candidate: c, parent: -1, n_step: 1, reward: s, score: s, text: `First step of ${c}.` })),
  { event: "prune", candidate: 3, parent: -1, n_step: 1 },
  { event: "prune", candidate: 1, parent: -1, n_step: 1 },
  { event: "fork", candidate: 4, parent: 0, n_step: 1 },
  { event: "fork", candidate: 5, parent: 4, n_step: 1 },
  { event: "step", candidate: 0, parent: -1, n_step: 2, reward: 0.5, score: 0.45, text: "Zero goes on. <b>bold</b>" },
  { event: "step", candidate: 4, parent: 0, n_step: 2, reward: 0.95, score: 0.86, text: "Four goes on." },
  { event: "step", candidate: 5, parent: 4, n_step: 2, reward: 0.8, score: 0.7, text: "Five goes on." },
  { event: "step", candidate: 2, parent: -1, n_step: 2, reward: 0.6, score: 0.42, text: "Two goes on." },
  { event: "finish", candidate: 0, parent: -1, n_step: 2, score: 0.45, answer: "84" },
  { event: "finish", candidate: 4, parent: 0, n_step: 2, score: 0.86, answer: "84" },
  { event: "finish", candidate: 5, parent: 4, n_step: 2, score: 0.7, answer: "84" },
  { event: "finish", candidate: 2, parent: -1, n_step: 2, score: 0.42, answer: "<i>44</i>" },
  { event: "decided", candidate: 4, answer: "84" },
];

const chunk = (fields) => `data: ${JSON.stringify({ object: "chat.completion.chunk", ...fields })}\n\n`;
const delta = (d, token, n_top) => chunk({ choices: [{ index: 0, delta: d, finish_reason: null,
  ...(n_top ? { logprobs: { content: [{ token, logprob: -0.3, top_logprobs: [{ token, logprob: -0.3 }, { token: "<u>other", logprob: -1.7 }].slice(0, n_top) }] } } : {}) }] });
const words = (text) => text.match(/\s*\S+|\s+$/g) ?? [];
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The reply that the last message's first word asks for.
async function* reply(body) {
  const last = body.messages.at(-1).content, n_top = body.logprobs ? body.top_logprobs ?? 0 : 0;
  const what = last.match(/(\w+)\s*$/)?.[1];
  let texts = words(`You said: ${last}`);
  if (what === "hostile") texts = words(HOSTILE);
  if (what === "rich") texts = words(RICH);
  if (what === "long") texts = Array.from({ length: 10000 }, (_, i) => (i % 200 === 199 ? "\n\n" : i % 37 === 0 ? "**bold** " : i % 400 === 7 ? "\n\n```c\nint a;\n```\n\n" : `word${i % 10} `));
  if (what === "think") {
    for (const w of words("Let me think about <b>this</b>.")) yield delta({ reasoning_content: w });
    texts = words("The thought answer.");
  }
  const events = body.lutra?.search ? EVENTS : [];
  for (const e of events) yield chunk({ choices: [], lutra: { search: e } });
  if (what === "endless") for (let i = 0; ; i++) { yield delta({ content: `${i} ` }, `${i} `, n_top); await wait(20); }
  if (what === "broken") { yield chunk({ error: { message: "The model <b>broke</b>." } }); return; }
  for (const t of texts) yield delta({ content: t }, t, n_top);
  yield chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  yield chunk({ choices: [], usage: {}, timings: { cache_n: 3, prompt_n: 9, predicted_n: texts.length, predicted_per_second: 123.4, draft_n: 40, draft_n_accepted: 30, passes: 50 } });
  yield "data: [DONE]\n\n";
}

export function fake(page, { needsKey = false } = {}) {
  const seen = { bodies: [], hangUps: 0 };
  let polls = 0;
  const server = http.createServer(async (request, response) => {
    if (request.url === "/" || request.url.startsWith("/page/")) {
      request.pipe(http.request(page + request.url, { headers: { accept: request.headers.accept } }, (r) => {
        response.writeHead(r.statusCode, r.headers);
        r.pipe(response);
      }));
      return;
    }
    if (needsKey && request.headers.authorization !== `Bearer ${KEY}`) {
      response.writeHead(401, { "Content-Type": "application/json" }).end(JSON.stringify({ error: { message: "an API key is needed" } }));
      return;
    }
    if (request.url === "/v1/models") return void response.end(JSON.stringify({ data: [MODEL] }));
    if (request.url === "/metrics") {
      polls++;
      return void response.end(`# HELP x\nlutra:rows_valid_total ${polls * 60}\nlutra:rows_wasted_total ${polls * 30}\nlutra:rows_idle_total ${polls * 10}\n`);
    }
    let text = "";
    for await (const part of request) text += part;
    const body = JSON.parse(text);
    seen.bodies.push(body);
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    let gone = false, resume = () => {};
    response.on("drain", () => resume());
    response.on("close", () => { gone = true; if (!response.writableFinished) seen.hangUps++; resume(); });
    for await (const part of reply(body)) {
      if (gone) return;
      if (!response.write(part)) await new Promise((go) => { resume = go; });
    }
    response.end();
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () =>
    resolve({ url: `http://127.0.0.1:${server.address().port}/`, seen, close: () => { server.closeAllConnections(); server.close(); } })));
}
