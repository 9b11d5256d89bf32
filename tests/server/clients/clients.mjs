// SPDX-License-Identifier: MIT
// The official clients of three APIs, and LangChain, against `lutra serve`: chat, streams, n, stop, log-probs, schemas, tools, errors, abort.
import { spawn } from "node:child_process";
import Anthropic from "@anthropic-ai/sdk";
import { ChatOpenAI } from "@langchain/openai";
import { Ollama } from "ollama";
import OpenAI from "openai";

const [lutra, source] = process.argv.slice(2);
const QUESTION = "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have in the end?";
const ANSWER = "42 * 2 = 84.\n#### 84";
const messages = [{ role: "user", content: QUESTION }];
let failed = 0;

function check(ok, name, seen) {
  if (ok) return;
  failed++;
  console.log(`FAILED: ${name}: ${JSON.stringify(seen)?.slice(0, 500)}`);
}
const equal = (seen, wanted, name) => check(JSON.stringify(seen) === JSON.stringify(wanted), name, [seen, wanted]);

function serve(options = [], env = {}) {
  const program = spawn(lutra, ["serve", "-m", `${source}/models/abacus-1m-f16.gguf`, "--port", "0", "--alias", "tiny", ...options],
    { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, ...env } });
  process.on("exit", () => program.kill("SIGKILL"));
  return new Promise((resolve, reject) => {
    let said = "";
    program.stderr.on("data", (d) => {
      said += d;
      const found = /serving .* at (http\S+)/.exec(said);
      if (found) resolve({ url: found[1], program });
      if (said.includes("without libmicrohttpd")) { console.log(said); process.exit(77); }
    });
    program.on("exit", (code) => reject(new Error(`lutra serve ended with ${code}: ${said}`)));
  });
}

async function fails(promise, Kind, test, name) {
  try {
    await promise;
    check(false, `${name}: no error`);
  } catch (e) {
    check(e instanceof Kind && test(e), name, [e.constructor.name, e.status, e.message, e.code, e.param]);
  }
}

const server = await serve(["--pooling", "mean", "-c", "4096"]);
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
const ollama = new Ollama({ host: server.url });

// ---- openai
let r = await openai.chat.completions.create({ model: "tiny", messages, temperature: 0 });
equal([r.choices[0].message.content, r.choices[0].finish_reason], [ANSWER, "stop"], "openai: chat");
let text = "", usage = null;
for await (const part of await openai.chat.completions.create({ model: "tiny", messages, temperature: 0, stream: true, stream_options: { include_usage: true } })) {
  text += part.choices[0]?.delta.content ?? "";
  usage = part.usage ?? usage;
}
equal([text, usage.completion_tokens], [ANSWER, r.usage.completion_tokens], "openai: stream");
r = await openai.chat.completions.create({ model: "tiny", messages, n: 4, temperature: 2, seed: 3, max_tokens: 8 });
equal(r.choices.map((c) => c.index), [0, 1, 2, 3], "openai: n");
r = await openai.chat.completions.create({ model: "tiny", messages, temperature: 0, stop: ["84"] });
equal(r.choices[0].message.content, "42 * 2 = ", "openai: stop");
r = await openai.chat.completions.create({ model: "tiny", messages, temperature: 0, logprobs: true, top_logprobs: 4, max_tokens: 3 });
check(r.choices[0].logprobs.content.length === 3 && r.choices[0].logprobs.content.every((t) => t.top_logprobs.length === 4), "openai: logprobs", r.choices[0].logprobs);
const schema = { type: "object", properties: { n: { type: "integer", minimum: 0, maximum: 99 } }, required: ["n"], additionalProperties: false };
r = await openai.chat.completions.create({ model: "tiny", messages, temperature: 0, response_format: { type: "json_schema", json_schema: { name: "n", strict: true, schema } } });
check(Number.isInteger(JSON.parse(r.choices[0].message.content).n), "openai: json_schema", r.choices[0].message);
r = await openai.completions.create({ model: "tiny", prompt: "Sam has", max_tokens: 3, temperature: 0, echo: true });
check(r.choices[0].text.startsWith("Sam has"), "openai: completions", r.choices[0]);
r = await openai.responses.create({ model: "tiny", input: QUESTION, temperature: 0 });
equal(r.output_text, ANSWER, "openai: responses");
text = "";
for await (const e of await openai.responses.create({ model: "tiny", input: QUESTION, temperature: 0, stream: true })) if (e.type === "response.output_text.delta") text += e.delta;
equal(text, ANSWER, "openai: responses, streamed");
r = await openai.embeddings.create({ model: "tiny", input: ["a", "b"] }); // asks for base64 and decodes it
const floats = await openai.embeddings.create({ model: "tiny", input: ["a", "b"], encoding_format: "float" });
check(r.data.length === 2 && r.data[0].embedding.every((x, i) => Math.fround(x) === Math.fround(floats.data[0].embedding[i])), "openai: embeddings", r.data[0]);
equal((await openai.models.list()).data.map((m) => m.id), ["tiny"], "openai: models");
await fails(openai.chat.completions.create({ model: "tiny", messages, temperature: -1 }), OpenAI.BadRequestError, (e) => e.param === "temperature", "openai: a wrong field");
await fails(openai.chat.completions.create({ model: "tiny", messages: [{ role: "user", content: "word ".repeat(9000) }] }), OpenAI.BadRequestError, (e) => e.code === "context_length_exceeded", "openai: too long");
const stop = new AbortController();
try {
  for await (const part of await openai.chat.completions.create({ model: "tiny", messages, ignore_eos: true, stream: true }, { signal: stop.signal })) if (part.choices.length) stop.abort();
} catch (e) {
  check(e instanceof OpenAI.APIUserAbortError, "openai: abort", e.message);
}
equal((await openai.chat.completions.create({ model: "tiny", messages, temperature: 0 })).choices[0].message.content, ANSWER, "openai: after an abort");

// ---- @anthropic-ai/sdk
r = await anthropic.messages.create({ model: "tiny", max_tokens: 100, messages, temperature: 0 });
equal([r.content, r.stop_reason], [[{ type: "text", text: ANSWER }], "end_turn"], "anthropic: messages");
const stream = anthropic.messages.stream({ model: "tiny", max_tokens: 100, messages, temperature: 0 });
equal(await stream.finalText(), ANSWER, "anthropic: stream");
r = await anthropic.messages.create({ model: "tiny", max_tokens: 100, messages, temperature: 0, stop_sequences: ["84"] });
equal([r.stop_reason, r.stop_sequence], ["stop_sequence", "84"], "anthropic: stop_sequences");
equal((await anthropic.messages.countTokens({ model: "tiny", messages })).input_tokens, 32, "anthropic: countTokens");
await fails(anthropic.messages.create({ model: "tiny", max_tokens: 0.5, messages }), Anthropic.BadRequestError, (e) => e.message.includes("max_tokens"), "anthropic: a wrong field");

// ---- ollama
r = await ollama.chat({ model: "tiny", messages, options: { temperature: 0 } });
equal([r.message.content, r.done_reason], [ANSWER, "stop"], "ollama: chat");
text = "";
for await (const part of await ollama.chat({ model: "tiny", messages, options: { temperature: 0 }, stream: true })) text += part.message.content;
equal(text, ANSWER, "ollama: stream");
equal((await ollama.generate({ model: "tiny", prompt: QUESTION, options: { temperature: 0 } })).response, ANSWER, "ollama: generate");
r = await ollama.chat({ model: "tiny", messages, format: schema, options: { temperature: 0 } });
check(Number.isInteger(JSON.parse(r.message.content).n), "ollama: format", r.message);
equal((await ollama.embed({ model: "tiny", input: ["a", "b"] })).embeddings.length, 2, "ollama: embed");
equal((await ollama.list()).models.map((m) => m.name), ["tiny:latest"], "ollama: list");
check((await ollama.show({ model: "tiny" })).capabilities.includes("completion"), "ollama: show");
await fails(ollama.pull({ model: "x" }), Error, (e) => e.message.includes("lutra pull"), "ollama: pull");

// ---- tools: a schema forces the call
const parameters = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"], additionalProperties: false };
const tooled = await serve(["--chat-template", "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}<tool_call>{{ tools | tojson }}</tool_call>{% endif %}"]);
const caller = new OpenAI({ baseURL: `${tooled.url}/v1`, apiKey: "none", maxRetries: 0 });
const tools = [{ type: "function", function: { name: "weather", description: "Weather", parameters } }];
r = await caller.chat.completions.create({ model: "tiny", messages, tools, tool_choice: "required", parallel_tool_calls: false, temperature: 0 });
let call = r.choices[0].message.tool_calls?.[0];
check(call?.function.name === "weather" && parameters.properties.city.enum.includes(JSON.parse(call.function.arguments).city) && r.choices[0].finish_reason === "tool_calls", "openai: tools", r.choices[0]);
const run = caller.chat.completions.stream({ model: "tiny", messages, tools, tool_choice: "required", parallel_tool_calls: false, temperature: 0 });
call = (await run.finalChatCompletion()).choices[0].message.tool_calls[0];
check(parameters.properties.city.enum.includes(JSON.parse(call.function.arguments).city), "openai: tools, streamed", call);
r = await new Anthropic({ baseURL: tooled.url, apiKey: "none", maxRetries: 0 }).messages.create({ model: "tiny", max_tokens: 100, messages, temperature: 0,
  tools: [{ name: "weather", input_schema: parameters }], tool_choice: { type: "any", disable_parallel_tool_use: true } });
check(r.stop_reason === "tool_use" && parameters.properties.city.enum.includes(r.content.find((c) => c.type === "tool_use")?.input.city), "anthropic: tools", r);

// ---- langchain
const options = { model: "tiny", apiKey: "none", temperature: 0, maxRetries: 0 };
const chain = new ChatOpenAI({ ...options, configuration: { baseURL: `${server.url}/v1` } });
const said = await chain.invoke([["user", QUESTION]]);
equal([said.content, said.usage_metadata.output_tokens > 5], [ANSWER, true], "langchain: invoke");
text = "";
for await (const part of await chain.stream(QUESTION)) text += part.content;
equal(text, ANSWER, "langchain: stream");
const kind = { title: "place", description: "A place", ...parameters };
const place = await chain.withStructuredOutput(kind, { method: "jsonSchema", name: "place" }).invoke(QUESTION);
check(parameters.properties.city.enum.includes(place.city), "langchain: structured output", place);
const caller2 = new ChatOpenAI({ ...options, configuration: { baseURL: `${tooled.url}/v1` } });
const called = await caller2.bindTools(tools, { tool_choice: "required", parallel_tool_calls: false }).invoke(QUESTION);
check(called.tool_calls.length === 1 && called.tool_calls[0].name === "weather" && parameters.properties.city.enum.includes(called.tool_calls[0].args.city), "langchain: tools", called.tool_calls);

// ---- keys
const keyed = await serve(["--api-key", "right"]);
await fails(new OpenAI({ baseURL: `${keyed.url}/v1`, apiKey: "wrong", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError, (e) => e.status === 401, "openai: a wrong key");
equal((await new OpenAI({ baseURL: `${keyed.url}/v1`, apiKey: "right" }).models.list()).data.length, 1, "openai: the right key");
await fails(new Anthropic({ baseURL: keyed.url, apiKey: "wrong", maxRetries: 0 }).messages.create({ model: "tiny", max_tokens: 1, messages }), Anthropic.AuthenticationError, (e) => e.status === 401, "anthropic: a wrong key");

for (const s of [server, tooled, keyed]) {
  s.program.removeAllListeners("exit");
  s.program.kill();
}
console.log(failed ? `${failed} checks failed` : "all checks passed");
process.exit(failed ? 1 : 0);
