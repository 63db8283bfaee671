// Places against the vectors in tests/vectors/v1/places.json; cells of h3 by the library h3-js.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import * as h3 from "h3-js";
import { fromHex, toHex } from "../dist/core/bytes.js";
import { oneBit, symbolCoin } from "../dist/core/coins.js";
import { dayOf, lastDay, periodNumber } from "../dist/core/days.js";
import { MetricEncoder } from "../dist/core/device.js";
import { LEVELS } from "../dist/core/ledger.js";
import { readMetrics } from "../dist/core/reading.js";
import { paramsId } from "../dist/core/params_id.js";
import { Recorder } from "../dist/core/recorder.js";
import { digestOf } from "../dist/core/seal.js";
import { newDevice } from "../dist/core/state.js";
import { Client, MemoryStorage } from "../dist/index.js";
import { places } from "../dist/places.js";
import { covers, dutyOf, parseSlot } from "../dist/places/duty.js";
import { Grid } from "../dist/places/grid.js";
import { isWeekend, momentOf, Visits } from "../dist/places/visits.js";
import { noCollector, PYTHON } from "./collector.mjs";
import { Documents, vectors } from "./vectors.mjs";

const VECTORS = vectors("places");
const COMPILED = vectors("compiled").good.places;
const METRICS = readMetrics(COMPILED.document, places());
const partsOf = (name) => [...METRICS.metrics.values()].filter((metric) => metric.line === name);

const localTime = (text) => {
  const [, sign, hours, minutes] = /([+-])(\d\d):(\d\d)$/.exec(text) ?? [, "+", 0, 0];
  return { ms: Date.parse(text), offset: (sign === "-" ? -1 : 1) * (60 * hours + +minutes) };
};
const moment = (text) => momentOf(localTime(text));

for (const { grid: fields, points } of VECTORS.cells) {
  test(`cells: ${fields.kind} ${fields.box} ${fields.levels}`, () => {
    const grid = new Grid(fields, h3);
    for (const { point, refused, cell, values } of points) {
      if (refused) {
        assert.throws(() => grid.locate(...point), { name: "ValueRefusedError" });
        continue;
      }
      const found = grid.locate(...point);
      assert.equal(found ? String(grid.code(found, grid.finest)) : undefined, cell ?? undefined);
      assert.deepEqual(fields.levels.map((level) => grid.value(found, level)), values, String(point));
    }
  });
}

const PYTHON_DOMAIN = `
import json, sys
from rappor_core.grid.grid import Grid
for line in sys.stdin:
    fields, level = json.loads(line)
    print(json.dumps(Grid.from_dict(fields).cells(level)))`;
const noH3 = () => {
  if (noCollector) return noCollector;
  try {
    execFileSync(PYTHON, ["-c", "import h3"], { stdio: "ignore" });
    return false;
  } catch {
    return "the Python environment has no h3";
  }
};

test("the domain of a grid of h3 is that of the Python package", { skip: noH3() }, () => {
  const boxes = [[40.5, -74.3, 40.95, -73.65], [-21, 176, -12, -178], [59.9, 10.5, 60.1, 11], [-60, -170, 60, 170]];
  const asked = boxes.flatMap((box, i) => (i < 3 ? [4, 6] : [0, 1]).map((level) => [{ kind: "h3", box, levels: i < 3 ? [4, 6] : [0, 1], rows: 0, columns: 0 }, level]));
  const input = asked.map((row) => JSON.stringify(row)).join("\n");
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const lines = execFileSync(PYTHON, ["-c", PYTHON_DOMAIN], { input, encoding: "utf8", maxBuffer: 1 << 28, cwd: root, env: { ...process.env, PYTHONPATH: root } }).trim().split("\n");
  asked.forEach(([fields, level], i) => {
    const wanted = [...JSON.parse(lines[i]), "other"];
    assert.deepEqual([...new Grid(fields, h3).domain(level).keys()], wanted, `${fields.box} ${level}`);
    assert.deepEqual([...new Grid(fields, h3).domain(level).values()], wanted.map((_, bit) => bit));
  });
});

test("a grid of h3 needs its library, and says so", async () => {
  const document = structuredClone(COMPILED.document);
  document.metrics = document.metrics.slice(0, 1);
  const { definition } = document.metrics[0];
  definition.location.grid = { ...definition.location.grid, kind: "h3", levels: [8, 9, 10] };
  Object.assign(definition.location, { level: 9 });
  definition.name = `filter/${definition.location.slot}/9`;
  document.metrics[0].params_id = paramsId(definition);
  document.digest = digestOf(document);
  const shipped = await import("../dist/production/index.js");
  const { places: shippedPlaces } = await import("../dist/production/places.js");
  for (const [read, part] of [[readMetrics, places], [shipped.readMetrics, shippedPlaces]]) {
    assert.throws(() => read(document, part()), { name: "MetricsFileError", code: "h3_missing" });
    assert.equal(read(document, part({ h3 })).metrics.size, 1);
  }
});

test("what is not a point is refused", () => {
  for (const { box, point, reason } of VECTORS.refused) {
    const grid = new Grid({ kind: "quadkey", box, levels: [12], rows: 0, columns: 0 });
    assert.throws(() => grid.locate(...point.map((text) => (text === "nan" ? NaN : text === "inf" ? Infinity : Number(text)))),
      { name: "ValueRefusedError" }, reason);
  }
});

test("names, params_ids and epsilons of the metrics", () => {
  const { expected } = VECTORS.metrics;
  assert.deepEqual([...METRICS.metrics.keys()], Object.keys(expected));
  for (const [name, { params_id: id, lifetime_epsilon: nats }] of Object.entries(expected)) {
    const metric = METRICS.metrics.get(name);
    assert.equal(metric.paramsId, id);
    assert.ok(Math.abs(metric.lifetimeEpsilon - nats) < 1e-9);
  }
});

test("compiled metrics of places that are refused", () => {
  const change = (path, value) => {
    const document = structuredClone(COMPILED.document);
    const keys = ["definition", ...path.split(".")];
    const last = keys.pop();
    keys.reduce((object, key) => object[key], document.metrics[0])[last] = value;
    return document;
  };
  const bad = { "location.level": 12, "location.mode": "often", "location.window": 1, "location.pairs": 1,
    "location.max_gap_minutes": 0, "location.slots": ["night 22-6", "late 23-24"], "location.slot": "noon",
    "location.grid.kind": "hex", "location.grid.box": [1, 2, 1, 3], "location.grid.levels": [13, 11],
    "location.grid.rows": 1, fallback: "rest", max_reports_per_period: 2, name: "filter/night/12" };
  for (const [path, value] of Object.entries(bad)) {
    assert.throws(() => readMetrics(change(path, value), places()), { name: "MetricsFileError" }, path);
  }
});

test("local times, slots and periods", () => {
  const slots = METRICS.metrics.get("filter/work/13").definition.location.slots.map(parseSlot);
  for (const row of VECTORS.times) {
    const { day, hour, left } = moment(row.time);
    assert.deepEqual([day, hour, left, isWeekend(day)], [row.day, row.hour, row.left_in_hour, row.weekend], row.time);
    assert.equal(slots.find((slot) => covers(slot, hour, row.weekend))?.name ?? null, row.slot);
    for (const [period, number] of Object.entries(row.periods)) {
      assert.equal(periodNumber(period, day), number);
      assert.equal(lastDay(period, number), row.last_days[period]);
    }
  }
});

for (const row of VECTORS.usual) {
  test(`the usual cell: ${row.what}, ${row.secret.slice(0, 4)}`, () => {
    const sent = [];
    let saved = null;
    const act = (change) => { // as the client does: from the state and back, at every fix
      const visits = new Visits(partsOf(row.metric), fromHex(row.secret), (...report) => sent.push(report), saved);
      change(visits);
      saved = visits.toJson();
    };
    for (const [at, ...point] of row.fixes) act((visits) => visits.take([point], moment(at)));
    act((visits) => visits.roll(moment(row.until)));
    assert.deepEqual(sent, row.reports);
  });
}

test("which fixes are taken", () => {
  const { metric, secret, fixes } = VECTORS.fix_times;
  const visits = new Visits(partsOf(metric), fromHex(secret), () => undefined, null);
  for (const { clock, at, outcome } of fixes) {
    const refused = visits.refuses(moment(at), moment(clock));
    assert.equal(refused || "taken", outcome, `${clock} ${at}`);
    if (!refused) visits.take([[40.7128, -74.006]], moment(at));
  }
});

test("a period is reported once, whatever the clock does", () => {
  const days = [];
  const visits = new Visits(partsOf("filter"), new Uint8Array(32), (_, __, day) => days.push(day), null);
  for (const day of [2, 3, 2, 3, 2, 4]) visits.roll(moment(`2026-11-0${day}T12:00:00Z`));
  assert.deepEqual(days, [2, 2, 3, 3].map((day) => dayOf(`2026-11-0${day}`))); // two slots
});

test("duties", () => {
  for (const row of VECTORS.duties) {
    const duty = dutyOf(fromHex(row.secret), partsOf(row.metric));
    assert.deepEqual([duty.level, duty.every, duty.phase], [row.level, row.every, row.phase]);
    for (const [period, names] of Object.entries(row.due)) assert.deepEqual(duty.due(+period).map(({ name }) => name), names);
  }
});

test("coins of symbols", () => {
  for (const { kept, lie, num_symbols: number, symbol, random, result } of VECTORS.symbol_coins) {
    const size = (number + 7) >> 3;
    assert.equal(toHex(symbolCoin(kept, lie).toss(oneBit(symbol, size), fromHex(random))), toHex(oneBit(result, size)));
  }
});

test("responses: bloom, one_hot and symbols", () => {
  for (const row of VECTORS.responses) {
    const random = fromHex(row.random);
    const device = new MetricEncoder(METRICS.metrics.get(row.metric), fromHex(row.secret), (n) => random.subarray(0, n));
    const bits = device.valueBits(row.value);
    assert.equal(device.cohort, row.cohort);
    assert.equal(toHex(bits), row.encoded_bits);
    assert.equal(toHex(device.permanentBits(bits)), row.permanent_bits);
    assert.equal(device.digest(bits), row.ledger_digest);
    assert.equal(toHex(device.reportBits(bits)), row.report_bits);
  }
});

test("one report a window, over new slots and levels", () => {
  const documents = new Documents();
  documents.all.set("device", { ...newDevice(), secret: VECTORS.limits.secret });
  const recorder = new Recorder(METRICS, LEVELS.standard, (n) => new Uint8Array(n));
  for (const { metric, day, outcome } of VECTORS.limits.operations) {
    assert.equal(documents.run((store) => recorder.record(store, metric, "0-0-0", dayOf(day))), outcome, `${metric} ${day}`);
  }
});

test("the client takes fixes, and reports a period when it is over", async () => {
  let now = Date.parse("2026-11-02T12:00:00Z") / 1000;
  const client = await Client.open({ metrics: COMPILED.document, places: places(), storage: new MemoryStorage(), consent: true,
    collector: "http://127.0.0.1:1", clock: () => now, doNotTrack: () => false, delivery: { meanDelay: 3600 },
    transport: async () => { throw new TypeError("offline"); } });
  const at = () => ({ ms: now * 1000, offset: 0 });
  assert.ok(await client.recordLocation("filter", 40.7128, -74.006, at()));
  assert.equal((await client.inspect()).waiting, 0);
  now += 86_400;
  assert.ok(await client.recordLocation("filter", 40.7128, -74.006, at()));
  assert.equal((await client.inspect()).metrics.filter.reports, 2); // one for each slot; another metric may have its turn
  assert.equal(await client.recordLocation("filter", 40.7128, -74.006, { ms: (now - 86_400 * 2) * 1000, offset: 0 }), false);
  assert.match(client.lastRefusal, /period that is over/);
  assert.equal(await client.recordLocation("nowhere", 1, 2), false);
  assert.equal(await client.recordTrip("filter", [40.7, -74], [40.8, -74], at()), false);
  now += 86_400;
  await client.flush(0);
  assert.equal((await client.inspect()).metrics.filter.reports, 4);
  const { metrics } = await client.inspect();
  assert.ok(metrics.filter.values >= 1 && metrics.filter.values <= 3); // values on the same bit are one
  await client.close();
});

const APART = vectors("places_no_data");
const APART_METRICS = readMetrics(APART.compiled, places());

test("no_data apart from other: names, params_ids and epsilons", () => {
  assert.deepEqual([...APART_METRICS.metrics.keys()], Object.keys(APART.metrics.expected));
  for (const [name, { params_id: id, lifetime_epsilon: nats }] of Object.entries(APART.metrics.expected)) {
    const metric = APART_METRICS.metrics.get(name);
    assert.equal(metric.paramsId, id);
    assert.notEqual(id, METRICS.metrics.get(name).paramsId);
    assert.ok(Math.abs(metric.lifetimeEpsilon - nats) < 1e-9);
  }
});

for (const row of APART.usual) {
  test(`no_data apart from other: ${row.what}, ${row.secret.slice(0, 4)}`, () => {
    const sent = [];
    const parts = [...APART_METRICS.metrics.values()].filter((metric) => metric.line === row.metric);
    const visits = new Visits(parts, fromHex(row.secret), (...report) => sent.push(report), null);
    for (const [at, ...point] of row.fixes) visits.take([point], moment(at));
    visits.roll(moment(row.until));
    assert.deepEqual(sent, row.reports);
  });
}

test("no_data apart from other: responses", () => {
  for (const row of APART.responses) {
    const random = fromHex(row.random);
    const device = new MetricEncoder(APART_METRICS.metrics.get(row.metric), fromHex(row.secret), (n) => random.subarray(0, n));
    const bits = device.valueBits(row.value);
    assert.equal(device.cohort, row.cohort);
    assert.equal(toHex(bits), row.encoded_bits, `${row.metric} ${row.value}`);
    assert.equal(toHex(device.permanentBits(bits)), row.permanent_bits);
    assert.equal(device.digest(bits), row.ledger_digest);
    assert.equal(toHex(device.reportBits(bits)), row.report_bits);
  }
});

test("no_data of places: another name, a cap without a place, or a list without it is refused", () => {
  const change = (index, fields) => {
    const document = structuredClone(APART.compiled);
    const row = document.metrics[index];
    Object.assign(row.definition, fields);
    row.params_id = paramsId(row.definition);
    return document;
  };
  const filter = APART.compiled.metrics.findIndex(({ definition }) => definition.name === "filter/night/11");
  const symbol = APART.compiled.metrics.findIndex(({ definition }) => definition.name === "symbol/day/3");
  const window = APART.compiled.metrics.findIndex(({ definition }) => definition.name === "window/late/0");
  assert.ok(readMetrics(change(filter, {}), places()));
  assert.ok(readMetrics(change(symbol, {}), places()));
  const bad = [[filter, { no_data: "none" }], [filter, { no_data: "other" }], [filter, { no_data: true }],
    [filter, { max_memoized_values: 2 }], [symbol, { max_memoized_values: 2 }], [window, { no_data: undefined }]];
  for (const [index, fields] of bad) {
    const document = change(index, fields);
    if (fields.no_data === undefined && "no_data" in fields) {
      delete document.metrics[index].definition.no_data; // a bit too many for its values
      document.metrics[index].params_id = paramsId(document.metrics[index].definition);
    }
    assert.throws(() => readMetrics(document, places()), { name: "MetricsFileError" }, JSON.stringify(fields));
  }
});

test("no_data of places is sent once a slot and period, by the visits alone", async () => {
  let now = Date.parse("2026-11-02T12:00:00Z") / 1000;
  const client = await Client.open({ metrics: APART.compiled, places: places(), storage: new MemoryStorage(), consent: true,
    collector: "http://127.0.0.1:1", clock: () => now, doNotTrack: () => false, delivery: { meanDelay: 3600 },
    transport: async () => { throw new TypeError("offline"); } });
  assert.ok(await client.recordLocation("filter", 40.7128, -74.006, { ms: now * 1000, offset: 0 }));
  for (let day = 0; day < 3; day++) {
    now += 86_400;
    await client.flush(0);
  }
  assert.equal((await client.inspect()).metrics.filter.reports, 6); // two slots, three days
  await client.close();
});
