// Numbers against the vectors in tests/vectors/v1/numbers.json, and what the client makes of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex, toHex } from "../dist/core/bytes.js";
import { oneBit } from "../dist/core/coins.js";
import { secretCheck } from "../dist/core/derive.js";
import { MetricEncoder } from "../dist/core/device.js";
import { LEVELS } from "../dist/core/ledger.js";
import { readMetrics } from "../dist/core/reading.js";
import { Recorder } from "../dist/core/recorder.js";
import { newDevice } from "../dist/core/state.js";
import { Client, MemoryStorage } from "../dist/index.js";
import { cutsOn, jitterOf, numbers } from "../dist/numbers.js";
import { Collected } from "../dist/numbers/collected.js";
import { cutsOf, questionsOf, symbolOf } from "../dist/numbers/cuts.js";
import { Documents, vectors } from "./vectors.mjs";

const VECTORS = vectors("numbers");
const { document: DOCUMENT } = VECTORS.metrics;
const KINDS = [numbers()];
const METRICS = readMetrics(DOCUMENT, undefined, KINDS);
const metricOf = (name) => METRICS.metrics.get(name);
const SPECIAL = { NaN, Infinity, "-Infinity": -Infinity };

test("the questions of each metric", () => {
  for (const [name, asked] of Object.entries(VECTORS.asked)) {
    assert.deepEqual(questionsOf(metricOf(name).definition.details).map((cut) => (cut === -Infinity ? "data" : cut)), asked, name);
  }
});

test("jitters", () => {
  for (const row of VECTORS.jitters) {
    assert.equal(metricOf(row.metric).paramsId, row.params_id);
    assert.equal(jitterOf(metricOf(row.metric), fromHex(row.secret)), row.jitter);
  }
});

test("symbols", () => {
  assert.ok(VECTORS.symbols.length > 600);
  for (const { metric: name, cohort, jitter, value, symbol } of VECTORS.symbols) {
    const metric = metricOf(name);
    const cuts = cutsOf(metric.definition.details, cohort, metric.definition.params.num_bits, jitter);
    assert.equal(symbolOf(metric, cuts, value), symbol, JSON.stringify({ name, cohort, jitter, value }));
  }
});

test("values that are refused, without the value", () => {
  for (const { metric, value } of VECTORS.refused) {
    const given = SPECIAL[value?.special] ?? value;
    const device = new MetricEncoder(metricOf(metric), new Uint8Array(32), () => new Uint8Array(2));
    assert.throws(() => device.valueBits(given), (error) => error.name === "ValueRefusedError" && !error.message.includes("812"), metric);
  }
});

test("what is made of a period", () => {
  for (const row of VECTORS.collected) {
    const metric = metricOf(row.metric);
    const cuts = cutsOn(metric, row.cohort, fromHex(row.secret));
    let saved = null; // as the client does: from the state and back, at every number
    for (const number of row.numbers) {
      const collected = new Collected(metric, cuts, saved);
      if (saved === null) collected.begin(1);
      collected.take(number);
      saved = collected.toJson();
    }
    const device = new MetricEncoder(metric, fromHex(row.secret), () => new Uint8Array(2));
    assert.equal(device.cohort, row.cohort);
    const bits = device.valueBits(new Collected(metric, cuts, saved).number());
    assert.equal(toHex(bits), toHex(oneBit(row.symbol, bits.length)), JSON.stringify(row));
  }
});

for (const [number, { secret, steps, reports }] of VECTORS.lives.entries()) {
  test(`a life of numbers: ${number}`, () => {
    const documents = new Documents();
    documents.all.set("device", { ...newDevice(), secret, check: toHex(secretCheck(fromHex(secret))) });
    const told = [];
    for (const [what, day, value] of steps) {
      const recorder = new Recorder(METRICS, LEVELS.standard, (n) => new Uint8Array(n)); // reopened
      const record = recorder.record.bind(recorder); // what is encoded, before any coin
      recorder.record = (store, name, given, when) => {
        const outcome = record(store, name, given, when);
        const bits = recorder.device(metricOf(name), secret).valueBits(given);
        if (outcome.startsWith("queued")) told.push([name, when, bits.findIndex((byte) => byte) * 8 + Math.log2(Math.max(...bits))]);
        return outcome;
      };
      const names = value === undefined ? [...METRICS.metrics.keys()] : [what];
      for (const name of names) {
        documents.run((store) => {
          const act = { store, recorder, name, day };
          return value === undefined ? KINDS[0].roll(act) : KINDS[0].take(act, value, false);
        });
      }
    }
    told.sort(([a, one], [b, other]) => (a === b ? one - other : a < b ? -1 : 1));
    assert.deepEqual(told, reports);
    assert.equal([...documents.all.keys()].filter((key) => key.startsWith("queue/")).length, reports.length);
  });
}

/** The compiled document with some fields of one metric's definition, or of its details, changed. */
const changed = (name, fields, details = {}) => {
  const document = structuredClone(DOCUMENT);
  const { definition } = document.metrics.find((row) => row.definition.name === name);
  Object.assign(definition.details, details);
  Object.assign(definition, fields);
  return document;
};

test("compiled metrics of numbers that are refused", () => {
  const params = (name, more) => ({ params: { ...metricOf(name).definition.params, ...more } });
  const bad = [
    ["startup", { fallback: "0" }], ["startup", { max_reports_per_period: 2 }], ["startup", { max_memoized_values: 3 }],
    ["startup", { no_data: "none" }], ["startup", params("startup", { num_cohorts: 33 })], ["startup", params("startup", { encoding: "symbol" })],
    ["visits", { max_reports: 2 }], ["startup", {}, { edges: [1, 1] }], ["startup", {}, { edges: [0, 1e300] }], ["startup", {}, { edges: "1" }],
    ["startup", {}, { unit: " " }], ["startup", {}, { none: "maybe" }], ["startup", {}, { spread: 2 }], ["startup", {}, { mode: "once" }],
    ["startup", {}, { extra: 1 }], ["crashes", {}, { edges: [1, 2.5] }], ["load", {}, { scale: "list" }], ["load", {}, { whole: true }],
    ["visits", {}, { whole: false }], ["crashes", {}, { edges: [0] }], ["size", {}, { edges: [0, 1, 2] }], ["startup", { details: [] }],
  ];
  for (const [name, fields, details] of bad) {
    assert.throws(() => readMetrics(changed(name, fields, details), undefined, KINDS), { name: "MetricsFileError", code: "metrics_file" }, JSON.stringify([name, fields, details]));
  }
  assert.throws(() => readMetrics(DOCUMENT), { name: "MetricsFileError", code: "metric_kind", message: /startup.*numbers/ });
});

const NOON = 43_200;
const opened = async (storage, now, more = {}) =>
  Client.open({ metrics: DOCUMENT, kinds: KINDS, storage, consent: true, collector: "http://127.0.0.1:1", clock: () => now.day * 86_400 + NOON,
    doNotTrack: () => false, delivery: { meanDelay: 3600 }, transport: async () => { throw new TypeError("offline"); }, ...more });

test("the client sums a day, reports it once when it is over, and a day without anything, too", async () => {
  const [storage, now] = [new MemoryStorage(), { day: 20_500 }];
  const client = await opened(storage, now);
  const reports = async (name) => (await client.inspect()).metrics[name].reports;
  assert.ok(await client.add("crashes"));
  assert.ok(await client.add("crashes", 2));
  assert.ok(await client.record("crashes", 1)); // the same, by record
  assert.equal((await client.inspect()).waiting, 0);
  now.day += 1;
  assert.ok(await client.add("crashes"));
  assert.equal(await reports("crashes"), 1);
  now.day += 3;
  await client.flush(0); // nothing was recorded: what is over is reported all the same
  assert.equal(await reports("crashes"), 4);
  const { waiting } = await client.inspect();
  assert.equal(waiting, await reports("crashes") + await reports("balance") + await reports("load") + await reports("size") + await reports("visits"));
  assert.equal(await client.add("startup"), false);
  assert.match(client.lastRefusal, /startup.*use record/);
  for (const wrong of [NaN, "1", null, undefined, true, [1], -1]) {
    assert.equal(await client.record("crashes", wrong), false);
    assert.match(client.lastRefusal, /crashes/);
  }
  assert.equal(await client.record("crashes", 1.5), false);
  assert.match(client.lastRefusal, /whole numbers/);
  await client.close();
});

test("on the first act of a day what is over of all metrics is reported, and leaves by itself", async () => {
  const [storage, now, sent] = [new MemoryStorage(), { day: 20_500 }, []];
  const transport = async ({ contentType }) => { sent.push(contentType); throw new TypeError("offline"); };
  const client = await opened(storage, now, { transport, delivery: { meanDelay: 0.001, firstPause: 0.001, longestPause: 0.002 } });
  now.day += 1;
  assert.ok(await client.record("balance", 5));
  assert.equal((await client.inspect()).metrics.crashes.reports, 1);
  while (!sent.length) await new Promise((resolve) => setTimeout(resolve, 2));
  await client.close();
});

test("what opening alone reported leaves by itself", async () => {
  const [storage, now, sent] = [new MemoryStorage(), { day: 20_500 }, []];
  const first = await opened(storage, now);
  await first.close();
  now.day += 1;
  const transport = async ({ contentType }) => { sent.push(contentType); throw new TypeError("offline"); };
  const client = await opened(storage, now, { transport, delivery: { meanDelay: 0.001, firstPause: 0.001, longestPause: 0.002 } });
  for (const end = Date.now() + 10_000; !sent.length && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 2));
  assert.ok(sent.length);
  await client.close();
});

test("a sum stays a number, however much is added", () => {
  for (const name of ["crashes", "load"]) {
    const collected = new Collected(metricOf(name), [], null);
    collected.begin(1);
    for (let i = 0; i < 3; i++) collected.take(Number.MAX_VALUE);
    assert.ok(Number.isFinite(new Collected(metricOf(name), [], collected.toJson()).number()), name);
  }
});

test("consent withdrawn wipes the numbers of the period", async () => {
  const [storage, now] = [new MemoryStorage(), { day: 20_500 }];
  const client = await opened(storage, now);
  assert.ok(await client.add("crashes", 987654));
  await client.setConsent(false);
  const documents = await storage.transaction({ keys: [], prefix: "" }, (store) => JSON.stringify(store.list()));
  assert.doesNotMatch(documents, /987654/);
  await client.setConsent(true);
  now.day += 1;
  assert.ok(await client.add("crashes"));
  assert.equal((await client.inspect()).metrics.crashes.reports, 1);
  await client.close();
});

test("a damaged note begins the period again", async () => {
  const [storage, now] = [new MemoryStorage(), { day: 20_500 }];
  const client = await opened(storage, now);
  assert.ok(await client.add("crashes", 5));
  await storage.transaction({ keys: ["line/crashes"] }, (store) => store.put("line/crashes", { ...store.get("line/crashes"), note: '{"of":1' }));
  assert.ok(await client.add("crashes", 5));
  now.day += 1;
  assert.ok(await client.add("crashes", 5));
  assert.equal((await client.inspect()).metrics.crashes.reports, 1);
  await client.close();
});
