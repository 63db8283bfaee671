// What was kept of a period leaves every byte of the journal when the period is over.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as later } from "node:timers/promises";
import { test } from "node:test";
import { Client, FileStorage } from "../dist/node.js";
import { numbers } from "../dist/numbers.js";
import { places } from "../dist/places.js";
import { vectors } from "./vectors.mjs";

const DAY = 86_400;
const START = 1_795_305_600; // noon of 2026-11-22
const NUMBER = "31234567";
const [place] = vectors("places_turns").compiled.metrics.filter(({ definition }) => definition.name === "memoised/day/0");
const [number] = vectors("numbers").metrics.document.metrics.filter(({ definition }) => ["last", "max", "sum"].includes(definition.details.of_period));
const METRICS = { version: 1, budget: null, metrics: [place, number] };
const NAME = number.definition.name;

/** A client in a directory of its own, with a clock; it sends nothing. */
const start = async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const device = { now: START, folder };
  device.open = (directory = folder) => Client.open({ metrics: METRICS, storage: new FileStorage(directory), collector: "http://127.0.0.1:9", consent: true,
    doNotTrack: () => false, clock: () => device.now, places: places(), kinds: [numbers()], delivery: { meanDelay: 604_800 } });
  device.bytes = (directory = folder) => readdirSync(directory).map((name) => readFileSync(join(directory, name), "utf8")).join();
  return device;
};

/** Fixes and a number of a day; what the journal then holds of them. */
const spend = async (device, client) => {
  assert.ok(await client.recordLocation("memoised", 1.5, 1.5), client.lastRefusal);
  assert.ok(await client.record(NAME, Number(NUMBER)), client.lastRefusal);
  assert.deepEqual(traces(device.bytes()), [1, 1]);
};
const traces = (bytes) => [bytes.split(`${START}`).length - 1 && 1, bytes.includes(NUMBER) ? 1 : 0]; // the time of a fix

test("a period that is over is scrubbed from the journal", async (t) => {
  const device = await start(t);
  const client = await device.open();
  await spend(device, client);
  device.now += 8 * DAY + 1;
  assert.ok(await client.recordLocation("memoised", 3.5, 3.5));
  await later(50);
  assert.deepEqual(traces(device.bytes()), [0, 0]);
  assert.ok((await client.inspect()).waiting > 0);
  await client.close();
});

test("a client that is closed at once has scrubbed, and one that was killed leaves it to the next", async (t) => {
  const device = await start(t);
  const client = await device.open();
  await spend(device, client);
  device.now += 8 * DAY + 1;
  assert.ok(await client.recordLocation("memoised", 3.5, 3.5));
  const killed = join(device.folder, "..", `${device.folder}-killed`);
  t.after(() => rmSync(killed, { recursive: true, force: true }));
  cpSync(device.folder, killed, { recursive: true });
  rmSync(join(killed, "state.lock"));
  await client.close();
  assert.deepEqual(traces(device.bytes()), [0, 0]);
  assert.notDeepEqual(traces(device.bytes(killed)), [0, 0]);
  const next = await device.open(killed);
  assert.ok(await next.recordLocation("memoised", 3.5, 3.5), next.status.sentence);
  await later(50);
  assert.deepEqual(traces(device.bytes(killed)), [0, 0]);
  await next.close();
});
