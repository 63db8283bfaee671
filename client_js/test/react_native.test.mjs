// The adapter for React Native, over a stand-in for AsyncStorage, and what its engine lacks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient } from "../dist/production/react_native.js";
import { digestOf } from "../dist/core/seal.js";
import { vectors } from "./vectors.mjs";

const DOCUMENT = structuredClone(vectors("compiled").good.metrics.document);
for (const { definition } of DOCUMENT.metrics) definition.max_reports_per_period = 10_000;
DOCUMENT.digest = digestOf(DOCUMENT);

/** As AsyncStorage does: texts by name, each call later; `fails` makes all of them reject. */
class Texts {
  kept = new Map();
  fails = false;

  async later(act) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (this.fails) throw new Error("database or disk is full");
    return act();
  }

  getItem = (name) => this.later(() => this.kept.get(name) ?? null);
  setItem = (name, text) => this.later(() => void this.kept.set(name, text));
  removeItem = (name) => this.later(() => void this.kept.delete(name));
}

const open = (asyncStorage, more = {}) =>
  openClient({ metrics: DOCUMENT, asyncStorage, collector: "https://collector.example", consent: true,
    doNotTrack: () => false, delivery: { meanDelay: 3600 }, transport: async () => { throw new TypeError("Network request failed"); }, ...more });

test("what was acknowledged is there when the app starts again", async () => {
  const texts = new Texts();
  const one = await open(texts);
  assert.deepEqual(await Promise.all(Array.from({ length: 30 }, () => one.record("homepage", "x"))), Array(30).fill(true));
  // killed: no close
  const two = await open(texts);
  const told = await two.inspect();
  assert.deepEqual([told.waiting, told.metrics.homepage.reports, two.status.condition], [30, 30, "active"]);
  assert.equal(await two.flush(0), false);
  assert.match(two.lastError, /^no_connection/);
  await two.setConsent(false);
  assert.doesNotMatch(texts.kept.get("rappor-telemetry"), /[0-9a-f]{64}/);
  await two.close();
});

test("a full store never reaches the app; damage is told, and reset starts over", async () => {
  const texts = new Texts();
  const client = await open(texts);
  texts.fails = true;
  assert.equal(await client.record("homepage", "x"), false);
  assert.equal(client.status.condition, "state_unavailable");
  texts.fails = false;
  assert.ok(await client.record("homepage", "x"));
  await client.close();
  texts.kept.set("rappor-telemetry", "[[");
  const damaged = await open(texts);
  assert.equal(damaged.status.condition, "state_corrupt");
  assert.equal(await damaged.record("homepage", "x"), false);
  await damaged.reset();
  assert.ok(await damaged.record("homepage", "x"));
  await damaged.close();
});

test("it runs with what the engine has: no URL, no streams, no generator but the one that is passed", async () => {
  const { URL: url, crypto, fetch } = globalThis;
  const lacks = { URL: undefined, crypto: undefined, navigator: { product: "ReactNative" } };
  const asked = [];
  const answer = async (address, { headers }) => {
    asked.push([address, headers["Content-Type"]]);
    return { status: 503, headers: new Headers(), text: async () => "" };
  };
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  try {
    for (const [name, value] of Object.entries({ ...lacks, fetch: answer })) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    await assert.rejects(open(new Texts()), { code: "no_randomness" });
    let state = 1;
    const randomness = (size) => Uint8Array.from({ length: size }, () => (state = (state * 48271) % 2147483647) & 255); // a stand-in
    const client = await open(new Texts(), { randomness, transport: undefined });
    assert.ok(await client.record("homepage", "x"));
    assert.equal(await client.flush(0), false);
    assert.equal(client.lastError, "http_503");
    assert.deepEqual(asked, [["https://collector.example/v1/reports", "application/vnd.rappor.batch"]]);
    await client.close();
  } finally {
    for (const [name, value] of Object.entries({ URL: url, crypto, fetch })) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    if (before) Object.defineProperty(globalThis, "navigator", before);
    else delete globalThis.navigator;
  }
});

test("what waits is bounded by what Android reads of one name", async () => {
  const texts = new Texts();
  const client = await open(texts);
  for (let i = 0; i < 60; i++) await Promise.all(Array.from({ length: 50 }, () => client.record("homepage", "x")));
  await client.flush(0);
  assert.equal((await client.inspect()).waiting <= 2000, true);
  assert.ok(texts.kept.get("rappor-telemetry").length < 1_500_000, `${texts.kept.get("rappor-telemetry").length}`);
  await client.close();
});
