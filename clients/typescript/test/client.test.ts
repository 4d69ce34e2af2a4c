/** Against a real server. JUSTMEM names the command that starts it. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { generateText, streamText, wrapLanguageModel } from "ai";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { withMemory } from "../src/ai.js";
import { JustMem, JustMemError } from "../src/index.js";

const SAID = "I am allergic to walnuts.";
const ASKED = "What am I allergic to?";
const REPLY = "I will keep that in mind.";
let server: ChildProcess;
let client: JustMem;
let address: string;

before(async () => {
  const folder = mkdtempSync(join(tmpdir(), "justmem-"));
  const settings = 'embedder = "justmem.testing:HashEmbedder"\nreranker = "none"\n';
  writeFileSync(join(folder, "j.toml"), `folder = "home"\n${settings}[server]\nport = 0\n`);
  const args = ["--config", join(folder, "j.toml"), "serve", "--no-keys"];
  server = spawn(process.env.JUSTMEM ?? "justmem", args, { cwd: folder });
  const url = await new Promise<string>((found, failed) => {
    let said = "";
    server.stderr?.on("data", (data) => {
      said += data;
      const at = /listening on (\S+)/.exec(said)?.[1];
      if (at) found(at);
    });
    server.on("exit", () => failed(new Error(said)));
  });
  address = url;
  client = new JustMem({ url });
  const ready = () => fetch(`${url}/health/ready`).then((answer) => answer.ok, () => false);
  while (!(await ready())) await new Promise((ok) => setTimeout(ok, 100));
});

after(() => server.kill());

test("remembers, recalls, asks and forgets", async () => {
  const space = client.space("ana/1");
  await space.remember([{ role: "user", content: SAID }], { id: "s1", at: "2024-05-20", wait: true });
  const found = await space.recall(ASKED, { prompt: 500, plan: { needs_source: true } });
  assert.match(found.prompt ?? "", /walnuts/);
  assert.match((await space.ask(ASKED)).text, /walnuts/);
  assert.equal((await space.sessions()).length, 1);
  assert.equal((await space.session("s1")).turns.length, 1);
  assert.equal((await space.stats()).turns, 1);
  await space.forget({ session: "s1" });
  assert.equal((await space.sessions()).length, 0);
});

test("appends, notes, corrects, pins, undoes and rebuilds", async () => {
  const space = client.space("living");
  const turns = [{ role: "user" as const, content: "I live in Graz.", key: "m1" }];
  await space.append("home", turns);
  const { cards } = await space.remember(turns, { id: "home", wait: true });
  const card = cards![0]!;
  const better = await space.correct(card.id, { fact: "lives in Vienna" });
  assert.equal((await space.pin(better.id)).fact, "lives in Vienna");
  assert.equal((await space.history({ card: better.id })).length, 2);
  await space.undo(better.id);
  assert.equal((await space.undo(better.id)).id, card.id);
  assert.equal((await space.rebuild("home")).sessions, 1);
  assert.match((await space.profile()).text, /Graz/);
  await space.note("food/nuts", { text: "No walnuts.", value: [1], labels: { topic: "food" } });
  assert.deepEqual(JSON.parse((await space.noteAt("food/nuts")).value_json!), [1]);
  assert.equal((await space.notes("food/")).length, 1);
  const found = await space.recall("walnuts?", { labels: { topic: "food" }, limit: 1 });
  assert.equal(found.cards.length, 1);
  await space.forget({ key: "food/nuts" });
});

test("an error says what to do", async () => {
  await assert.rejects(client.space("nobody").stats(), (error: JustMemError) => {
    assert.equal(error.status, 404);
    assert.match(error.message, /no space/);
    return true;
  });
});

test("a busy server is asked again", async () => {
  let asked = 0;
  const busy = createServer((_, answer) => {
    asked += 1;
    answer.writeHead(asked < 3 ? 503 : 200, { "retry-after": "0" });
    answer.end(JSON.stringify({ turns: 0 }));
  });
  await new Promise<void>((ok) => busy.listen(0, "127.0.0.1", ok));
  const url = `http://127.0.0.1:${(busy.address() as AddressInfo).port}`;
  await new JustMem({ url }).space("x").stats();
  assert.equal(asked, 3);
  asked = 0;
  await assert.rejects(new JustMem({ url, retries: 1 }).space("x").stats(), JustMemError);
  busy.close();
});

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const finishReason = { unified: "stop" as const, raw: "stop" };

function scripted(): MockLanguageModelV4 {
  return new MockLanguageModelV4({
    doGenerate: async () => ({
      content: [{ type: "text", text: REPLY }],
      finishReason,
      usage,
      warnings: [],
    }),
    doStream: async () => ({
      stream: simulateReadableStream({
        chunks: [
          { type: "stream-start", warnings: [] },
          { type: "text-start", id: "1" },
          { type: "text-delta", id: "1", delta: REPLY.slice(0, 6) },
          { type: "text-delta", id: "1", delta: REPLY.slice(6) },
          { type: "text-end", id: "1" },
          { type: "finish", finishReason, usage },
        ],
      }),
    }),
  });
}

async function turns(space: ReturnType<JustMem["space"]>, session: string): Promise<string[]> {
  for (let tries = 0; tries < 100; tries++) {
    try {
      const found = (await space.session(session)).turns.map((turn) => turn.text);
      if (found.length >= 2) return found;
    } catch {
      // not there yet
    }
    await new Promise((ok) => setTimeout(ok, 100));
  }
  return [];
}

test("the AI SDK recalls what an earlier chat said", async () => {
  const space = client.space("ai");
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const chat = (session: string) => {
    const model = scripted();
    return { model, wrapped: wrapLanguageModel({ model, middleware: withMemory({ space, session, onError }) }) };
  };
  const first = chat("one");
  const said = await generateText({ model: first.wrapped, prompt: SAID });
  assert.equal(said.text, REPLY);
  assert.deepEqual(await turns(space, "one"), [SAID, REPLY]);
  const second = chat("two");
  const streamed = streamText({ model: second.wrapped, prompt: ASKED });
  let text = "";
  for await (const piece of streamed.textStream) text += piece;
  assert.equal(text, REPLY);
  assert.match(JSON.stringify(second.model.doStreamCalls[0]?.prompt), /allergic to walnuts/);
  assert.deepEqual(await turns(space, "two"), [ASKED, REPLY]);
  assert.deepEqual(errors, []); // a space that is not there yet is none
});

test("a chat goes on without memory", async () => {
  const errors: unknown[] = [];
  const space = new JustMem({ url: "http://127.0.0.1:9", retries: 0 }).space("ai");
  const middleware = withMemory({ space, session: "x", onError: (error) => errors.push(error) });
  const { text } = await generateText({
    model: wrapLanguageModel({ model: scripted(), middleware }),
    prompt: SAID,
  });
  assert.equal(text, REPLY);
  assert.equal(errors.length, 2); // not recalled, not remembered
});

test("a chat does not wait for a memory that never answers", async () => {
  const silent = createServer(() => {});
  await new Promise<void>((ok) => silent.listen(0, "127.0.0.1", ok));
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const space = new JustMem({ url }).space("ai");
  const middleware = withMemory({ space, session: "x", timeout: 50, onError });
  const { text } = await generateText({
    model: wrapLanguageModel({ model: scripted(), middleware }),
    prompt: SAID,
  });
  assert.equal(text, REPLY);
  assert.equal((errors[0] as Error).name, "TimeoutError");
  silent.closeAllConnections();
  silent.close();
});

test("the package needs nothing at run time", () => {
  const about = JSON.parse(readFileSync("package.json", "utf-8"));
  assert.equal(about.dependencies, undefined);
  assert.equal(about.peerDependencies, undefined);
  const code = readFileSync("dist/src/ai.js", "utf-8") + readFileSync("dist/src/index.js", "utf-8");
  assert.doesNotMatch(code, /from "(?!\.)/);
});

test("runs the code of the documentation page", async () => {
  const page = readFileSync("../../docs/integrations/typescript.md", "utf-8");
  const blocks = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map((block) => block[1]);
  assert.equal(blocks.length, 2);
  const settings = 'url: "http://127.0.0.1:8765", key: "jm_..."';
  assert.ok(blocks[0]?.includes(settings));
  const model = scripted();
  Object.assign(globalThis, { inner: model });
  const file = join(import.meta.dirname, "..", "page.mjs"); // not among the tests
  writeFileSync(file, `${blocks.join("\n")}\nexport { evidence, text };\n`.replace(settings, `url: "${address}"`));
  const { evidence, text } = await import(file);
  assert.match(evidence.prompt, /walnuts/);
  assert.equal(text, REPLY);
  assert.match(JSON.stringify(model.doGenerateCalls[0]?.prompt), /allergic to walnuts/);
});
