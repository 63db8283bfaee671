// The state in Chromium: damaged documents, a disk that takes nothing, a browser that never answers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { skip, start } from "./parties.mjs";
import { METRICS } from "./witness.mjs";

const documents = (page, act) =>
  page.evaluate(
    (source) =>
      new Promise((resolve) => {
        indexedDB.open("rappor-telemetry").onsuccess = ({ target: { result: database } }) => {
          const running = database.transaction("documents", "readwrite");
          const store = running.objectStore("documents");
          new Function("store", source)(store);
          const [keys, values] = [store.getAllKeys(), store.getAll()];
          running.oncomplete = () => (database.close(), resolve(keys.result.map((key, i) => [key, values.result[i]])));
        };
      }),
    act,
  );

test("a withdrawal over damaged documents ends in a wiped database; the rest of a queue is sent", { skip }, async (t) => {
  const { witness, tab } = await start(t);
  const page = await tab();
  await page.evaluate(() => act("record", 4));
  const before = await documents(page, `store.put({}, "line/other"); store.put(null, "queue/000000000000000"); store.put({ id: 1 }, "batch/x")`);
  const { secret } = before.find(([key]) => key === "device")[1];
  assert.equal(await page.evaluate(() => act("flush", 10)), false);
  assert.ok(await page.evaluate(() => act("flush", 10)));
  assert.equal(witness.bodies, 3);
  await page.evaluate(() => act("record", 1));
  await documents(page, `store.put({ agreed: null }, "line/homepage")`);
  await page.evaluate(() => act("consent", false));
  const after = await documents(page, "");
  assert.deepEqual(after.map(([key]) => key).sort(), ["device", "line/homepage", "line/other"]);
  assert.ok(!JSON.stringify(after).includes(secret));
  assert.equal(await page.evaluate(() => act("condition")), "no_consent");
});

test("where IndexedDB takes no write a withdrawal deletes the database, and only reset starts over", { skip }, async (t) => {
  const { tab } = await start(t);
  const [page, other] = [await tab(), await tab()]; // the other tab closes what is to be deleted
  await page.evaluate(() => act("record", 1));
  const names = await page.evaluate(async () => {
    const { put } = IDBObjectStore.prototype;
    IDBObjectStore.prototype.put = () => { throw new DOMException("", "QuotaExceededError"); };
    await act("consent", false);
    const found = (await indexedDB.databases()).map(({ name }) => name);
    IDBObjectStore.prototype.put = put;
    return found;
  });
  assert.deepEqual(names, ["rappor-telemetry"]);
  assert.deepEqual(await documents(page, ""), []);
  assert.deepEqual(await Promise.all([page, other].map((one) => one.evaluate(() => act("condition")))), ["no_consent", "no_consent"]);
  assert.equal(await page.evaluate(() => client.status.sentence), "no_consent"); // wiped, and the code says no more
  await documents(page, `store.put({}, "device")`); // what a database that takes the mark holds
  assert.equal(await page.evaluate(async () => (await act("consent", true), act("condition"))), "state_corrupt");
  await page.evaluate(() => client.reset());
  await page.evaluate(() => act("record", 1));
  assert.equal(await page.evaluate(() => act("condition")), "active");
});

test("a browser that never answers does not hold the app up", { skip }, async (t) => {
  const { tab } = await start(t);
  const page = await tab();
  const said = await page.evaluate(async (metrics) => {
    const never = new Promise(() => undefined);
    navigator.storage.persist = () => never;
    const opened = await act("open", metrics, { persist: true, database: "a" });
    await client.record("homepage", "x");
    const { open } = IDBFactory.prototype;
    IDBFactory.prototype.open = () => ({});
    const from = performance.now();
    const late = await act("open", metrics, { database: "b" });
    const took = performance.now() - from;
    IDBFactory.prototype.open = open;
    const recorded = await client.record("homepage", "x");
    return [opened, late, took < 20_000, recorded, client.status.condition];
  }, METRICS);
  assert.deepEqual(said, ["active", "state_unavailable", true, true, "active"]);
});

test("a transaction that never ends is given up", { skip }, async (t) => {
  const { tab } = await start(t);
  const [page, other] = [await tab(), await tab()];
  await other.evaluate(() => { // holds the store as long as it is not told to let go
    indexedDB.open("rappor-telemetry").onsuccess = ({ target: { result: database } }) => {
      const store = database.transaction("documents", "readwrite").objectStore("documents");
      const turn = () => void (window.letGo || (store.get("x").onsuccess = turn));
      turn();
      window.held = true;
    };
  });
  await other.waitForFunction("window.held");
  assert.equal(await page.evaluate(() => client.record("homepage", "x")), false);
  assert.equal(await page.evaluate(() => act("condition")), "state_unavailable");
  await other.evaluate(() => void (window.letGo = true));
  assert.equal(await page.evaluate(() => client.record("homepage", "x")), true);
  assert.equal(await page.evaluate(() => act("condition")), "active");
});

test("Global Privacy Control and Do Not Track win over consent", { skip }, async (t) => {
  const { tab } = await start(t);
  const page = await tab();
  const said = await page.evaluate(async (metrics) => {
    const open = async (name, value) => {
      Object.defineProperty(Navigator.prototype, name, { value, configurable: true });
      const condition = await act("open", metrics, { database: name, doNotTrack: undefined });
      const told = [condition, await client.record("homepage", "x"), (await client.inspect()).waiting ?? 0];
      if (value !== false) told.push(await client.flush(1));
      delete Navigator.prototype[name];
      return told;
    };
    return [await open("globalPrivacyControl", true), await open("doNotTrack", "1"), await open("globalPrivacyControl", false)];
  }, METRICS);
  assert.deepEqual(said, [["do_not_track", false, 0, false], ["do_not_track", false, 0, false], ["active", true, 1]]);
});
