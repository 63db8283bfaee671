// AsyncStorage and fetch as phones and pages have them: a store that never answers (react-native #14101,
// async-storage #694), a row that can be written and not read (async-storage's 2 MB of Android), a quota of requests
// that outlive their page (faro-web-sdk #1898, opentelemetry-js #6391), answers without streams (react-native).

import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient } from "../dist/react_native.js";
import { MemoryCollector } from "../dist/testing.js";
import { METRICS } from "./witness.mjs";

const never = () => new Promise(() => undefined);
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** AsyncStorage that does what is asked, late, or not at all. */
const texts = () => {
  const kept = new Map();
  const store = {
    kept, reads: 0, hold: undefined,
    getItem: async (key) => (store.reads++, store.isSilent ? never() : kept.get(key)), // undefined, where others say null
    setItem: async (key, text) => {
      if (store.hold) await store.hold;
      kept.set(key, text);
    },
    removeItem: async (key) => void kept.delete(key),
  }; // prettier-ignore
  return store;
};
const open = (asyncStorage, more = {}) =>
  openClient({ metrics: METRICS, asyncStorage, collector: "https://c.example", consent: true, doNotTrack: () => false, delivery: { meanDelay: 3600, firstPause: 0.001, longestPause: 0.002 },
    transport: async () => { throw new TypeError("Network request failed"); }, ...more });

test("a store that never answers is waited for once in a minute, and asked for a withdrawal", { timeout: 30_000 }, async () => {
  const store = texts();
  store.isSilent = true;
  const from = performance.now();
  const client = await open(store);
  assert.equal(client.status.condition, "state_unavailable");
  for (let i = 0; i < 5; i++) assert.equal(await client.record("homepage", "a"), false);
  assert.ok(performance.now() - from < 8000, `${performance.now() - from}`);
  store.isSilent = false;
  assert.equal(await client.setConsent(false), true);
  assert.equal(await client.setConsent(true), true);
  assert.ok(await client.record("homepage", "a"));
  await client.close();
});

test("a write that hangs is never overtaken: a secret that was wiped does not come back", { timeout: 30_000 }, async () => {
  const store = texts();
  const client = await open(store);
  assert.ok(await client.record("homepage", "a"));
  let release;
  store.hold = new Promise((resolve) => (release = resolve));
  assert.equal(await client.record("homepage", "b"), false);
  store.hold = undefined;
  assert.equal(await client.setConsent(false), false); // what hangs would be written after it
  release();
  await wait(20);
  assert.equal(await client.setConsent(false), true);
  assert.doesNotMatch([...store.kept.values()].join(), /[0-9a-f]{64}/);
  await client.close();
});

test("what is written can be read again, whatever the size of its reports: past that a record is false", async () => {
  const store = texts();
  const { getItem } = store;
  store.getItem = async (key) => {
    if (store.kept.get(key)?.length > 2_000_000) throw new Error("Row too big to fit into CursorWindow");
    return getItem(key);
  };
  store.kept.set("rappor-telemetry", JSON.stringify([["other", JSON.stringify({ text: "x".repeat(1_890_000) })]]));
  const client = await open(store);
  const said = [];
  while (said.at(-1) !== false) said.push(await client.record("homepage", "a"));
  assert.ok(said.length > 5);
  assert.match(client.status.sentence, /no room/);
  const again = await open(store);
  assert.equal((await again.inspect()).waiting, said.length - 1);
  assert.equal(await again.setConsent(false), true);
  await again.close();
});

test("after a failure a request does without keepalive, whose quota other scripts may have used up", async (t) => {
  const { fetch } = globalThis;
  t.after(() => (globalThis.fetch = fetch));
  const collector = new MemoryCollector();
  const asked = [];
  globalThis.fetch = async (_, { body, headers, keepalive }) => {
    asked.push(keepalive);
    if (keepalive) throw new TypeError("Failed to fetch");
    const { status, contentType, text } = await collector.transport({ body, contentType: headers["Content-Type"], encoding: headers["Content-Encoding"] ?? "" });
    const body_ = { slice: () => undefined }; // a Blob, as fetch of React Native has it: no stream
    return { status, headers: new Headers({ "Content-Type": contentType }), body: body_, text: async () => text };
  };
  const client = await open(texts(), { transport: undefined });
  for (let i = 0; i < 2; i++) {
    assert.ok(await client.record("homepage", "a"));
    assert.equal(await client.flush(5), true);
  }
  assert.deepEqual([asked, collector.reports.length], [[true, false, true, false], 2]);
  await client.close();
});
