// What apps test with, and what shows a state: the collector in memory, fixed bits, Encoder, inspectState.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fromHex } from "../dist/core/bytes.js";
import { Client, Encoder, inspectState, MemoryStorage, newSecret, openClient, readMetrics, render, TextStorage } from "../dist/node.js";
import { fixedRandomness, listen, MemoryCollector } from "../dist/testing_node.js";
import { METRICS } from "./witness.mjs";
import { vectors } from "./vectors.mjs";

const open = (more) =>
  Client.open({ metrics: METRICS, storage: new MemoryStorage(), collector: "http://127.0.0.1:1", consent: true, doNotTrack: () => false,
    ...more, delivery: { meanDelay: 3600, firstPause: 0.001, longestPause: 0.01, batchReports: 2 } });

test("an encoder makes the reports of the vectors, and counts nothing", () => {
  const metrics = readMetrics(vectors("compiled").good.metrics.document);
  for (const { metric, secret, value, random, cohort, params_id, report_bits: bits } of vectors("device").reports) {
    const encoder = new Encoder(metrics, fromHex(secret), () => fromHex(random));
    assert.deepEqual(encoder.encode(metric, value, "2026-11-21"), { metric, params_id, cohort, day: "2026-11-21", bits: Buffer.from(bits, "hex").toString("base64") });
  }
  const encoder = new Encoder(metrics, newSecret());
  assert.throws(() => encoder.encode("homepage", 1, "2026-11-21"), { name: "ValueRefusedError" });
  assert.throws(() => encoder.encode("other", "", "2026-11-21"), { name: "UnknownMetricError" });
  assert.throws(() => encoder.encode("homepage", "", "21.11.2026"), { name: "ParameterError", message: /21\.11\.2026 is no day/ });
  assert.throws(() => new Encoder(metrics, new Uint8Array(31)), { message: /32 bytes, not 31/ });
});

test("fixed bits are those of a seed and a counter", () => {
  const key = (seed, call) => Buffer.from([0, 0, 0, 0, 0, 0, 0, seed, 0, 0, 0, 0, 0, 0, 0, call]);
  const random = fixedRandomness(7);
  for (const call of [1, 2]) {
    assert.equal(Buffer.from(random(40)).toString("hex"), createHash("shake256", { outputLength: 40 }).update(key(7, call)).digest("hex"));
  }
});

test("a collector in memory counts each batch once, over a transport as over HTTP", async (t) => {
  for (const overHttp of [false, true]) {
    const collector = new MemoryCollector(readMetrics(METRICS));
    const server = overHttp && (await listen(collector));
    if (server) t.after(server.close);
    const client = await open(server ? { collector: server.url } : { transport: collector.transport });
    for (let i = 0; i < 6; i++) await client.record("homepage", "x");
    collector.loseAnswers = 2;
    assert.ok(await client.flush(5), client.lastError);
    assert.deepEqual([collector.counted(), collector.duplicates, collector.requests.length], [{ homepage: 6 }, 2, 5]);
    let tries = 0;
    collector.answer = ([report]) => (assert.equal(report.metric, "homepage"), tries++ ? undefined : { status: 503, retryAfter: "0" });
    await client.record("homepage", "x");
    assert.ok(await client.flush(5));
    assert.deepEqual([collector.counted(), tries], [{ homepage: 7 }, 2]);
    await client.close();
  }
});

test("a collector in memory refuses what it does not know, and what is no batch", async (t) => {
  const collector = new MemoryCollector(readMetrics(vectors("compiled").good.ledger.document));
  const client = await open({ transport: collector.transport });
  await client.record("homepage", "x");
  assert.equal(await client.flush(5), false);
  assert.match(client.lastError, /^refused:homepage:(unknown_metric|wrong_params_id)$/);
  await client.close();
  const { url, close } = await listen(collector);
  t.after(close);
  const post = (path, body, headers) => fetch(url + path, { method: "POST", body, headers });
  assert.equal((await post("/v1/report", "x")).status, 404);
  const answer = await post("/v1/reports", "x", { "Content-Type": "application/vnd.rappor.batch", "Content-Encoding": "gzip" });
  assert.deepEqual([answer.status, answer.headers.get("content-type"), answer.headers.get("access-control-allow-origin")], [400, "application/problem+json", "*"]);
});

test("entries of a list do not stand in its order: they would tell which value each count is of", async () => {
  const metrics = vectors("compiled").good.metrics.document;
  for (let device = 0; device < 9; device += 1) {
    const kept = { text: null };
    const storage = new TextStorage(async () => kept.text, async (text) => void (kept.text = text), "app");
    const client = await open({ metrics, storage });
    assert.ok(await client.record("theme", "dark"), client.lastRefusal);
    await client.close();
    const { entries } = JSON.parse(new Map(JSON.parse(kept.text)).get("line/theme"));
    assert.equal(Object.keys(entries).length, 3);
    assert.deepEqual(Object.keys(entries), Object.keys(entries).sort());
  }
});

test("a state is shown alongside the process that uses it, as text and as numbers, without a value", async (t) => {
  const root = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const stateDir = join(root, "state");
  assert.throws(() => inspectState(stateDir), { name: "StateError", condition: "state_unavailable" });
  const client = await openClient({ metrics: METRICS, stateDir, collector: "http://127.0.0.1:1", consent: true, doNotTrack: () => false });
  await client.record("homepage", "https://a.example/");
  const account = inspectState(stateDir);
  const { status, lastError, lastRefusal, notRecorded, ...same } = await client.inspect();
  assert.deepEqual({ ...account }, { ...same });
  assert.deepEqual([status.condition, lastError, lastRefusal, notRecorded], ["active", "", "", {}]);
  const text = render(account);
  assert.match(text, /^Consent: given\nReports waiting: 1; batches of them not yet acknowledged: 0\n/);
  assert.match(text, /homepage: reports made: 1; different answers: 1 of at most 1000000\. .* at most \d+\.\d+ % \(epsilon \d\.\d\d\) sure after what was sent so far, and at most/);
  assert.ok(!text.includes("a.example"));
  await client.setConsent(false);
  assert.match(render(inspectState(stateDir)), /^Consent: not given; nothing is recorded\nReports waiting: 0; batches of them not yet acknowledged: 0\n/);
  await client.close();
});

// what tests/core/test_suspicion.py holds the Python client to
const BELIEVED = [[0, "1 %"], [1, "2.68 %"], [2, "6.95 %"], [3, "16.9 %"], [6, "80.3 %"], [null, "100 %"]];

test("a person reads the same figure of risk as of the Python client", () => {
  for (const [epsilon, percent] of BELIEVED) {
    const line = { values: 1, maxValues: 2, reports: 1, spent: epsilon, committed: epsilon, ever: epsilon };
    const text = render({ consent: true, budget: 6, waiting: 0, batches: 0, counters: {}, metrics: { theme: line }, stopped: {} });
    const said = `${percent} (${epsilon === null ? "no bound" : `epsilon ${epsilon.toFixed(2)}`})`;
    assert.ok(text.includes(`Someone who is 1 % sure an answer is yours can be at most ${said} sure after what was sent so far, and at most ${said} sure after everything`), text);
    assert.ok(text.endsWith("after what was sent so far (of 6 allowed)."), text);
  }
});
