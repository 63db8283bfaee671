// The client over stores in memory and in files, with a collector that the test plays.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { decodeBatch } from "../dist/core/decode.js";
import { LEVELS } from "../dist/core/ledger.js";
import { Client, FileStorage, MemoryStorage, openClient, render, StateError, TextStorage } from "../dist/node.js";
import { batchUrl } from "../dist/ports/transport.js";
import { vectors } from "./vectors.mjs";

const DOCUMENT = structuredClone(vectors("compiled").good.metrics.document);
DOCUMENT.budget = null;
for (const { definition } of DOCUMENT.metrics) Object.assign(definition, { max_reports_per_period: 10_000, expires: "2099-12-31" });
DOCUMENT.metrics = DOCUMENT.metrics.filter((row) => row.definition.kind !== "location");

/** A collector in the test: what it was sent, and what it answers next. */
class Collector {
  batches = new Map();
  requests = [];
  answers = [];

  transport = async ({ body, contentType, encoding }) => {
    this.requests.push(Buffer.from(body).toString("hex"));
    const plain = encoding === "gzip" ? gunzipSync(body) : body;
    const { id, reports } = decodeBatch(new Uint8Array(plain), contentType);
    const next = this.answers.shift();
    const answer = typeof next === "function" ? next(body) : next;
    if (answer === "lost before") throw new TypeError("fetch failed");
    const duplicate = this.batches.has(id);
    if (typeof answer !== "object") this.batches.set(id, reports);
    if (answer === "lost after") throw new TypeError("fetch failed");
    const results = reports.map(() => ({ status: "accepted" }));
    const text = JSON.stringify({ version: 1, batch_id: id, duplicate, results });
    return { status: 200, contentType: "application/json", retryAfter: "", text, ...answer };
  };

  get counted() {
    return [...this.batches.values()].flat().length;
  }
}

const options = (collector, more = {}) => ({
  metrics: DOCUMENT,
  storage: new MemoryStorage(),
  collector: "http://127.0.0.1:1",
  consent: true,
  transport: collector.transport,
  delivery: { meanDelay: 3600, firstPause: 0.001 },
  doNotTrack: () => false,
  ...more,
});

/** The collector's word about a body that it has read. */
const problem = (status) => (body) => ({
  status,
  contentType: "application/problem+json",
  text: JSON.stringify({ type: "urn:rappor-telemetry:problem:x", status, body_sha256: createHash("sha256").update(body).digest("hex") }),
});

const folder = (t) => {
  const path = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return join(path, "state");
};

test("what is recorded is delivered, one metric a batch, padded", async () => {
  const collector = new Collector();
  const client = await Client.open(options(collector));
  for (let i = 0; i < 7; i++) assert.ok(await client.record("homepage", "x"));
  assert.ok(await client.record("crashed", true));
  assert.ok(await client.flush(5));
  assert.equal(collector.counted, 8);
  assert.deepEqual([...collector.batches.values()].map((b) => new Set(b.map((r) => r.metric)).size), [1, 1]);
  for (const body of collector.requests) assert.equal((body.length / 2) % 256, 0);
  const told = await client.inspect();
  assert.deepEqual([told.waiting, told.counters["accepted:homepage"], told.metrics.homepage.reports], [0, 7, 7]);
  assert.equal(told.metrics.homepage.values, 2); // the value, and the fallback
  await client.close();
});

test("what goes wrong on the way is sent again, the same bytes, and counted once", async () => {
  const collector = new Collector();
  collector.answers = ["lost before", "lost after", problem(503), problem(429), problem(500), { text: "<html>" },
    { status: 400, text: "a proxy" }, { status: 302 }, { status: 200, text: '{"version":1}' }];
  const client = await Client.open(options(collector));
  await client.record("homepage", "x");
  assert.ok(await client.flush(10));
  assert.equal(collector.requests.length, 10);
  assert.equal(new Set(collector.requests).size, 1);
  assert.equal(collector.counted, 1);
  await client.close();
});

test("a batch is kept through its last day, and dropped on the next", async () => {
  const collector = new Collector();
  let now = 1_700_000_000 - (1_700_000_000 % 86_400) + 43_200; // noon
  const client = await Client.open(options(collector, { clock: () => now, delivery: { meanDelay: 3600, firstPause: 0.001, maxAgeDays: 2 } }));
  await client.record("homepage", "x");
  for (const [days, left] of [[0, 1], [2, 1], [1, 0]]) {
    now += days * 86_400;
    collector.answers = Array.from({ length: 1000 }, () => problem(404));
    assert.equal(await client.flush(0.2), false);
    const { waiting, batches, counters } = await client.inspect();
    assert.equal(waiting || batches, left, `after ${days} more days`);
    assert.equal(counters["dropped:too_old"] ?? 0, 1 - left);
  }
  await client.close();
});

test("a batch that the collector refuses is dropped and counted; one too large is split", async () => {
  const collector = new Collector();
  collector.answers = [problem(422)];
  const client = await Client.open(options(collector));
  await client.record("homepage", "x");
  assert.equal(await client.flush(5), false);
  assert.equal(client.lastError, "dropped:http_422");
  assert.equal((await client.inspect()).counters["dropped:http_422"], 1);
  collector.answers = [problem(413)];
  for (let i = 0; i < 5; i++) await client.record("homepage", "x");
  assert.ok(await client.flush(5));
  assert.deepEqual([...collector.batches.values()].map((b) => b.length).sort(), [2, 3]);
  collector.answers = [problem(503)];
  for (let i = 0; i < 4; i++) await client.record("homepage", "x");
  assert.equal(await client.flush(0), false);
  collector.answers = [problem(413)]; // it may be counted by now, but the collector says of these bytes that it is not
  assert.ok(await client.flush(5));
  assert.deepEqual([...collector.batches.values()].map((b) => b.length).sort(), [2, 2, 2, 3]);
  collector.answers = [problem(413)];
  await client.record("homepage", "x");
  assert.equal(await client.flush(0), false); // one report waits: 413 comes before the body is read
  assert.equal((await client.inspect()).waiting, 1);
  assert.ok(await client.flush(5));
  await client.close();
});

test("a refused key shows in the status, and nothing is lost", async () => {
  const collector = new Collector();
  collector.answers = [problem(401)];
  const client = await Client.open(options(collector));
  await client.record("homepage", "x");
  assert.equal(await client.flush(0), false);
  assert.equal(client.status.condition, "key_refused");
  assert.equal(client.lastError, "http_401");
  assert.ok(await client.flush(5));
  assert.equal(client.status.condition, "active");
  await client.close();
});

test("refusals: false and a sentence, never a value; development rejects", async () => {
  const client = await Client.open(options(new Collector()));
  assert.equal(await client.record("homepage", 12345), false);
  assert.ok(client.lastRefusal && !client.lastRefusal.includes("12345"));
  assert.equal(await client.record("unknown", "x"), false);
  assert.match(client.lastRefusal, /not declared/);
  await client.close();
  assert.equal(await client.record("homepage", "x"), false);
  assert.match(client.lastRefusal, /closed/);
  const strict = await Client.open(options(new Collector(), { development: true }));
  await assert.rejects(strict.record("homepage", 1), { name: "ValueRefusedError" });
  await strict.close();
});

test("mistakes of the app are told when it opens", async () => {
  const collector = new Collector();
  for (const wrong of [{ consent: "yes" }, { privacyLevel: "toString" }, { delivery: { meanDelay: -1 } },
    { collector: "ftp://x" }, { collector: "https://x/?y" }, { key: "a b" }, { metrics: "{}" },
    { randomness: (n) => new Uint8Array(n) }, { randomness: () => new Uint8Array(3) }]) {
    await assert.rejects(Client.open(options(collector, wrong)), /Error/);
  }
  assert.throws(() => batchUrl("http://example.org", "key", false), /https/);
  assert.equal(batchUrl("http://127.0.0.1:8000/a/", "key", false), "http://127.0.0.1:8000/a/v1/reports");
});

test("withdrawn consent wipes values and secret at once, and keeps the numbers", async () => {
  const collector = new Collector();
  const client = await Client.open(options(collector));
  await client.record("homepage", "x");
  await client.setConsent(false);
  assert.equal(await client.record("homepage", "x"), false);
  assert.match(client.lastRefusal, /consent/);
  assert.ok(await client.flush(1));
  assert.equal(collector.counted, 0);
  const told = await client.inspect();
  assert.deepEqual([told.waiting, told.batches, told.metrics.homepage.values], [0, 0, 2]);
  await client.setConsent(true); // one place of three is left: the fallback's, which is sent for all
  assert.ok(await client.record("homepage", "x"));
  assert.equal((await client.inspect()).metrics.homepage.values, 3);
  assert.ok(await client.flush(5));
  assert.equal(collector.counted, 1); // nothing of before
  await client.setConsent(false);
  await client.setConsent(true);
  assert.ok(!(await client.record("homepage", "x")));
  assert.match(client.lastRefusal, /used up/);
  await client.close();
});

test("consent that another tab withdrew stops this one, and it makes no new secret", async () => {
  const storage = new MemoryStorage();
  storage.close = async () => {};
  const [one, two] = [await Client.open(options(new Collector(), { storage })), await Client.open(options(new Collector(), { storage }))];
  assert.ok(await one.record("homepage", "x"));
  await two.setConsent(false);
  for (let i = 0; i < 3; i++) assert.equal(await one.record("homepage", "x"), false);
  assert.equal(one.status.condition, "no_consent");
  assert.equal((await two.inspect()).waiting, 0);
});

test("trouble with the storage hides no withdrawal of another tab", async () => {
  const kept = new MemoryStorage();
  let broken = false;
  const storage = {
    transaction: (...of) => (broken ? Promise.reject(new StateError("state_unavailable", "storage_refused", "busy")) : kept.transaction(...of)),
    exclusive: (...of) => kept.exclusive(...of),
    scrub: async () => {},
    close: async () => {},
  };
  const [one, two] = await Promise.all([0, 1].map(() => Client.open(options(new Collector(), { storage }))));
  broken = true;
  assert.equal(await one.record("homepage", "x"), false);
  assert.equal(one.status.condition, "state_unavailable");
  broken = false;
  await two.setConsent(false);
  assert.equal(await one.record("homepage", "x"), false);
  assert.equal(one.status.condition, "no_consent");
});

test("do not track wins over consent and wipes nothing", async () => {
  const storage = new MemoryStorage();
  storage.close = async () => {};
  const collector = new Collector();
  const before = await Client.open(options(collector, { storage }));
  await before.record("homepage", "x");
  const client = await Client.open(options(collector, { storage, doNotTrack: () => true }));
  assert.equal(await client.record("homepage", "x"), false);
  assert.equal(client.status.condition, "do_not_track");
  assert.equal((await client.inspect()).waiting, 1);
  assert.equal(await client.flush(5), false); // what waits is kept
  assert.equal(collector.counted, 0);
  await client.setConsent(false);
  assert.equal(await client.flush(5), true); // nothing waits
});

test("two clients of one store send each report once", async () => {
  const storage = new MemoryStorage();
  const collector = new Collector();
  const clients = await Promise.all([0, 1].map(() => Client.open(options(collector, { storage }))));
  await Promise.all(Array.from({ length: 40 }, (_, i) => clients[i % 2].record("homepage", `v${i % 2}`)));
  assert.deepEqual(await Promise.all(clients.map((client) => client.flush(5))), [true, true]);
  assert.equal(collector.counted, 40);
});

test("what waits is bounded, the oldest go first, and counted", async () => {
  const collector = new Collector();
  collector.answers = Array(50).fill("lost before");
  const client = await Client.open(options(collector, { delivery: { meanDelay: 3600, maxQueued: 10, batchReports: 3, firstPause: 0.001 } }));
  for (let i = 0; i < 30; i++) await client.record("homepage", "x");
  await client.flush(0);
  const told = await client.inspect();
  assert.ok(told.waiting <= 10 && told.waiting >= 8);
  assert.equal(told.counters["dropped:queue_full"], 30 - told.waiting);
  await client.close();
});

test("the random delay sends by itself", async () => {
  const collector = new Collector();
  const client = await Client.open(options(collector, { delivery: { meanDelay: 0.05 } }));
  await client.record("homepage", "x");
  assert.equal(collector.counted, 0);
  for (let i = 0; i < 100 && !collector.counted; i++) await new Promise((done) => setTimeout(done, 20));
  assert.equal(collector.counted, 1);
  await client.close();
});

test("storage that fails never reaches the app, and works again when it does", async () => {
  let broken = true;
  let kept = null;
  const fail = () => {
    if (broken) throw new Error("QuotaExceeded");
  };
  const storage = new TextStorage(async () => (fail(), kept), async (text) => (fail(), void (kept = text)));
  const client = await Client.open(options(new Collector(), { storage }));
  assert.equal(client.status.condition, "state_unavailable");
  assert.equal(await client.record("homepage", "x"), false);
  broken = false;
  assert.ok(await client.record("homepage", "x"));
  broken = true;
  assert.equal(await client.record("homepage", "x"), false);
  broken = false;
  assert.ok(await client.record("homepage", "x"));
  assert.equal((await client.inspect()).waiting, 2);
  const secret = JSON.parse(new Map(JSON.parse(kept)).get("device")).secret;
  kept = kept.replace(secret, "0".repeat(64));
  const damaged = await Client.open(options(new Collector(), { storage: new TextStorage(async () => kept, async () => {}) }));
  assert.equal(damaged.status.condition, "state_corrupt");
  assert.equal(await damaged.record("homepage", "x"), false);
});

test("files: what was acknowledged is there after the process; half a line is not", async (t) => {
  const stateDir = folder(t);
  const collector = new Collector();
  const open = () => openClient({ ...options(collector), stateDir });
  const one = await open();
  for (let i = 0; i < 5; i++) assert.ok(await one.record("homepage", "x"));
  const journal = join(stateDir, "state.journal");
  assert.equal(statSync(journal).mode & 0o777, 0o600);
  assert.equal((await open()).status.condition, "state_in_use");
  await one.close();
  appendFileSync(journal, "0123456789abcdef [[\"dev");
  const two = await open();
  assert.equal((await two.inspect()).waiting, 5);
  assert.ok(await two.flush(5));
  assert.equal(collector.counted, 5);
  const { secret } = JSON.parse(JSON.parse(readFileSync(journal, "utf8").split("\n")[0].slice(17))[0][1]);
  await two.setConsent(false);
  assert.ok(secret.length === 64 && !readFileSync(journal, "utf8").includes(secret));
  await two.close();
  assert.ok(!existsSync(join(stateDir, "state.lock")));
});

test("files: damage is told, and a new secret is only made by reset", async (t) => {
  const stateDir = folder(t);
  const one = await openClient({ ...options(new Collector()), stateDir });
  await one.record("homepage", "x");
  await one.close();
  const journal = join(stateDir, "state.journal");
  writeFileSync(journal, readFileSync(journal, "utf8").replace('"', "'"));
  const two = await openClient({ ...options(new Collector()), stateDir });
  assert.equal(two.status.condition, "state_corrupt");
  assert.equal(await two.record("homepage", "x"), false);
  await two.reset(async () => rmSync(journal));
  assert.ok(await two.record("homepage", "x"));
  await two.close();
});

test("files: the journal is rewritten when it has grown", async (t) => {
  const directory = folder(t);
  const storage = new FileStorage(directory);
  const big = { text: "x".repeat(100_000) };
  for (let i = 0; i < 40; i++) await storage.transaction({ keys: [] }, (store) => store.put(`k${i % 3}`, { ...big, i }));
  assert.ok(statSync(join(directory, "state.journal")).size < 2_500_000);
  await storage.close();
  const read = await new FileStorage(directory).transaction({ keys: ["k0"] }, (store) => store.get("k0").i);
  assert.equal(read, 39);
});

test("files: a lock of a process that was killed is taken over", async (t) => {
  const stateDir = folder(t);
  const code = `import { FileStorage } from "${new URL("../dist/node.js", import.meta.url)}";
    const s = new FileStorage(${JSON.stringify(stateDir)});
    await s.transaction({ keys: [] }, (store) => store.put("a", { b: 1 }));
    console.log("ready"); setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code]);
  await new Promise((resolve) => child.stdout.once("data", resolve));
  await assert.rejects(new FileStorage(stateDir).transaction({ keys: [] }, () => 1), { condition: "state_in_use" });
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  const storage = new FileStorage(stateDir);
  assert.deepEqual(await storage.transaction({ keys: ["a"] }, (store) => store.get("a")), { b: 1 });
  await storage.close();
});

test("the strict level is a name; a bound of one's own is another", async () => {
  const client = await Client.open(options(new Collector(), { privacyLevel: { ...LEVELS.standard, maxEpsilon: 1e-3 } }));
  assert.equal(await client.record("homepage", "x"), false);
  assert.match(client.lastRefusal, /used up/);
  assert.equal((await client.inspect()).budget, 1e-3);
  await client.close();
});

test("a budget that the person agreed to holds from then on", async () => {
  const metrics = structuredClone(DOCUMENT);
  metrics.budget = 40;
  const client = await Client.open(options(new Collector(), { metrics }));
  await client.setConsent(true, 2);
  assert.equal((await client.inspect()).budget, 2);
  await assert.rejects(client.setConsent(true, 41), { name: "ParameterError" });
  await assert.rejects(client.setConsent(false, 1), { name: "ParameterError" });
  await client.close();
});

test("a clock that was once a year ahead does not stop the sending", async () => {
  const YEAR = 365 * 86_400;
  let ahead = YEAR;
  const storage = new MemoryStorage();
  storage.close = async () => {};
  const collector = new Collector();
  const open = (meanDelay) =>
    Client.open(options(collector, { storage, clock: () => Date.now() / 1000 + ahead, delivery: { meanDelay, firstPause: 0.001 } }));
  const sendAt = () => storage.transaction({ keys: ["device"] }, (store) => store.get("device").sendAt - Date.now() / 1000);
  const one = await open(3600);
  await one.record("homepage", "x");
  assert.ok((await sendAt()) > YEAR - 60);
  ahead = 0; // it is set while the app runs
  await one.record("homepage", "x");
  assert.ok((await sendAt()) <= 36_000);
  ahead = YEAR;
  await one.record("homepage", "x");
  await one.close();
  ahead = 0; // or while it is closed
  const two = await open(0.02);
  for (let i = 0; i < 200 && !collector.counted; i++) await new Promise((done) => setTimeout(done, 10));
  assert.equal(collector.counted, 3);
  await two.close();
});

test("a clock that is set in a pause does not lengthen it", async () => {
  const collector = new Collector();
  collector.answers = ["lost before"];
  let ahead = 365 * 86_400;
  const client = await Client.open(options(collector, { clock: () => Date.now() / 1000 + ahead, delivery: { meanDelay: 0, firstPause: 0.02 } }));
  await client.record("homepage", "x");
  while (!collector.requests.length) await new Promise(setImmediate);
  ahead = 0;
  for (let i = 0; i < 200 && !collector.counted; i++) await new Promise((done) => setTimeout(done, 10));
  assert.equal(collector.counted, 1);
  await client.close();
});

test("status says since when nothing is delivered and why, also after a new start, with one warning", async (t) => {
  const warned = t.mock.method(console, "warn", () => undefined);
  const storage = new MemoryStorage();
  storage.close = async () => {};
  const collector = new Collector();
  let now = 1_795_262_400;
  const open = () => Client.open(options(collector, { storage, clock: () => now }));
  const one = await open();
  assert.equal(one.status.sentence, "values are recorded and reports are sent");
  await one.record("homepage", "x");
  collector.answers = [{ status: 404, text: "<html>" }, { status: 404, text: "<html>" }];
  assert.equal(await one.flush(0), false);
  now += 86_400;
  assert.equal(await one.flush(0), false);
  const sentence = "values are recorded and wait: not delivered since 2026-11-21T12:00:00Z, because http_404";
  assert.deepEqual(one.status, { condition: "not_delivered", sentence });
  assert.deepEqual(warned.mock.calls.map((call) => call.arguments), [[`rappor-telemetry: ${sentence}`]]);
  await one.close();
  const two = await open();
  assert.deepEqual(two.status, { condition: "not_delivered", sentence });
  assert.ok(await two.record("homepage", "x")); // values are recorded
  assert.ok(await two.flush(5));
  assert.equal(two.status.condition, "active");
  await two.close();
});

test("flush is false where the collector refused a report, and says why", async () => {
  const collector = new Collector();
  const client = await Client.open(options(collector, { transport: async (request) => {
    const answer = await collector.transport(request);
    const said = JSON.parse(answer.text);
    said.results[0] = { status: "refused", reason: "day_closed" };
    return { ...answer, text: JSON.stringify(said) };
  } }));
  for (let i = 0; i < 3; i++) await client.record("homepage", "x");
  assert.equal(await client.flush(5), false);
  assert.equal(client.lastError, "refused:homepage:day_closed");
  assert.equal(client.status.condition, "active"); // the collector answered
  const { counters, waiting } = await client.inspect();
  assert.deepEqual([counters["refused:homepage:day_closed"], counters["accepted:homepage"], waiting], [1, 2, 0]);
  assert.ok(await client.flush(5)); // nothing waits any more
  await client.close();
});

test("batches that wait are bounded in bytes, too", async () => {
  const collector = new Collector();
  collector.answers = Array(50).fill("lost before");
  const client = await Client.open(options(collector, { delivery: { meanDelay: 3600, maxQueuedBytes: 1000, batchReports: 3, firstPause: 0.001 } }));
  for (let i = 0; i < 30; i++) await client.record("homepage", "x");
  await client.flush(0);
  const { waiting, batches, counters } = await client.inspect();
  assert.deepEqual([waiting, batches, counters["dropped:queue_full"]], [9, 3, 21]); // 256 bytes each
  await client.close();
});

test("one value is one answer; what a withdrawal wiped unsent is not sent so far", async () => {
  const collector = new Collector();
  const client = await Client.open(options(collector));
  const account = async () => (await client.inspect()).metrics.homepage;
  assert.ok(await client.record("homepage", "a"));
  assert.deepEqual([(await account()).answers, (await account()).values], [1, 2]); // and the fallback's place
  assert.match(render(await client.inspect()), /homepage: reports made: 1; different answers: 1 of at most 3/);
  await client.setConsent(false);
  const { answers, values, reports, spent } = await account();
  assert.deepEqual([answers, values, reports, spent], [0, 2, 1, 0]); // made, and not sent
  await client.setConsent(true);
  assert.ok(await client.record("homepage", "a")); // the fallback's place is left, and sent
  assert.ok(await client.flush(5));
  const sent = await account();
  assert.deepEqual([sent.reports, sent.answers], [2, 1]);
  for (let i = 0; i < 3; i++) assert.ok(await client.record("homepage", "a"));
  await client.setConsent(false);
  const after = await account();
  assert.deepEqual([after.reports, after.answers, after.spent], [5, 1, sent.spent]);
  await client.close();
});

test("what may have been sent is, after a withdrawal, too", async () => {
  const collector = new Collector();
  collector.answers = Array(50).fill("lost after");
  const client = await Client.open(options(collector));
  assert.ok(await client.record("homepage", "a"));
  assert.equal(await client.flush(0), false);
  await client.setConsent(false);
  assert.ok((await client.inspect()).metrics.homepage.spent > 0);
  await client.close();
});

test("bursts from everywhere while it sends: each true is one report, and each report was true", async (t) => {
  for (const storage of [new MemoryStorage(), new FileStorage(folder(t))]) {
    const collector = new Collector();
    collector.answers = Array.from({ length: 400 }, (_, at) => [undefined, "lost before", "lost after", problem(503)][at % 4]);
    const client = await Client.open(options(collector, { storage, delivery: { meanDelay: 0, firstPause: 0.001, longestPause: 0.002, batchReports: 20 } }));
    const burst = async () => {
      let number = 0;
      for (let i = 0; i < 300; i++) {
        if (await client.record("homepage", `v${i % 3}`)) number++;
        if (i % 50 === 0) await client.flush(0.01);
      }
      return number;
    };
    const said = (await Promise.all(Array.from({ length: 4 }, burst))).reduce((a, b) => a + b);
    assert.equal(said, 1200);
    assert.ok(await client.flush(30));
    assert.equal(collector.counted, 1200);
    assert.equal((await client.inspect()).counters["accepted:homepage"], 1200);
    await client.close();
  }
});
