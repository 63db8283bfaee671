// Withdrawal of consent over states that cannot be read or written: no secret stays in the files.

import assert from "node:assert/strict";
import fs, { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client, FileStorage, openClient, TextStorage } from "../dist/node.js";
import { vectors } from "./vectors.mjs";

const { document: metrics } = vectors("platforms");
const OPTIONS = { metrics, consent: true, collector: "http://127.0.0.1:1", doNotTrack: () => false, delivery: { meanDelay: 3600 },
  transport: async () => { throw new TypeError("offline"); } };

const folder = (t) => {
  const root = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  return join(root, "state");
};
const open = (stateDir, more = {}) => openClient({ ...OPTIONS, stateDir, ...more });
const everything = (stateDir) => Buffer.concat(readdirSync(stateDir).map((name) => readFileSync(join(stateDir, name)))).toString("latin1");
const secretIn = (text) => /secret\\?":\\?"([0-9a-f]{64})/.exec(text)[1];

test("whatever bit of the journal is flipped, nothing is thrown and no secret stays", async (t) => {
  const stateDir = folder(t);
  const first = await open(stateDir);
  for (const value of ["a", "b"]) assert.ok(await first.record(value === "a" ? "disk" : "page", value));
  await first.close();
  const files = Object.fromEntries(readdirSync(stateDir).map((name) => [name, readFileSync(join(stateDir, name))]));
  const secret = secretIn(everything(stateDir));
  let drawn = 12345;
  const random = (below) => (drawn = (drawn * 1103515245 + 12345) % 2 ** 31) % below;
  const seen = {};
  for (let flip = 0; flip < 200; flip++) {
    for (const [name, bytes] of Object.entries(files)) writeFileSync(join(stateDir, name), bytes);
    const name = "state.journal";
    const bytes = Buffer.from(files[name]);
    bytes[random(bytes.length)] ^= 1 << random(8);
    writeFileSync(join(stateDir, name), bytes);
    const client = await open(stateDir);
    seen[client.status.condition] = (seen[client.status.condition] ?? 0) + 1;
    await client.record("disk", "c");
    await client.inspect();
    await client.setConsent(false);
    assert.deepEqual(client.status, { condition: "no_consent", sentence: "nothing is recorded: the person does not consent" });
    assert.ok(!everything(stateDir).includes(secret.slice(0, 16)), `flip ${flip} of ${name}`);
    await client.close();
  }
  t.diagnostic(JSON.stringify(seen));
  assert.ok(seen.state_corrupt > 100, JSON.stringify(seen));
});

test("a state that had to be deleted starts over by reset alone", async (t) => {
  const stateDir = folder(t);
  await (await open(stateDir)).close();
  writeFileSync(join(stateDir, "state.journal"), "x\n");
  const client = await open(stateDir, { consent: false });
  assert.deepEqual(readdirSync(stateDir), ["state.witness"]);
  await client.setConsent(true);
  assert.equal(client.status.condition, "state_missing");
  await client.reset();
  assert.ok(await client.record("disk", "a"));
  await client.close();
});

test("on a full disk no secret stays", async (t) => {
  const stateDir = folder(t);
  const client = await open(stateDir);
  assert.ok(await client.record("disk", "a"));
  const secret = secretIn(everything(stateDir));
  const whole = fs.writeSync;
  fs.writeSync = () => assert.fail("ENOSPC");
  syncBuiltinESMExports();
  try {
    assert.equal(await client.record("page", "a"), false);
    await client.setConsent(false);
  } finally {
    fs.writeSync = whole;
    syncBuiltinESMExports();
  }
  assert.equal(client.status.sentence, "nothing is recorded: the person does not consent");
  assert.ok(!everything(stateDir).includes(secret.slice(0, 16)));
  await client.close();
});

test("while another has the state a withdrawal says that it is not done, and is tried again", async (t) => {
  const stateDir = folder(t);
  const one = await open(stateDir);
  assert.ok(await one.record("disk", "a"));
  const secret = secretIn(everything(stateDir));
  const two = await open(stateDir);
  assert.equal(await two.setConsent(false), false);
  assert.equal(two.status.condition, "no_consent");
  assert.match(two.status.sentence, /could not be wiped yet: another process uses the state/);
  assert.ok(everything(stateDir).includes(secret)); // it is the other's, who looks at its next step
  assert.equal(await one.flush(1), false);
  assert.ok(!everything(stateDir).includes(secret));
  assert.equal(one.status.condition, "no_consent");
  assert.equal(await one.record("page", "a"), false);
  assert.deepEqual(readdirSync(stateDir).sort(), ["state.journal", "state.lock", "state.witness"]);
  await one.close();
  assert.equal(await two.record("disk", "b"), false);
  assert.equal(two.status.sentence, "nothing is recorded: the person does not consent");
  assert.ok(!everything(stateDir).includes(secret));
  assert.equal(await two.setConsent(true), true); // the numbers are still there
  assert.equal((await two.inspect()).metrics.disk.reports, 1);
  await two.close();
});

test("a text that is damaged is replaced, and starts over by reset alone", async () => {
  let kept = null;
  const storage = () => new TextStorage(async () => kept, async (text) => void (kept = text), "app");
  const client = await Client.open({ ...OPTIONS, storage: storage() });
  assert.ok(await client.record("disk", "a"));
  const secret = secretIn(kept);
  await client.close();
  kept = kept.slice(1);
  const again = await Client.open({ ...OPTIONS, storage: storage() });
  assert.equal(again.status.condition, "state_corrupt");
  await again.setConsent(false);
  assert.ok(!kept.includes(secret));
  await again.setConsent(true);
  assert.equal(again.status.condition, "state_corrupt");
  await again.reset(async () => void (kept = null));
  assert.ok(await again.record("disk", "a"));
  await again.close();
});

test("a withdrawal that another process noted is finished at the next start, and sends nothing before it", async (t) => {
  const stateDir = folder(t);
  const one = await open(stateDir);
  assert.ok(await one.record("disk", "a"));
  const secret = secretIn(everything(stateDir));
  const two = await open(stateDir);
  assert.equal(await two.setConsent(false), false);
  await two.close();
  await one.close(); // without another step
  assert.ok(everything(stateDir).includes(secret));
  for (const consent of [false, true]) {
    const sent = [];
    const next = await open(stateDir, { consent, transport: async (request) => void sent.push(request) });
    assert.ok(!everything(stateDir).includes(secret));
    await next.flush(0);
    assert.deepEqual([sent.length, next.status.condition], [0, consent ? "active" : "no_consent"]);
    if (!consent) writeFileSync(join(stateDir, "state.withdrawal"), ""); // as of a process that was killed then
    await next.close();
  }
  const last = await open(stateDir);
  assert.equal((await last.inspect()).metrics.disk.reports, 1);
  assert.ok(await last.record("page", "a"));
  assert.equal(await last.setConsent(false), true);
  assert.deepEqual(await Promise.all([last.setConsent(false), last.setConsent(true)]), [true, true]);
  await last.close();
});
