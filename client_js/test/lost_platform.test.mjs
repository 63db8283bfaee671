// What a browser does to an app: a connection lost while the page slept (firebase-js-sdk #4948, Dexie.js #613,
// localForage #581, Expensify/App #87864), a store that is gone (react-indexed-db #72), a database that never opens
// (idb-keyval #120), no room (firebase-js-sdk #5000), access refused in a frame (firebase-js-sdk #2393 and #6801,
// trezor/connect #731, ringcentral-embeddable #644).

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, openClient } from "../dist/browser.js";
import { MemoryStorage } from "../dist/index.js";
import { MemoryCollector } from "../dist/testing.js";
import { standIn } from "./stand_in_indexeddb.mjs";
import { METRICS } from "./witness.mjs";

const open = (more = {}) =>
  openClient({ metrics: METRICS, collector: "https://collector.example", consent: true, doNotTrack: () => false, delivery: { meanDelay: 3600 },
    transport: async () => { throw new TypeError("offline"); }, ...more });
const secretsOf = ({ data }) => [...data.values()].filter((document) => document?.secret);

for (const how of ["aborts", "throws", "loses what was put"]) {
  test(`a connection that is lost (${how}) is opened again, once a loss, and all that was recorded is there`, async (t) => {
    const browser = standIn(t);
    const client = await open();
    for (let loss = 1; loss <= 3; loss++) {
      assert.equal(await client.record("homepage", "a"), true);
      Object.assign(browser, { dead: browser.opens, how });
      assert.deepEqual([await client.record("homepage", "b"), client.lastRefusal, client.status.condition], [true, "", "active"]);
      assert.equal(browser.opens, loss + 1);
    }
    assert.equal((await client.inspect()).waiting, 6);
    browser.dead = browser.opens;
    assert.equal(await client.setConsent(false), true);
    assert.deepEqual(secretsOf(browser), []);
    await client.close();
    assert.equal(browser.open, 0);
  });
}

test("where every new connection is lost, too, a record is false, and true once one lives", async (t) => {
  const browser = standIn(t);
  const client = await open();
  browser.dead = Infinity;
  assert.equal(await client.record("homepage", "a"), false);
  assert.equal(browser.opens, 2);
  assert.equal(client.status.condition, "state_unavailable");
  browser.dead = 0;
  assert.equal(await client.record("homepage", "a"), true);
  await client.close();
});

test("a database whose store the browser deleted is made again", async (t) => {
  const browser = standIn(t);
  browser.hasStore = false;
  const client = await open();
  assert.equal(await client.record("homepage", "a"), true);
  await client.close();
});

test("a browser that never answers is waited for once in a minute, and used as soon as it answers", async (t) => {
  const browser = standIn(t);
  const one = await open();
  browser.isSilent = true;
  const from = performance.now();
  const recorded = Array.from({ length: 8 }, () => one.record("homepage", "a"));
  assert.ok((await Promise.all(recorded)).every((said) => !said));
  assert.equal(await one.record("homepage", "a"), false);
  const took = performance.now() - from;
  assert.ok(took > 4000 && took < 7000, `${took}`);
  assert.equal(one.status.condition, "state_unavailable");
  browser.isSilent = false;
  await new Promise((resolve) => setTimeout(resolve, 50)); // it answers what was asked
  assert.equal(await one.record("homepage", "a"), true);
  assert.equal((await one.inspect()).waiting, 1); // and nothing of what was given up
  await one.close();
});

test("a withdrawal asks a browser that was silent a moment ago", async (t) => {
  const browser = standIn(t);
  const client = await open();
  assert.ok(await client.record("homepage", "a"));
  browser.isSilent = true;
  assert.equal(await client.record("homepage", "a"), false);
  browser.isSilent = false;
  assert.equal(await client.setConsent(false), true);
  assert.deepEqual(secretsOf(browser), []);
  await client.close();
});

test("a burst that takes longer than a browser is waited for is recorded in whole", async (t) => {
  standIn(t);
  const client = await open();
  const said = await Promise.all(Array.from({ length: 2000 }, () => client.record("homepage", "a")));
  assert.deepEqual([said.filter(Boolean).length, (await client.inspect()).waiting], [2000, 2000]);
  await client.close();
});

test("no room for one more: it is false, and what was recorded is there", async (t) => {
  const browser = standIn(t);
  const client = await open();
  assert.ok(await client.record("homepage", "a"));
  browser.room = browser.data.size;
  assert.equal(await client.record("homepage", "a"), false);
  assert.match(client.status.sentence, /QuotaExceededError/);
  assert.equal((await client.inspect()).waiting, 1);
  browser.room = Infinity;
  assert.ok(await client.record("homepage", "a"));
  await client.close();
});

const refusal = () => {
  throw new DOMException("The operation is insecure.", "SecurityError");
};
const REFUSED = {
  "indexedDB cannot be read": ["indexedDB", { get: refusal }, "state_unavailable"],
  "indexedDB.open throws": ["indexedDB", { value: { open: refusal } }, "state_unavailable"],
  "there is no indexedDB": ["indexedDB", { value: undefined }, "state_unavailable"],
  "there is no BroadcastChannel": ["BroadcastChannel", { value: undefined }, "active"],
  "BroadcastChannel is refused": ["BroadcastChannel", { value: class { constructor() { refusal(); } } }, "active"],
  "locks are refused": ["navigator", { value: { locks: { request: async () => refusal() } } }, "active"],
  "there are no locks": ["navigator", { value: {} }, "active"],
  "a lock is null though it was waited for": ["navigator", { value: { locks: { request: async (name, options, act) => act(null) } } }, "active"],
  "there is no clock of the page": ["performance", { value: undefined }, "active"],
  "storage.persist is refused": ["navigator", { value: { get storage() { return refusal(); } } }, "active"],
};
for (const [word, [name, descriptor, condition]] of Object.entries(REFUSED)) {
  test(`where ${word} openClient resolves, and says what it can`, async (t) => {
    const browser = standIn(t);
    browser.put(name, descriptor);
    const sent = [];
    const client = await open({ persist: true, transport: async (request) => (sent.push(request), { status: 503, contentType: "", retryAfter: "", text: "" }) });
    const isActive = condition === "active";
    assert.equal(client.status.condition, condition);
    assert.equal(await client.record("homepage", "a"), isActive);
    assert.equal(await client.flush(0), false);
    assert.equal(sent.length, isActive && !word.includes("null") ? 1 : 0);
    assert.equal((await client.inspect()).waiting, isActive ? 1 : undefined);
    assert.equal(await client.setConsent(false), isActive);
    await client.close();
  });
}

test("what a storage of an app's own throws is the platform's trouble, not the app's mistake", async () => {
  const kept = new MemoryStorage();
  let trouble = new TypeError("commit is not a function");
  const storage = { ...["exclusive", "scrub", "close"].reduce((all, name) => ({ ...all, [name]: (...of) => kept[name](...of) }), {}),
    transaction: async (...of) => { if (trouble) throw trouble; return kept.transaction(...of); } };
  const client = await Client.open({ metrics: METRICS, storage, collector: "https://c.example", consent: true, doNotTrack: () => false, delivery: { meanDelay: 3600 } });
  assert.equal(client.status.condition, "state_unavailable");
  assert.equal(await client.record("homepage", "a"), false);
  assert.equal(await client.setConsent(false), false);
  trouble = undefined;
  assert.equal(await client.setConsent(true), true);
  assert.ok(await client.record("homepage", "a"));
  await client.close();
});

test("a request whose reading was lost is not begun twice at once: its batch is sent again, and counted once", async (t) => {
  const browser = standIn(t);
  const collector = new MemoryCollector();
  let begun = 0;
  const client = await open({ delivery: { meanDelay: 3600, firstPause: 0.001 }, transport: (request) => {
    if (++begun === 1) Object.assign(browser, { dead: browser.opens, how: "loses what was put" });
    return collector.transport(request);
  } });
  assert.ok(await client.record("homepage", "a"));
  assert.deepEqual([await client.flush(0), begun], [false, 1]);
  assert.deepEqual([await client.flush(5), begun, collector.duplicates], [true, 2, 1]);
  assert.deepEqual([collector.counted(), (await client.inspect()).waiting], [{ homepage: 1 }, 0]);
  await client.close();
});
