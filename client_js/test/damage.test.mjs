// Documents that are damaged: a withdrawal ends in a wiped store, and what is whole is still sent.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, StateError, TextStorage } from "../dist/node.js";
import { numbers } from "../dist/numbers.js";
import { places } from "../dist/places.js";
import { startWitness, METRICS } from "./witness.mjs";
import { vectors } from "./vectors.mjs";

/** A store of one text, and its documents as a map. */
const store = () => {
  const kept = { text: null };
  return {
    kept,
    open: () => new TextStorage(async () => kept.text, async (text) => void (kept.text = text), "app"),
    change: (act) => {
      const documents = new Map(JSON.parse(kept.text).map(([key, text]) => [key, JSON.parse(text)]));
      act(documents);
      kept.text = JSON.stringify([...documents].map(([key, document]) => [key, JSON.stringify(document)]));
    },
  };
};

const open = (storage, collector = "http://127.0.0.1:1", more = {}) =>
  Client.open({ metrics: METRICS, storage, collector, consent: true, doNotTrack: () => false, ...more,
    delivery: { meanDelay: 3600, batchReports: 2, firstPause: 0.001, ...more.delivery } });

/** The store of a device that has recorded one value. */
const used = async () => {
  const first = store();
  const one = await open(first.open());
  assert.ok(await one.record("homepage", "x"));
  await one.close();
  const { text } = first.kept;
  return { ...first, text, secret: /[0-9a-f]{64}/.exec(text)[0] };
};

/** A client of such a text, in which one document is another. */
const openedWith = async (text, key, document) => {
  const { kept, open: opened, change } = store();
  kept.text = text;
  change((documents) => documents.set(key, document));
  return { kept, client: await open(opened()) };
};

const LINES = [null, {}, [], "x", 7, { agreed: null }];
const FIELDS = ["agreed", "entries", "counts", "life", "pastValues", "pastCost", "pastSpent", "pastReports"];
const damaged = (line) => [
  ...LINES,
  ...FIELDS.slice(0, 5).map((field) => ({ ...line, [field]: undefined })),
  ...FIELDS.map((field) => ({ ...line, [field]: "x" })),
  { ...line, entries: { a: null } },
  { ...line, entries: { a: { params: null, cost: 1, reports: 1 } } },
  { ...line, counts: { homepage: {} } },
  { ...line, counts: { homepage: { unit: "day", periods: { 1: "x" }, used: [] } } },
  { ...line, agreed: { ...line.agreed, max_reports: undefined } },
  { ...line, note: 3 },
];

test("a line that is damaged closes its metric, and a withdrawal wipes all the same", async () => {
  const { text, secret } = await used();
  const whole = JSON.parse(new Map(JSON.parse(text)).get("line/homepage"));
  for (const line of damaged(whole)) {
    const { kept, client } = await openedWith(text, "line/homepage", line);
    assert.equal(client.status.condition, "active");
    assert.equal(await client.record("homepage", "y"), false, JSON.stringify(line));
    assert.match(client.lastRefusal, /what the ledger knew of it is damaged/, JSON.stringify(line));
    assert.equal((await client.inspect()).metrics.homepage, "damaged");
    await client.setConsent(false);
    assert.equal(client.status.sentence, "nothing is recorded: the person does not consent");
    assert.ok(!kept.text.includes(secret) && !kept.text.includes("queue/"), JSON.stringify(line));
    await client.setConsent(true); // the metric stays closed: what it told is not known
    assert.equal(await client.record("homepage", "y"), false);
    await client.close();
  }
});

test("a device that is damaged is used no more, and a withdrawal wipes it", async () => {
  const { text, secret } = await used();
  const device = JSON.parse(new Map(JSON.parse(text)).get("device"));
  for (const wrong of [null, {}, "x", [], { ...device, committed: null }, { ...device, counters: { a: null } }, { ...device, next: "1" }, { ...device, version: 2 }]) {
    const { kept, client } = await openedWith(text, "device", wrong);
    assert.equal(client.status.condition, "state_corrupt", JSON.stringify(wrong));
    assert.equal(await client.record("homepage", "x"), false);
    await client.setConsent(false);
    assert.equal(client.status.condition, "no_consent");
    assert.ok(!kept.text.includes(secret) && !kept.text.includes("queue/"), JSON.stringify(wrong));
    await client.setConsent(true);
    assert.equal(client.status.condition, "state_corrupt"); // and only reset starts over
    await client.close();
  }
});

test("status answers whatever is stored of a failure", async () => {
  const first = await used();
  for (const failing of [{}, 5, { since: 1e300, why: "x" }, { since: -1e300 }, { since: "x", why: 3 }]) {
    first.change((documents) => Object.assign(documents.get("device"), { failing }));
    const client = await open(first.open());
    assert.ok(await client.record("homepage", "x"));
    assert.match(client.status.sentence, /not delivered since/, JSON.stringify(failing));
    assert.equal((await client.inspect()).status.condition, "not_delivered");
    await client.close();
  }
});

test("a text that is no document is damage, not an absence", async () => {
  const { kept, open: opened } = store();
  const one = await open(opened());
  await one.record("homepage", "x");
  await one.close();
  const [secret] = /[0-9a-f]{64}/.exec(kept.text);
  kept.text = JSON.stringify(JSON.parse(kept.text).map(([key, document]) => [key, key === "device" ? document.slice(1) : document]));
  const client = await open(opened());
  assert.equal(client.status.condition, "state_corrupt");
  await client.setConsent(false);
  assert.ok(!kept.text.includes(secret));
  await client.close();
});

test("what is damaged of the queue is dropped and counted, and the rest is delivered", async (t) => {
  const witness = await startWitness(t);
  for (const key of ["queue/", "batch/"]) {
    for (const wrong of [null, {}, "x", [], { metric: "homepage" }, (document) => ({ ...document, bits: "%", body: "%" }),
      (document) => ({ ...document, day: "x", reports: [{}] }), (document) => ({ ...document, params_id: null, metrics: ["a"] })]) {
      const { open: opened, change } = store();
      const offline = await open(opened(), "http://127.0.0.1:1", { transport: async () => { throw new TypeError("offline"); } });
      for (let i = 0; i < 6; i++) assert.ok(await offline.record("homepage", "x"));
      if (key === "batch/") await offline.flush(0);
      await offline.close();
      change((documents) => {
        const [name, document] = [...documents].find(([one]) => one.startsWith(key));
        documents.set(name, typeof wrong === "function" ? wrong(document) : wrong);
      });
      const client = await open(opened(), witness.url);
      assert.equal(await client.flush(5), false, String(wrong)); // not all of it was delivered
      assert.ok(await client.flush(5));
      const { counters, batches } = await client.inspect();
      const lost = 6 - counters["accepted:homepage"];
      assert.ok(lost === (key === "batch/" ? 2 : 1) && counters["dropped:damaged"] >= 1, `${key} ${JSON.stringify(wrong)} ${JSON.stringify(counters)}`);
      assert.equal(batches, 0);
      await client.close();
    }
  }
});

test("a transaction that fails shows in lastError, and sending goes on when it does not", async (t) => {
  const witness = await startWitness(t);
  const storage = store().open();
  const client = await open(storage, witness.url);
  await client.record("homepage", "x");
  const { transaction } = storage;
  storage.transaction = async () => { throw new StateError("state_unavailable", "storage_refused", "busy"); };
  assert.equal(await client.flush(0), false);
  assert.match(client.lastError, /^state: StateError: the state cannot be used: busy$/);
  storage.transaction = transaction;
  assert.ok(await client.flush(5));
  assert.equal(client.lastError, "");
  await client.close();
});

test("what a part kept is damaged: the client opens, and the other metrics go on", async () => {
  const cases = [[vectors("compiled").good.places.document, { places: places() }], [vectors("numbers").metrics.document, { kinds: [numbers()] }]];
  for (const [metrics, more] of cases) {
    const { open: opened, change } = store();
    const name = metrics.metrics[0].definition.name.split("/")[0];
    const record = (client) => (more.places ? client.recordLocation(name, 40.7, -74) : client.record(name, 3));
    const one = await open(opened(), undefined, { metrics, ...more });
    await record(one);
    await one.close();
    change((documents) => documents.has(`line/${name}`) && documents.set(`line/${name}`, { ...documents.get(`line/${name}`), note: "{" }));
    const client = await open(opened(), undefined, { metrics, ...more });
    assert.equal(client.status.condition, "active");
    assert.equal(typeof await record(client), "boolean");
    await client.setConsent(false);
    assert.equal(client.status.condition, "no_consent");
    await client.close();
  }
});
