// The web profile: where a metric may run, by the vectors.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LEVELS } from "../dist/core/ledger.js";
import { readMetrics } from "../dist/core/reading.js";
import { Recorder } from "../dist/core/recorder.js";
import { newDevice } from "../dist/core/state.js";
import { places } from "../dist/places.js";
import { Client, FileStorage, MemoryStorage } from "../dist/node.js";
import { IndexedDbStorage } from "../dist/browser.js";
import { Documents, vectors } from "./vectors.mjs";

const { document, promises, budget_needed: needed, bad } = vectors("platforms");

test("platforms and lives are read strictly, and the budget holds over all lives", () => {
  const { metrics } = readMetrics(document);
  for (const [name, { lifetime_epsilon: nats }] of Object.entries(promises)) {
    const { lifetimeEpsilon, platforms, definition } = metrics.get(name);
    assert.deepEqual([...platforms], Object.keys(nats));
    for (const platform of platforms) {
      const factor = platform === "web" ? definition.lives : 1;
      assert.ok(Math.abs(lifetimeEpsilon * factor - nats[platform]) < 1e-9);
    }
  }
  const most = Math.max(...Object.values(needed));
  readMetrics({ ...document, budget: most });
  assert.throws(() => readMetrics({ ...document, budget: most - 0.001 }), /budget/);
  for (const { name, document: wrong } of bad) assert.throws(() => readMetrics(wrong), { name: "MetricsFileError" }, name);
});

test("a client of each platform records what is declared for it, and stores nothing of the rest", () => {
  const read = readMetrics(document);
  for (const platform of ["app", "web"]) {
    const documents = new Documents();
    documents.all.set("device", { ...newDevice(), secret: "07".repeat(32) });
    const recorder = new Recorder(read, LEVELS.standard, (n) => new Uint8Array(n), platform);
    for (const [name, { recorded }] of Object.entries(promises)) {
      const outcome = documents.run((store) => recorder.record(store, name, "yes", 20_000));
      assert.equal(outcome, recorded[platform] ? "queued" : "elsewhere", `${name} ${platform}`);
      assert.equal(documents.all.has(`line/${name}`), recorded[platform]);
    }
  }
});

test("the storage says the platform; where it does not, documents mean a browser", async () => {
  assert.deepEqual([new IndexedDbStorage().platform, new IndexedDbStorage("x", "app").platform], ["web", "app"]);
  assert.equal(new FileStorage("nowhere").platform, "app");
  const open = (storage) => Client.open({ metrics: document, storage, consent: true, collector: "http://127.0.0.1:1",
    doNotTrack: () => false, development: true, transport: async () => { throw new TypeError("offline"); } });
  const recorded = async (storage) => {
    const client = await open(storage);
    const said = [await client.record("answer", "yes"), await client.record("disk", "x")];
    await client.close();
    return said;
  };
  assert.deepEqual(await recorded(new MemoryStorage()), [false, true]);
  globalThis.document = {};
  assert.deepEqual(await recorded(new MemoryStorage()), [true, false]);
  delete globalThis.document;
});

test("no fix is kept for a place that is not declared for the platform", async () => {
  const places_ = structuredClone(vectors("places").metrics.compiled ?? vectors("compiled").good.places.document);
  for (const { definition } of places_.metrics) Object.assign(definition, { platforms: ["web"], lives: 1, max_reports: definition.max_reports ?? 3 });
  const client = await Client.open({ metrics: places_, places: places(), storage: new MemoryStorage(), consent: true,
    collector: "http://127.0.0.1:1", doNotTrack: () => false });
  const name = places_.metrics[0].definition.name.split("/")[0];
  assert.equal(await client.recordLocation(name, 40.7, -74), false);
  assert.match(client.lastRefusal, /not declared for this platform/);
  assert.deepEqual((await client.inspect()).metrics, {});
  await client.close();
});
