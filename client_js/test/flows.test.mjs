// Flows against the vectors in tests/vectors/v1/flows.json, and what the client makes of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as h3 from "h3-js";
import { fromHex, toHex } from "../dist/core/bytes.js";
import { oneBit } from "../dist/core/coins.js";
import { dayOf } from "../dist/core/days.js";
import { secretCheck } from "../dist/core/derive.js";
import { MetricEncoder } from "../dist/core/device.js";
import { LEVELS } from "../dist/core/ledger.js";
import { paramsId } from "../dist/core/params_id.js";
import { readMetrics } from "../dist/core/reading.js";
import { Recorder } from "../dist/core/recorder.js";
import { digestOf } from "../dist/core/seal.js";
import { newDevice } from "../dist/core/state.js";
import { flows } from "../dist/flows.js";
import { questionOf, Sides, symbolOf } from "../dist/flows/classes.js";
import { FlowVisits } from "../dist/flows/visits.js";
import { Client, MemoryStorage } from "../dist/index.js";
import { momentOf } from "../dist/places/visits.js";
import { Documents, vectors } from "./vectors.mjs";

const VECTORS = vectors("flows");
const { document: DOCUMENT, expected: EXPECTED } = VECTORS.metrics;
const KINDS = [flows()];
const METRICS = readMetrics(DOCUMENT, undefined, KINDS);
const metricOf = (name) => METRICS.metrics.get(name);
const QUESTIONS = ["home", "work", "distance", "zones", "pair"];

test("params_ids and what a life costs", () => {
  assert.deepEqual([...METRICS.metrics.keys()], Object.keys(EXPECTED));
  for (const [name, { params_id: id, lifetime_epsilon: nats }] of Object.entries(EXPECTED)) {
    const { definition, paramsId: found, lifetimeEpsilon } = metricOf(name);
    assert.deepEqual([found, paramsId(definition)], [id, id]);
    assert.ok(Math.abs(lifetimeEpsilon - nats) < 1e-9);
  }
});

test("the production build reads them, too", async () => {
  const { readMetrics: read } = await import("../dist/production/index.js");
  const { flows: part } = await import("../dist/production/flows.js");
  const sealed = (document) => ({ ...document, digest: digestOf(document) });
  assert.deepEqual([...read(sealed(DOCUMENT), undefined, [part()]).metrics.keys()], Object.keys(EXPECTED));
  assert.throws(() => read(sealed(VECTORS.h3.metrics.document), undefined, [part()]), { code: "h3_missing" });
});

/** Cells, zones, distances, classes and symbols of the rows of one file. */
const compare = (read, rows, sides, library) => {
  const of = new Map(sides.map(({ metric }) => [metric, new Sides(read.metrics.get(metric).definition.details, library)]));
  for (const { metric, cells, zones, zone_of: zoneOf } of sides) {
    assert.deepEqual([...of.get(metric).cells], cells);
    assert.deepEqual(of.get(metric).zones, { zones, zoneOf });
  }
  for (const { metric: name, value, metres, classes, symbols } of rows) {
    const metric = read.metrics.get(name);
    const [o, d] = of.get(name).pairOf(metric, value);
    if (metres !== null) assert.equal(of.get(name).meters(o, d), metres, `${name} ${value}`);
    for (const question of QUESTIONS) assert.equal(of.get(name).classOf(question, o, d), classes[question], `${name} ${value} ${question}`);
    symbols.forEach((symbol, cohort) => {
      const number = of.get(name).classOf(questionOf(cohort), o, d);
      assert.equal(symbolOf(questionOf(cohort), number, cohort, metric.definition.params.num_bits), symbol);
    });
  }
};

test("cells, zones, distances, classes and symbols", () => compare(METRICS, VECTORS.pairs, VECTORS.sides));

test("cells of h3, by the library h3-js", () => {
  const read = readMetrics(VECTORS.h3.metrics.document, undefined, [flows({ h3 })]);
  compare(read, VECTORS.h3.pairs, VECTORS.h3.sides, h3);
  assert.throws(() => readMetrics(VECTORS.h3.metrics.document, undefined, [flows()]), { code: "h3_missing" });
});

test("symbols of classes in any cohort", () => {
  for (const { question, class: number, cohort, symbol } of VECTORS.hashed) assert.equal(symbolOf(question, number, cohort, 8), symbol);
});

test("what is no pair is refused without the value", () => {
  const device = new MetricEncoder(metricOf("daily"), new Uint8Array(32), () => new Uint8Array(2));
  for (const value of ["1-0-0", "1-0-0>", ">", "nowhere>1-0-0", "1-0-0>1-0-0>1-0-0", "", 3, null, undefined]) {
    assert.throws(() => device.valueBits(value), (error) => error.name === "ValueRefusedError" && !error.message.includes("nowhere"), String(value));
  }
  const bits = (value) => toHex(device.valueBits(value));
  assert.deepEqual([bits("other"), bits("no_data")], [bits("other>other"), bits("no_data>no_data")]);
});

test("one ledger entry for all answers", () => {
  for (const { metric, secret, digest } of VECTORS.digests) {
    const device = new MetricEncoder(metricOf(metric), fromHex(secret), () => new Uint8Array(2));
    const size = (device.metric.definition.params.num_bits + 7) >> 3;
    for (const symbol of [0, 3]) assert.equal(device.digest(oneBit(symbol, size)), digest);
  }
});

/** The answers of a device that is restarted before each step: `act` with its visits. */
const visited = (name, secret, steps, act) => {
  const sent = [];
  let saved = null;
  for (const step of steps) {
    const visits = new FlowVisits(metricOf(name), fromHex(secret), (_, value, day) => sent.push([value, day]), saved);
    act(visits, step);
    saved = visits.toJson();
  }
  return sent;
};

test("lives", () => {
  for (const { what, metric, secret, cohort, steps, reports } of VECTORS.lives) {
    const device = new MetricEncoder(metricOf(metric), fromHex(secret), () => new Uint8Array(2));
    const sent = visited(metric, secret, steps, (visits, [text, ...point]) => {
      const moment = momentOf({ ms: Date.parse(text), offset: 0 });
      if (!point.length) visits.look(moment);
      else if (!visits.refuses(moment, moment)) visits.take([point], moment);
    });
    assert.equal(device.cohort, cohort);
    const size = (device.metric.definition.params.num_bits + 7) >> 3;
    assert.deepEqual(sent.map(([value, day]) => [value, day]), reports.map(([value, day]) => [value, day]), `${metric} ${what}`);
    for (const [value, , symbol] of reports) assert.equal(toHex(device.valueBits(value)), toHex(oneBit(symbol, size)));
  }
});

test("the turns of devices that only look", () => {
  const first = Date.parse("2026-11-02T12:00:00Z");
  for (const { metric, secret, days } of VECTORS.turns) {
    const steps = Array.from({ length: metric === "commute" ? 800 : 30 }, (_, day) => momentOf({ ms: first + day * 86_400_000, offset: 0 }));
    assert.deepEqual(visited(metric, secret, steps, (visits, moment) => visits.look(moment)).map(([, day]) => day), days, metric);
  }
});

/** The compiled document with some fields of one metric's definition, or of its details, changed. */
const changed = (name, fields, details = {}) => {
  const document = structuredClone(DOCUMENT);
  const row = document.metrics.find(({ definition }) => definition.name === name);
  Object.assign(row.definition.details, details);
  Object.assign(row.definition, fields);
  row.params_id = paramsId(row.definition);
  return document;
};

test("compiled metrics of flows that are refused", () => {
  const params = (name, more) => ({ params: { ...metricOf(name).definition.params, ...more } });
  const grid = (name, more) => ({ grid: { ...metricOf(name).definition.details.grid, ...more } });
  const bad = [
    ["commute", {}, grid("commute", { levels: [11] })], ["commute", {}, grid("commute", { levels: [11, 12, 13] })], ["commute", {}, grid("commute", { levels: [11, 14] })],
    ["commute", {}, grid("commute", { levels: [12, 13], box: [42.01, -72.8, 42.011, -66.5] })], ["commute", {}, grid("commute", { extra: 1 })],
    ["commute", {}, { bands_km: [1, 1] }], ["commute", {}, { bands_km: [] }], ["commute", {}, { bands_km: [0, 1] }], ["commute", {}, { bands_km: "1" }],
    ["commute", {}, { bands_km: [1, 2, 3, 4, 5, 6] }], ["commute", {}, { mode: "memo" }], ["commute", {}, { spread: 0 }], ["commute", {}, { window: 3 }],
    ["daily", {}, { spread: 2 }], ["daily", {}, { window: 1 }], ["commute", {}, { lag: 1 }], ["moved", {}, { lag: 0 }], ["moved", {}, { lag: 61 }],
    ["commute", {}, { to: "night 9-17" }], ["commute", {}, { to: "work 5-17" }], ["commute", {}, { to: 3 }], ["commute", {}, { from: "22-6" }],
    ["commute", {}, { max_gap_minutes: 0 }], ["commute", {}, { extra: 1 }], ["commute", { fallback: null }], ["commute", { no_data: "none" }],
    ["commute", { max_memoized_values: 2 }], ["commute", { max_reports: 2 }], ["commute", { max_reports_per_period: 2 }], ["daily", { max_reports: null }],
    ["commute", params("commute", { num_cohorts: 165 })], ["commute", params("commute", { p1: 40000, q1: 3648 })], ["commute", params("commute", { encoding: "symbol" })],
  ];
  for (const [name, fields, details] of bad) {
    assert.throws(() => readMetrics(changed(name, fields, details), undefined, KINDS), { name: "MetricsFileError" }, JSON.stringify([name, fields, details]));
  }
  assert.throws(() => readMetrics(DOCUMENT), { name: "MetricsFileError", code: "metric_kind", message: /commute.*flows/ });
});

test("the ledger holds a life to its answers, in one entry", () => {
  const secret = "07".repeat(32);
  const documents = new Documents();
  documents.all.set("device", { ...newDevice(), secret, check: toHex(secretCheck(fromHex(secret))) });
  const day = dayOf("2026-11-02");
  const recorder = new Recorder(METRICS, LEVELS.standard, (n) => new Uint8Array(n));
  const outcomes = Array.from({ length: 6 }, (_, i) => documents.run((store) => recorder.record(store, "daily", "other", day + i)));
  assert.deepEqual(outcomes, ["queued", "queued", "queued", "queued", "full", "full"]);
  const line = documents.all.get("line/daily");
  assert.deepEqual(Object.values(line.entries).map(({ reports }) => reports), [4]);
});

test("a client takes fixes, answers once, and keeps no place afterwards", async () => {
  const storage = new MemoryStorage();
  let now = Date.parse("2026-11-02T09:00:00Z") / 1000;
  const client = await Client.open({ metrics: DOCUMENT, kinds: KINDS, storage, consent: true, collector: "http://localhost:1",
    development: true, clock: () => now, doNotTrack: () => false });
  await assert.rejects(client.record("everyday", "other"), { name: "ValueRefusedError", message: /takes fixes/ });
  await assert.rejects(client.recordTrip("everyday", [0, 0], [1, 1]), { name: "ValueRefusedError", message: /takes fixes/ });
  const at = () => ({ ms: now * 1000, offset: 0 });
  for (let day = 0; day < 4; day++, now += 86_400) assert.ok(await client.recordLocation("everyday", 0.5, 179.9, at()));
  const { waiting, queued } = await client.inspect();
  assert.ok((waiting ?? queued) >= 1);
  const notes = JSON.parse((await storage.transaction({ keys: ["line/everyday"] }, (store) => store.get("line/everyday"))).note);
  assert.deepEqual([notes.dwell, notes.known], [[], []]);
  await client.close();
});
