// Linked reports against the vectors in tests/vectors/v2/linked.json, and when they leave.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { encodeLinked } from "../dist/associations/batch.js";
import { associations } from "../dist/associations.js";
import { fromHex, toHex } from "../dist/core/bytes.js";
import { decodeBatch } from "../dist/core/decode.js";
import { dayOf } from "../dist/core/days.js";
import { cohortOf } from "../dist/core/derive.js";
import { digestOf } from "../dist/core/seal.js";
import { Client, MemoryStorage, readMetrics } from "../dist/index.js";

const { compiled: DOCUMENT, batches: BATCHES } = JSON.parse(readFileSync(new URL("../../tests/vectors/v2/linked.json", import.meta.url), "utf8"));

const queued = ({ metric, params_id, cohort, day, bits }) => ({ metric, params_id, cohort, day: dayOf(day), bits: Buffer.from(bits, "hex").toString("base64") });

test("one linked report is the body of the vector", () => {
  const alone = BATCHES.filter(({ reports }) => reports.length === 1);
  assert.ok(alone.length);
  for (const { binary, reports } of alone) {
    assert.equal(toHex(encodeLinked(binary.slice(10, 42), reports[0].map(queued))), binary);
  }
});

test("a file with associations needs their part, in both builds", async () => {
  const sealed = { ...DOCUMENT, digest: digestOf(DOCUMENT) };
  const shipped = await import("../dist/production/index.js");
  const { associations: shippedPart } = await import("../dist/production/associations.js");
  for (const [read, part] of [[readMetrics, associations], [shipped.readMetrics, shippedPart]]) {
    assert.throws(() => read(sealed), { name: "MetricsFileError", code: "associations_missing" });
    assert.equal(typeof read(sealed, undefined, [], part()).link, "function");
    assert.throws(() => read({ ...sealed, associations: undefined }, undefined, [], part()), { name: "MetricsFileError" });
  }
});

test("associations that are refused", () => {
  const change = (act) => {
    const document = structuredClone(DOCUMENT);
    act(document, document.associations[0], document.metrics);
    return document;
  };
  const bad = [
    (document) => (document.associations = []),
    (document) => delete document.associations,
    (_, one) => (one.params_id = "0".repeat(32)),
    (_, one) => (one.extra = 1),
    (_, { definition }) => (definition.extra = 1),
    (_, { definition }) => (definition.keep_raw_days = -1),
    (_, { definition }) => (definition.keep_raw_days = "30"),
    (_, { definition }) => (definition.name = "homepage"),
    (_, { definition }) => (definition.name = "Home"),
    (_, { definition }) => (definition.owner = " "),
    (_, { definition }) => (definition.expires = "2099"),
    (_, { definition }) => (definition.of = ["homepage", "nothing"]),
    (_, { definition }) => (definition.of = ["homepage"]),
    (_, { definition }) => definition.of.reverse(),
    (_, { definition }) => definition.params_ids.reverse(),
    (document) => (document.associations = [document.associations[0], document.associations[0]]),
    (_, __, metrics) => delete metrics[1].definition.cohort_with,
    (_, __, metrics) => (metrics[0].definition.cohort_with = "engine"),
    (_, __, metrics) => (metrics[0].definition.max_reports_per_period = 2),
    (_, __, metrics) => (metrics[0].definition.period = "week"),
    (_, __, metrics) => Object.assign(metrics[0].definition, { platforms: ["app", "web"], max_reports: 9, lives: 2 }),
  ];
  for (const act of bad) assert.throws(() => readMetrics(change(act), undefined, [], associations()), { name: "MetricsFileError" }, String(act));
  const kept = change((_, { definition }) => (definition.keep_raw_days = 30));
  assert.ok(readMetrics(kept, undefined, [], associations())); // the collector's affair
});

/** A client whose collector, in memory, answers as told; what it was sent, read: each batch. */
const life = async (more = {}) => {
  const now = { seconds: 20_500 * 86_400 + 40_000 };
  const sent = [];
  const transport = async ({ body, encoding }) => {
    const bytes = new Uint8Array(encoding ? gunzipSync(body) : body);
    const id = toHex(bytes.subarray(5, 21));
    const answer = more.answer?.(bytes);
    if (answer) return answer;
    sent.push(bytes[4] === 2 ? linkedOf(bytes) : decodeBatch(bytes, "application/vnd.rappor.batch").reports.map(({ metric }) => metric));
    const results = sent.at(-1).map(() => ({ status: "accepted" }));
    return { status: 200, contentType: "application/json", retryAfter: "", text: JSON.stringify({ version: 1, batch_id: id, duplicate: false, results }) };
  };
  const storage = new MemoryStorage();
  const open = () => Client.open({ metrics: DOCUMENT, associations: associations(), storage, consent: true, collector: "http://127.0.0.1:1",
    clock: () => now.seconds, doNotTrack: () => false, delivery: { meanDelay: 3600, firstPause: 0.001, longestPause: 0.002 }, transport });
  return { now, sent, storage, open };
};

/** The names of the two metrics of a batch of one linked report. */
const linkedOf = (bytes) => {
  let at = 23;
  return [0, 1].map(() => {
    const name = Buffer.from(bytes.subarray(at + 1, at + 1 + bytes[at])).toString();
    at += 1 + bytes[at] + 18;
    return name;
  });
};

test("two reports of a day leave as one batch of version 2; one waits until its day is over", async () => {
  const { now, sent, open } = await life();
  const client = await open();
  assert.ok(await client.record("engine", "duckduckgo"));
  assert.ok(await client.flush(5));
  assert.deepEqual([sent, (await client.inspect()).waiting], [[], 1]); // alone, today
  assert.ok(await client.record("homepage", "https://example.org/"));
  assert.ok(await client.record("crashed", true));
  assert.ok(await client.flush(5));
  assert.deepEqual(sent, [["homepage", "engine"]]);
  assert.equal((await client.inspect()).waiting, 1);
  now.seconds += 86_400;
  assert.ok(await client.record("theme", "dark")); // of another day than `crashed`
  assert.ok(await client.flush(5));
  assert.deepEqual(sent, [["homepage", "engine"], ["crashed"]]);
  now.seconds += 86_400;
  assert.ok(await client.flush(5));
  assert.deepEqual(sent.slice(2), [["theme"]]);
  const { waiting, batches, counters } = await client.inspect();
  assert.deepEqual([waiting, batches, counters["accepted:homepage"], counters["accepted:engine"]], [0, 0, 1, 1]);
  await client.close();
});

test("a waiting report leaves by itself once its day is over, without a flush", async () => {
  const { now, sent, open } = await life();
  const client = await open();
  assert.ok(await client.record("engine", "x"));
  await client.flush(1);
  await client.close();
  now.seconds += 86_400;
  const again = await open();
  assert.equal((await again.inspect()).waiting, 1);
  assert.ok(await again.flush(5));
  assert.deepEqual(sent, [["engine"]]);
  await again.close();
});

test("linked reports share a cohort, and after the association's expiry none is linked", async () => {
  const { metrics } = readMetrics(DOCUMENT, undefined, [], associations());
  const secret = new Uint8Array(32).fill(7);
  const { MetricEncoder } = await import("../dist/core/device.js");
  const cohort = (name) => new MetricEncoder(metrics.get(name), secret, () => new Uint8Array(64)).cohort;
  assert.equal(cohort("engine"), cohort("homepage"));
  assert.equal(cohort("engine"), cohortOf(secret, "homepage", 4));
  const document = structuredClone(DOCUMENT);
  document.associations[0].definition.expires = "2026-02-14"; // the day before
  const { link } = readMetrics(document, undefined, [], associations());
  const rows = ["homepage", "engine"].map((metric, i) => [`queue/${i}`, { metric, params_id: metrics.get(metric).paramsId, cohort: 1, day: 20_499, bits: "AAA=" }]);
  const store = { remove: () => assert.fail() };
  assert.equal(dayOf("2026-02-14"), 20_498);
  assert.deepEqual(link(store, rows, 20_499 * 86_400, () => assert.fail()), rows);
});

test("reports of different cohorts, of before the association, leave alone", () => {
  const { link, metrics } = readMetrics(DOCUMENT, undefined, [], associations());
  const row = (metric, cohort, key) => [key, { metric, params_id: metrics.get(metric).paramsId, cohort, day: 20_500, bits: "AAA=" }];
  const rows = [row("homepage", 1, "queue/0"), row("engine", 2, "queue/1")];
  assert.deepEqual(link({ remove: () => assert.fail() }, rows, 20_500 * 86_400, () => assert.fail()), rows);
  const made = [];
  const removed = [];
  const both = [row("theme", 0, "queue/0"), row("crashed", 0, "queue/1")];
  assert.deepEqual(link({ remove: (key) => removed.push(key) }, both, 20_500 * 86_400, (reports) => made.push(reports)), []);
  assert.deepEqual([made.length, made[0].map(({ metric }) => metric), removed], [1, ["theme", "crashed"], ["queue/0", "queue/1"]]);
});

test("the same bytes are sent until the collector answers; after 413 the two leave alone", async () => {
  const bodies = [];
  const answer = (bytes) => {
    bodies.push(toHex(bytes));
    if (bodies.length === 1) throw new TypeError("offline");
    if (bodies.length > 2) return undefined;
    const problem = { type: "urn:rappor-telemetry:problem:too_large", status: 413 };
    return { status: 413, contentType: "application/problem+json", retryAfter: "", text: JSON.stringify(problem) };
  };
  const { sent, open } = await life({ answer });
  const client = await open();
  assert.ok(await client.record("homepage", "a"));
  assert.ok(await client.record("engine", "b"));
  assert.ok(await client.flush(10));
  assert.equal(bodies[0], bodies[1]);
  assert.equal(fromHex(bodies[0])[4], 2);
  assert.deepEqual(sent.map(([name]) => name).sort(), ["engine", "homepage"]);
  await client.close();
});
