// Pairs against the vectors in tests/vectors/v1/pairs.json.

import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "../dist/core/bytes.js";
import { paramsId } from "../dist/core/params_id.js";
import { readMetrics } from "../dist/core/reading.js";
import { Client, MemoryStorage } from "../dist/index.js";
import { pairs } from "../dist/pairs.js";
import { vectors } from "./vectors.mjs";

const { compiled: DOCUMENT, values: VALUES, refused: REFUSED } = vectors("pairs");
const read = (document) => readMetrics(document, undefined, [pairs()]);
const METRICS = read(DOCUMENT).metrics;
const encoder = (name, cohort) => pairs().encoder(METRICS.get(name), cohort);
const wide = (bits) => bits.reduceRight((sum, byte) => sum * 256 + byte, 0);

test("values and their bits in each cohort", () => {
  for (const { metric, value, bits } of VALUES) {
    bits.forEach((wanted, cohort) => assert.equal(wide(encoder(metric, cohort)(value)), wanted, JSON.stringify(value)));
  }
});

test("values that are refused, without the value", () => {
  for (const { metric, value } of REFUSED) {
    assert.throws(() => encoder(metric, 0)(value), (error) => error.name === "ValueRefusedError" && !error.message.includes("'z'"), JSON.stringify(value));
  }
  assert.throws(() => encoder("listed", 0)(["x".repeat(9000), true]), { name: "ValueRefusedError" });
});

test("compiled metrics of pairs that are refused", () => {
  const change = (path, value) => {
    const document = structuredClone(DOCUMENT);
    const keys = path.split(".");
    const { definition } = document.metrics[0];
    const last = keys.pop();
    keys.reduce((object, key) => object[key], definition)[last] = value;
    document.metrics[0].params_id = paramsId(definition);
    return document;
  };
  const bad = {
    fallback: "a", no_data: "a|true", "details.of": ["first"], "details.extra": 1, "details.values": [["a", "b"]],
    "details.of.1": "first", "details.values.0": ["a"], "details.values.1": [true, 1], "params.num_bits": 7, "params.encoding": "boolean",
  };
  for (const [path, value] of Object.entries(bad)) assert.throws(() => read(change(path, value)), { name: "MetricsFileError", code: "metrics_file" }, path);
  for (const list of [["a", "a", "b"], ["a", "b|c", "d"], ["a", " ", "b"], ["a", true, "b"], ["cafe\u0301", "a", "b"]]) {
    assert.throws(() => read(change("details.values.0", list)), { name: "MetricsFileError" }, String(list));
  }
  assert.throws(() => readMetrics(DOCUMENT), { code: "metric_kind" });
});

test("a list that the app changes after it recorded is another value", async () => {
  const day = { now: 20_500 };
  const client = await Client.open({ metrics: DOCUMENT, kinds: [pairs()], storage: new MemoryStorage(), consent: true, collector: "http://127.0.0.1:1",
    clock: () => day.now * 86_400 + 43_200, doNotTrack: () => false, delivery: { meanDelay: 3600 }, transport: async () => { throw new TypeError("offline"); } });
  const values = async () => (await client.inspect()).metrics.listed.values;
  const value = ["a", false];
  assert.ok(await client.record("listed", value)); // the fallback: its place is taken with that of no_data
  assert.equal(await values(), 2);
  day.now += 1;
  value[1] = true;
  assert.ok(await client.record("listed", value));
  assert.equal(await values(), 3);
  day.now += 4; // three days without anything: no_data, by itself
  await client.flush(0);
  const { metrics } = await client.inspect();
  assert.equal(metrics.listed.reports, 5);
  assert.equal(await client.add("listed", 1), false);
  await client.close();
});

test("without a fallback every pair is memoized at first", () => {
  const document = structuredClone(DOCUMENT);
  const { definition } = document.metrics[0];
  Object.assign(definition, { fallback: null, max_memoized_values: 6 });
  delete definition.no_data;
  const metric = read(document).metrics.get("listed");
  assert.equal(new Set(pairs().values(definition).map((value) => toHex(pairs().encoder(metric, 0)(value)))).size, 6);
  definition.max_memoized_values = 5;
  assert.throws(() => read(document), /fallback is missing/);
});
