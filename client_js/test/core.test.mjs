// The core against the vectors in tests/vectors/v1: every one that concerns a client.

import assert from "node:assert/strict";
import { sha256 } from "../dist/core/sha256.js";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { readResponse } from "../dist/core/answers.js";
import { BINARY_TYPE, encodeBinary, gzipPadded } from "../dist/core/batch.js";
import { encodeJson, JSON_TYPE } from "../dist/core/batch_json.js";
import { fromHex, toBase64, toHex, utf8 } from "../dist/core/bytes.js";
import { coinPair } from "../dist/core/coins.js";
import { addRun, countReport, countsOf, isFull } from "../dist/core/counts.js";
import { dayOf, periodNumber } from "../dist/core/days.js";
import { decodeBatch } from "../dist/core/decode.js";
import { cohortOf, derive, keyedInput, secretCheck } from "../dist/core/derive.js";
import { MetricEncoder } from "../dist/core/device.js";
import { canonical, md5Positions, mmh3Positions, murmur3, normalize } from "../dist/core/hashing.js";
import { budgetOf, LEVELS, newLine, pinBudget, promiseOf, weakerThan } from "../dist/core/ledger.js";
import { readMetrics } from "../dist/core/reading.js";
import { epsilonN } from "../dist/core/privacy.js";
import { Recorder } from "../dist/core/recorder.js";
import { newDevice } from "../dist/core/state.js";
import { valueBits } from "../dist/core/values.js";
import { Documents, vectors } from "./vectors.mjs";

const COMPILED = vectors("compiled");
const DEVICE = vectors("device");
const compiled = (name) => readMetrics(COMPILED.good[name].document);

test("hashing: normal form, MurmurHash3 and positions", () => {
  for (const row of vectors("hashing")) {
    const data = normalize(row.value);
    assert.equal(toHex(data), row.normalised);
    const hex = (half) => (half >>> 0).toString(16).padStart(8, "0");
    const [low, high] = murmur3(data).map(({ high, low }) => hex(high) + hex(low));
    assert.deepEqual([low, high], [row.mmh3_low, row.mmh3_high]);
    for (const c of row.positions) {
      const positions = c.hash === "mmh3" ? mmh3Positions : md5Positions;
      assert.deepEqual(positions(data, c.cohort, c.num_bits, c.num_hashes), c.positions);
    }
  }
});

test("a lone surrogate is refused, and a string of 2,049 characters", () => {
  assert.throws(() => normalize("a\ud800"), { name: "ValueRefusedError" });
  const homepage = compiled("metrics").metrics.get("homepage");
  valueBits(homepage, "\u{1f600}".repeat(2048), 0);
  assert.throws(() => valueBits(homepage, "\u{1f600}".repeat(2049), 0), { name: "ValueRefusedError" });
});

test("compiled metrics: params_id and promises are recomputed", () => {
  for (const [name, { document, promises }] of Object.entries(COMPILED.good)) {
    if (name === "places") continue;
    const { metrics } = readMetrics(JSON.stringify(document));
    for (const [metric, nats] of Object.entries(promises)) {
      const { epsilonInfinity, epsilonPerReport, lifetimeEpsilon } = metrics.get(metric);
      const mine = [epsilonInfinity, epsilonPerReport, lifetimeEpsilon];
      const wanted = [nats.epsilon_infinity, nats.epsilon_one, nats.lifetime_epsilon];
      mine.forEach((value, i) => assert.ok(Math.abs(value - wanted[i]) < 1e-9 || value === (wanted[i] ?? Infinity)));
    }
  }
  const { expected } = vectors("metrics");
  for (const [name, metric] of compiled("metrics").metrics) {
    assert.equal(metric.paramsId, expected[name].params_id);
    assert.ok(Math.abs(epsilonN(metric.definition.params, 30) - expected[name].epsilon_30) < 1e-9);
  }
});

for (const { name, document } of COMPILED.bad) {
  test(`compiled metrics that are refused: ${name}`, () => {
    assert.throws(() => readMetrics(document), { name: "MetricsFileError" });
  });
}

test("compiled metrics with places are refused without the part for places", () => {
  assert.throws(() => readMetrics(COMPILED.good.places.document), /places/);
});

test("derivations, checks of secrets, cohorts", () => {
  for (const row of DEVICE.derivations) {
    const [secret, fields] = [fromHex(row.secret), row.fields.map(fromHex)];
    assert.equal(toHex(keyedInput(secret, row.purpose, fields)), row.input);
    assert.equal(toHex(derive(secret, row.purpose, fields, row.output.length / 2)), row.output);
  }
  for (const row of DEVICE.secret_checks) assert.equal(toHex(secretCheck(fromHex(row.secret))), row.check);
  for (const row of DEVICE.cohorts) assert.equal(cohortOf(fromHex(row.secret), row.metric, row.num_cohorts), row.cohort);
});

test("coins", () => {
  for (const row of DEVICE.coins) {
    const coin = coinPair(row.if_one, row.if_zero, row.num_bits);
    assert.equal(coin.numBytes, row.random.length / 2);
    assert.equal(toHex(coin.toss(fromHex(row.bits), fromHex(row.random))), row.result);
  }
});

test("reports: every step from the value to the wire", () => {
  const { metrics } = compiled("metrics");
  for (const row of DEVICE.reports) {
    const random = fromHex(row.random);
    const device = new MetricEncoder(metrics.get(row.metric), fromHex(row.secret), (n) => random.subarray(0, n));
    const bits = device.valueBits(row.value);
    assert.deepEqual([device.metric.paramsId, device.cohort], [row.params_id, row.cohort]);
    assert.equal(toHex(bits), row.bloom_bits);
    assert.equal(toHex(device.permanentBits(bits)), row.permanent_bits);
    assert.equal(device.digest(bits), row.ledger_digest);
    assert.equal(toHex(device.reportBits(bits)), row.report_bits);
  }
});

test("periods", () => {
  for (const row of DEVICE.periods) assert.equal(periodNumber(row.period, dayOf(row.day)), row.number);
});

const zeros = (n) => new Uint8Array(n);

const consented = (secret) => {
  const documents = new Documents();
  documents.all.set("device", { ...newDevice(), secret, check: toHex(secretCheck(fromHex(secret))) });
  return documents;
};

const bare = (outcome) => (outcome.startsWith("closed") ? "closed" : outcome);

test("the ledger's decisions", () => {
  const script = DEVICE.ledger;
  const documents = consented(script.secret);
  const recorder = new Recorder(compiled("ledger"), LEVELS.standard, zeros);
  for (const { metric, value, day, outcome } of script.operations) {
    const mine = documents.run((store) => recorder.record(store, metric, value, dayOf(day)));
    assert.equal(bare(mine), outcome, `${metric} ${value} ${day}`);
  }
});

for (const life of DEVICE.lives.lives) {
  test(`a life over versions: ${life.name}`, () => {
    const documents = consented(DEVICE.lives.secret);
    const device = (change) =>
      documents.run((store) => {
        const found = store.get("device");
        change?.(found);
        store.put("device", found);
        return found;
      });
    let recorder;
    for (const step of life.steps) {
      if ("open" in step) {
        recorder = new Recorder(compiled(`lives/${step.open}`), LEVELS.standard, zeros);
        device((found) => pinBudget(found, recorder.metrics.budget));
      } else if ("consent" in step) {
        device((found) => (found.budget = step.consent));
      } else {
        const outcome = documents.run((store) => recorder.record(store, step.metric, step.value, dayOf(step.day)));
        assert.equal(bare(outcome), step.outcome, JSON.stringify(step));
      }
      assert.equal(budgetOf(device(), recorder.metrics.budget, LEVELS.standard), step.budget ?? Infinity);
    }
  });
}

test("which limit is weaker", () => {
  const [metric] = compiled("metrics").metrics.values();
  for (const { first, then, weaker } of DEVICE.lives.weaker) {
    const promise = ([period, number]) => ({ ...promiseOf(metric), period, reports_per_period: number });
    assert.equal(Boolean(weakerThan(promise(then), promise(first))), weaker);
  }
});

test("a metric may bear the name of something that every object has", () => {
  const document = structuredClone(COMPILED.good.ledger.document);
  document.metrics[0].definition.name = "constructor";
  const recorder = new Recorder(readMetrics(document), LEVELS.standard, zeros);
  const documents = consented(DEVICE.ledger.secret);
  const act = () => documents.run((store) => recorder.record(store, "constructor", "x", 20_000));
  assert.deepEqual([act(), act(), act()], ["queued", "queued", "full"]);
});

test("the person's level tightens the caps", () => {
  const recorder = new Recorder(compiled("ledger"), LEVELS.strict, zeros);
  const documents = consented(DEVICE.ledger.secret);
  const day = (n) => documents.run((store) => recorder.record(store, "page", `v${n}`, 20_000 + 7 * n));
  assert.deepEqual([day(0), day(0), day(1)], ["queued", "full", "queued_fallback"]);
});

test("periods far from the present are used up, not forgotten", () => {
  const metric = compiled("metrics").metrics.get("homepage");
  const line = newLine(metric);
  for (let day = 20_000; day < 20_300; day++) countReport(metric, line, day);
  const counts = countsOf(line, "homepage", "day");
  assert.ok(Object.keys(counts.periods).length <= 96);
  for (let day = 20_000; day < 20_300; day++) assert.ok(isFull(metric, line, day, 1));
  assert.ok(!isFull(metric, line, 20_300, 1));
  for (let run = 0; run < 600; run++) addRun(counts, 30_000 + 3 * run, 30_000 + 3 * run);
  assert.ok(counts.used.length <= 256);
  for (let run = 0; run < 600; run++) assert.ok(isFull(metric, line, 30_000 + 3 * run, 1));
});

test("no_data fills the periods that are over and took nothing", () => {
  const document = structuredClone(COMPILED.good.metrics.document);
  document.budget = null;
  const { definition } = document.metrics.find((row) => row.definition.name === "homepage");
  Object.assign(definition, { no_data: "none", max_memoized_values: 4, accept_days: 3 });
  const recorder = new Recorder(readMetrics(document), LEVELS.standard, zeros);
  const documents = consented(DEVICE.ledger.secret);
  const fill = (day) => documents.run((store) => recorder.fillPeriods(store, "homepage", day));
  assert.equal(fill(20_000), 0); // never used: silence reveals nothing
  documents.run((store) => recorder.record(store, "homepage", "x", 20_000));
  assert.deepEqual([fill(20_000), fill(20_001), fill(20_003), fill(20_003), fill(20_010)], [0, 0, 2, 0, 3]);
});

test("batches, both forms, both ways", () => {
  for (const { json, binary } of vectors("batches")) {
    const batch = decodeBatch(utf8(json), JSON_TYPE);
    assert.deepEqual(decodeBatch(fromHex(binary), BINARY_TYPE), batch);
    assert.equal(new TextDecoder().decode(encodeJson(batch.id, batch.reports)), json);
    assert.equal(toHex(encodeBinary(batch.id, batch.reports)), binary);
  }
});

for (const { name, content_type: type, body } of vectors("bad_batches")) {
  test(`a body that is refused: ${name}, ${type}`, () => {
    assert.throws(() => decodeBatch(fromHex(body), type), { name: "WireFormatError" });
  });
}

test("padding is gzip that any reader takes", () => {
  for (const size of [0, 1, 255, 256, 65_535, 65_536, 200_000]) {
    const data = Uint8Array.from({ length: size }, (_, i) => i * 7);
    for (const padTo of [1, 256, 4096]) {
      const body = gzipPadded(data, padTo);
      assert.equal(body.length % padTo, 0);
      assert.ok(size === 0 || Buffer.from(data).equals(gunzipSync(body)));
    }
  }
});

const answer = (fields, extra = {}) => ({ status: 200, contentType: "application/json", retryAfter: "", text: JSON.stringify(fields), ...extra });
const SENT = Uint8Array.of(1, 2, 3);
const problem = (status, extra = {}) =>
  answer({ type: "urn:rappor-telemetry:problem:x", status, body_sha256: toHex(sha256(SENT)) }, { status, contentType: "application/problem+json", ...extra });

test("answers: what is final, tried again, and given up", () => {
  const id = "0".repeat(32);
  const good = { version: 1, batch_id: id, duplicate: true, results: [{ status: "accepted" }, { status: "refused", reason: "day_closed" }] };
  const read = (response) => readResponse(response, id, 2, 0, SENT);
  assert.deepEqual(read(answer(good)), { kind: "answered", results: ["", "day_closed"] });
  for (const strange of [{}, [], null, { ...good, version: 2 }, { ...good, batch_id: "1" }, { ...good, results: [] },
    { ...good, results: [{ status: "accepted" }, null] }, { ...good, results: [{}, { status: "refused" }] }]) {
    assert.equal(read(answer(strange)).kind, "again");
  }
  assert.equal(read(answer(good, { text: "<html>" })).reason, "strange_answer");
  assert.deepEqual(read(problem(413)), { kind: "large", final: true });
  assert.deepEqual(read(problem(413, { contentType: "text/html" })), { kind: "large", final: false });
  for (const status of [400, 409, 415, 422]) {
    assert.deepEqual(read(problem(status)), { kind: "never", reason: `http_${status}` });
    assert.equal(read(problem(status, { contentType: "text/html" })).kind, "again");
    assert.equal(read({ ...problem(status), text: '{"type":"urn:other","status":400}' }).kind, "again");
  }
  for (const status of [302, 401, 403, 404, 408, 425, 429, 500, 503]) assert.equal(read(problem(status)).kind, "again");
  assert.equal(read(problem(503, { retryAfter: "120" })).wait, 120);
  assert.equal(read(problem(401, { retryAfter: "120" })).wait, 0);
  assert.equal(read(problem(429, { retryAfter: new Date(60_000).toUTCString() })).wait, 60);
});

test("one_hot of an unknown category is refused without its name", () => {
  const theme = compiled("metrics").metrics.get("theme");
  assert.equal(canonical("cafe\u0301"), "café");
  assert.equal(toHex(valueBits(theme, "cafe\u0301", 0)), "04");
  assert.throws(() => valueBits(theme, "secret-value", 0), (error) => !error.message.includes("secret-value"));
  assert.throws(() => valueBits(theme, ["light"], 0), { name: "ValueRefusedError" });
  assert.equal(toBase64(Uint8Array.of(0, 255)), "AP8=");
});
