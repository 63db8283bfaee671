// The build that an app ships: no texts, metrics known by their digest, the same reports and state.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as development from "../dist/index.js";
import * as production from "../dist/production/index.js";
import { decodeBatch } from "../dist/core/decode.js";
import { readMetrics } from "../dist/core/reading.js";
import { digestOf } from "../dist/core/seal.js";
import { gunzipSync } from "node:zlib";
import { fromHex, toHex } from "../dist/core/bytes.js";
import { secretCheck } from "../dist/core/derive.js";
import { newDevice } from "../dist/core/state.js";
import { places as developmentPlaces } from "../dist/places.js";
import { places } from "../dist/production/places.js";
import { vectors } from "./vectors.mjs";

const { good } = vectors("compiled");
const sealed = (document) => ({ ...document, digest: digestOf(document) });
const METRICS = sealed(good.metrics.document);

const opened = (build, more = {}) =>
  build.Client.open({ metrics: METRICS, storage: new build.MemoryStorage(), collector: "http://127.0.0.1:1",
    consent: true, doNotTrack: () => false, delivery: { meanDelay: 3600 }, transport: async () => { throw new TypeError("offline"); }, ...more });

test("digests are those of the vectors", () => {
  const { compiled, odd } = vectors("digests");
  for (const [name, digest] of Object.entries(compiled)) assert.equal(digestOf(good[name].document), digest, name);
  for (const { document, digest } of odd) assert.equal(digestOf(document), digest);
});

test("the production build reads every compiled file that the development build reads", () => {
  for (const { document } of Object.values(good)) {
    const read = production.readMetrics(sealed(document), places());
    assert.deepEqual(read, readMetrics(document, developmentPlaces()));
    assert.deepEqual(read, readMetrics(JSON.stringify(sealed(document)), developmentPlaces()));
  }
});

test("what was changed after it was compiled, or has no digest, is refused by both builds", () => {
  const changed = structuredClone(METRICS);
  changed.metrics[0].definition.max_memoized_values += 1;
  for (const { readMetrics: read } of [development, production]) {
    assert.throws(() => read(changed), { name: "MetricsFileError", code: "not_sealed" });
    assert.throws(() => read({ ...METRICS, digest: "" }), { code: "not_sealed" });
  }
  for (const bad of [null, 1, [], {}, good.metrics.document, { ...METRICS, version: 2 }, { ...METRICS, budget: 1e9 }]) {
    assert.throws(() => production.readMetrics(bad), { name: "MetricsFileError", code: "not_sealed" });
  }
  assert.throws(() => production.readMetrics("{"), { code: "not_json" });
  const other = sealed({ ...METRICS, metrics: [{ params_id: "0", definition: { name: "n", kind: "number" } }] });
  assert.throws(() => production.readMetrics(other), { code: "metric_kind" });
  assert.throws(() => production.readMetrics(sealed(good.places.document)), { code: "places_missing" });
});

/** A store that holds one device with a secret, and what is in it. */
const storeOf = ({ TextStorage }, secret) => {
  const device = { ...newDevice(), secret, check: toHex(secretCheck(fromHex(secret))) };
  const kept = { text: JSON.stringify([["device", JSON.stringify(device)]]) };
  return { kept, storage: new TextStorage(async () => kept.text, async (text) => void (kept.text = text)) };
};

test("reports by the vectors, from values to the bytes on the wire", async () => {
  for (const build of [production, development]) {
    for (const row of vectors("device").reports) {
      let next;
      let drawn = 0;
      const randomness = (size) => {
        const given = next ?? new Uint8Array(size).fill(++drawn);
        next = undefined;
        return given.subarray(0, size);
      };
      const sent = [];
      const transport = async ({ body, contentType, encoding }) => {
        sent.push(...decodeBatch(new Uint8Array(encoding ? gunzipSync(body) : body), contentType).reports);
        throw new TypeError("no answer");
      };
      const { storage } = storeOf(build, row.secret);
      const client = await opened(build, { storage, randomness, transport, platform: "app" });
      next = fromHex(row.random);
      assert.ok(await client.record(row.metric, row.value), client.lastRefusal);
      await client.flush(0);
      await client.close();
      const report = sent.find(({ metric }) => metric === row.metric);
      assert.equal(Buffer.from(report.bits, "base64").toString("hex"), row.report_bits);
      assert.deepEqual([report.cohort, report.params_id], [row.cohort, row.params_id]);
    }
  }
});

test("each build goes on with the state that the other wrote", async () => {
  const secret = "0f".repeat(32);
  for (const [first, second] of [[development, production], [production, development]]) {
    const { kept, storage } = storeOf(first, secret);
    const one = await opened(first, { storage });
    assert.ok(await one.record("homepage", "x"));
    const before = await one.inspect();
    await one.close();
    const two = await opened(second, { storage: new second.TextStorage(async () => kept.text, async (text) => void (kept.text = text)) });
    const after = await two.inspect();
    for (const key of ["budget", "waiting", "counters", "metrics"]) assert.deepEqual(after[key], before[key]);
    assert.equal(await two.record("homepage", "x"), false); // one a period
    assert.match(two.lastRefusal, second === production ? /^full homepage$/ : /homepage: has all the reports/);
    await two.setConsent(false);
    assert.ok(!kept.text.includes(secret));
    await two.close();
  }
});

test("messages are codes, errors keep their names, and no value is in them", async () => {
  await assert.rejects(opened(production, { consent: "yes" }), { name: "ParameterError", code: "consent_unsaid", message: "consent_unsaid" });
  await assert.rejects(opened(production, { privacyLevel: { maxValues: NaN } }), { code: "privacy_level" });
  await assert.rejects(opened(production, { collector: "http://a.example", key: "k" }), { code: "key_over_http" });
  const client = await opened(production, { development: true });
  assert.equal(client.status.sentence, "active");
  await assert.rejects(client.record("homepage", 12345), { name: "ValueRefusedError", code: "value_type", message: "value_type homepage string" });
  await assert.rejects(client.record("theme", "a secret"), ({ message }) => message === "value_category theme");
  await assert.rejects(client.record("nothing", ""), { code: "metric_unknown" });
  await client.close();
});
