// Files put back from a copy, and a kill between the two writes: nothing is redrawn or spent again.

import assert from "node:assert/strict";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openClient } from "../dist/node.js";
import { vectors } from "./vectors.mjs";

const { document } = vectors("platforms");
const [JOURNAL, GUARD] = ["state.journal", "state.guard"];

const begin = (t) => {
  const root = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const stateDir = join(root, "state");
  let day = 20_000;
  return {
    at: (name) => join(stateDir, name),
    copy: join(root, "copy"),
    stateDir,
    nextDay: () => day++,
    open: () =>
      openClient({ metrics: document, stateDir, consent: true, collector: "http://127.0.0.1:1", doNotTrack: () => false,
        clock: () => day * 86_400, delivery: { meanDelay: 3600 }, transport: async () => { throw new TypeError("offline"); } }),
  };
};

const secretIn = (text) => /[0-9a-f]{64}/.exec(text)[0];

test("a journal put back from a copy is refused until a reset, and its secret is not used", async (t) => {
  const { at, copy, open } = begin(t);
  const one = await open();
  cpSync(at(JOURNAL), copy);
  assert.ok(await one.record("disk", "a")); // a new value: what a copy would forget
  await one.close();
  const newest = readFileSync(at(JOURNAL));
  cpSync(copy, at(JOURNAL));
  const two = await open();
  assert.equal(two.status.condition, "state_rolled_back");
  assert.equal(await two.record("disk", "b"), false);
  assert.match(two.lastRefusal, /older than the guard/);
  assert.deepEqual(readFileSync(at(JOURNAL)), readFileSync(copy)); // nothing was written to it
  writeFileSync(at(JOURNAL), newest); // the newest again: all is well by itself
  assert.ok(await two.setConsent(true).then(() => two.status.condition === "active"));
  await two.close();
  cpSync(copy, at(JOURNAL));
  const three = await open();
  await three.reset();
  assert.equal(three.status.condition, "active");
  assert.notEqual(secretIn(readFileSync(at(JOURNAL), "utf8")), secretIn(newest.toString()));
  await three.close();
});

test("reports that left are not forgotten by a copy made before them", async (t) => {
  const { at, copy, nextDay, open } = begin(t);
  const one = await open();
  assert.ok(await one.record("page", "a"));
  cpSync(at(JOURNAL), copy);
  nextDay();
  assert.ok(await one.record("page", "a")); // known: no durable write of its own
  await one.flush(0); // but composing a batch is one
  await one.close();
  cpSync(copy, at(JOURNAL));
  assert.equal((await open()).status.condition, "state_rolled_back");
});

test("a journal that is missing, or of another installation, is noticed; a guard that is, is made anew", async (t) => {
  const { at, stateDir, open } = begin(t);
  await (await open()).close();
  const mine = readFileSync(at(JOURNAL));
  rmSync(at(JOURNAL));
  assert.equal((await open()).status.condition, "state_rolled_back");
  assert.ok(!existsSync(at("state.lock")));
  rmSync(stateDir, { recursive: true });
  await (await open()).close();
  const [journal, guard] = [readFileSync(at(JOURNAL)), readFileSync(at(GUARD))];
  writeFileSync(at(JOURNAL), mine);
  assert.equal((await open()).status.condition, "state_rolled_back");
  writeFileSync(at(JOURNAL), journal);
  for (const spoil of [() => rmSync(at(GUARD)), () => writeFileSync(at(GUARD), "{")]) {
    spoil();
    const client = await open();
    assert.equal(client.status.condition, "active");
    assert.deepEqual(readFileSync(at(GUARD)), guard);
    await client.close();
  }
});

test("a journal of an earlier version, without a guard, goes on", async (t) => {
  const { at, open } = begin(t);
  const one = await open();
  assert.ok(await one.record("disk", "a"));
  await one.close();
  const lines = readFileSync(at(JOURNAL), "utf8").split("\n").slice(0, -1);
  const { createHash } = await import("node:crypto");
  const old = lines.map((line) => {
    const body = JSON.stringify(JSON.parse(line.slice(17)).filter(([key]) => key !== "generation"));
    return `${createHash("sha256").update(body).digest("hex").slice(0, 16)} ${body}\n`;
  });
  writeFileSync(at(JOURNAL), old.join(""));
  rmSync(at(GUARD));
  const two = await open();
  assert.equal((await two.inspect()).metrics.disk.values, 2);
  assert.ok(await two.record("page", "b"));
  await two.close();
  assert.equal(JSON.parse(readFileSync(at(GUARD), "utf8")).generation, 1);
});

test("a kill between the write of the journal and that of the guard costs nothing", async (t) => {
  const { at, open, nextDay } = begin(t);
  const one = await open();
  const before = readFileSync(at(GUARD));
  assert.ok(await one.record("disk", "a"));
  await one.close();
  const after = readFileSync(at(GUARD), "utf8");
  writeFileSync(at(GUARD), before); // as if killed after the journal was written
  writeFileSync(`${at(GUARD)}.next`, '{"version":1,"gen'); // and half a guard beside it
  const two = await open();
  assert.equal(two.status.condition, "active");
  assert.equal(readFileSync(at(GUARD), "utf8"), after);
  nextDay();
  assert.ok(await two.record("disk", "a"));
  assert.equal((await two.inspect()).metrics.disk.values, 2); // nothing was drawn anew
  await two.close();
});

test("consent withdrawn and given again is no rollback", async (t) => {
  const { at, open } = begin(t);
  const one = await open();
  await one.record("disk", "a");
  await one.setConsent(false);
  await one.close();
  assert.equal(JSON.parse(readFileSync(at(GUARD), "utf8")).check, "");
  const two = await open();
  assert.equal(two.status.condition, "active");
  await two.close();
});
