// Coded prefixes against the vectors in tests/vectors/v1/discover.json.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fromHex, toHex } from "../dist/core/bytes.js";
import { MetricEncoder } from "../dist/core/device.js";
import { paramsId } from "../dist/core/params_id.js";
import { readMetrics } from "../dist/core/reading.js";
import { discover } from "../dist/discover.js";
import { coderOf } from "../dist/discover/code.js";
import { domains } from "../dist/domains.js";
import { vectors } from "./vectors.mjs";

const VECTORS = vectors("discover");
const DOCUMENT = { version: 1, budget: null, metrics: VECTORS.definitions.map((definition) => ({ params_id: paramsId(definition), definition })) };
const read = (document, part = discover({ domains })) => readMetrics(document, undefined, [part]);
const METRICS = read(DOCUMENT).metrics;
const TEXTS = { domains: domains.text, letters: VECTORS.definitions[1].details.code_table };
const utf8 = (text) => new TextEncoder().encode(text.normalize("NFC"));
const asBits = (bytes) => [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");

test("the table that ships is the one of the Python package, and has the digest of the vectors", () => {
  const file = new URL("../../rappor_core/codes/tables/domains.json", import.meta.url);
  assert.equal(domains.text, readFileSync(file, "utf8").trimEnd());
  assert.equal(domains.sha256, VECTORS.tables.domains);
  assert.equal(VECTORS.definitions[1].details.code_sha256, VECTORS.tables.letters);
});

test("codes: END included, zeros after it", () => {
  for (const { table, value, num_bits: size, bits } of VECTORS.codes) {
    const coder = coderOf(TEXTS[table]);
    assert.equal(bits.length, size);
    assert.equal(asBits(coder(utf8(value), size)).slice(0, size), bits, `${table} ${value}`);
    assert.equal(asBits(coder(utf8(value), size + 9)), bits.padEnd((size + 16) & ~7, "0"));
    if (size > 5) assert.equal(asBits(coder(utf8(value), 5)), bits.slice(0, 5).padEnd(8, "0"));
  }
});

test("positions by cohort", () => {
  for (const { metric: name, value, cohort, position } of VECTORS.positions) {
    const bits = discover({ domains }).encoder(METRICS.get(name), cohort)(value);
    assert.deepEqual([...bits].flatMap((byte, i) => (byte ? [8 * i + 31 - Math.clz32(byte)] : [])), [position], `${name} ${value} ${cohort}`);
  }
});

test("reports: every step from the value to the wire", () => {
  for (const row of VECTORS.reports) {
    const random = fromHex(row.random);
    const device = new MetricEncoder(METRICS.get(row.metric), fromHex(row.secret), (n) => random.subarray(0, n));
    const bits = device.valueBits(row.value);
    assert.deepEqual([device.metric.paramsId, device.cohort], [row.params_id, row.cohort]);
    assert.equal(toHex(bits), row.bloom_bits);
    assert.equal(device.digest(bits), row.ledger_digest);
    assert.equal(toHex(device.reportBits(bits)), row.report_bits);
  }
});

test("values that are refused", () => {
  const device = new MetricEncoder(METRICS.get("site"), new Uint8Array(32), () => new Uint8Array());
  for (const wrong of [1, null, ["a"], "\ud800", "x".repeat(2049)]) assert.throws(() => device.valueBits(wrong), { name: "ValueRefusedError" });
  device.valueBits("x".repeat(2048));
});

test("the table is needed by metrics of the package's code alone, and no other is taken for it", async () => {
  const [site, letters] = DOCUMENT.metrics.map((row) => ({ ...DOCUMENT, metrics: [row] }));
  const [shipped, { discover: shippedPart }] = await Promise.all([import("../dist/production/index.js"), import("../dist/production/discover.js")]);
  const { digestOf } = await import("../dist/core/seal.js");
  const sealed = (document) => ({ ...document, digest: digestOf(document) });
  for (const [reading, part] of [[readMetrics, discover], [shipped.readMetrics, shippedPart]]) {
    assert.equal(reading(sealed(letters), undefined, [part()]).metrics.size, 1);
    assert.equal(reading(sealed(site), undefined, [part({ domains })]).metrics.size, 1);
    for (const other of [undefined, { ...domains, sha256: "0".repeat(64) }]) {
      assert.throws(() => reading(sealed(site), undefined, [part(other && { domains: other })]), { name: "MetricsFileError", code: "code_missing" });
    }
    assert.throws(() => reading(sealed(site)), { name: "MetricsFileError", code: "metric_kind" });
  }
});

test("compiled metrics of coded prefixes that are refused", () => {
  const table = JSON.parse(TEXTS.letters);
  const text = (change) => JSON.stringify(Object.fromEntries(Object.entries({ ...table, ...change }).sort(([a], [b]) => (a < b ? -1 : 1))));
  const bad = [
    {}, { code_table: 1 }, { code_table: "{" }, { code_table: text({ version: 2 }) }, { code_table: text({ order: 4 }) }, { code_table: text({ name: "a b" }) },
    { code_table: text({ symbols: "6161" }) }, { code_table: text({ symbols: "6" }) }, { code_table: text({ lower_case: true }) },
    { code_table: text({ contexts: { "": "424444444444" } }) }, { code_table: text({ contexts: { "61": "424444444434" } }) },
    { code_table: text({ extra: 1 }) }, { code_table: ` ${TEXTS.letters}` }, { code_sha256: "0".repeat(64) }, { code: "others" },
    { num_levels: 9 }, { num_levels: 2.5 }, { bits_per_level: 3 }, { num_levels: 8 }, { extra: 1 },
  ];
  for (const change of bad.slice(1)) {
    const document = structuredClone({ ...DOCUMENT, metrics: DOCUMENT.metrics.slice(1) });
    const row = document.metrics[0];
    Object.assign(row.definition.details, change);
    row.params_id = paramsId(row.definition); // of its own, so that it is the rule that refuses
    assert.throws(() => read(document), { name: "MetricsFileError", code: "metrics_file" }, JSON.stringify(change).slice(0, 200));
  }
  const params = [{ num_cohorts: 6 }, { num_bits: 8 }, { hash: "md5", num_bits: 100 }, { encoding: "bloom" }];
  for (const change of params) {
    const document = structuredClone({ ...DOCUMENT, metrics: DOCUMENT.metrics.slice(1) });
    Object.assign(document.metrics[0].definition.params, change);
    assert.throws(() => read(document), { name: "MetricsFileError" }, JSON.stringify(change));
  }
  const repeated = structuredClone({ ...DOCUMENT, metrics: DOCUMENT.metrics.slice(0, 1) });
  repeated.metrics[0].definition.max_reports = 2;
  assert.throws(() => read(repeated), /repeat/);
});
