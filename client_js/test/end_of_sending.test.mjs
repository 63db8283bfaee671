// Nothing leaves once a withdrawal has resolved, whatever was being done: Node and real HTTP.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client, FileStorage, MemoryStorage } from "../dist/node.js";
import { METRICS, startWitness } from "./witness.mjs";

const MOMENTS = Number(process.env.RAPPOR_TEST_MOMENTS ?? 100);

const open = (collector, more = {}) =>
  Client.open({ metrics: METRICS, storage: new MemoryStorage(), collector, consent: true, doNotTrack: () => false, ...more,
    delivery: { meanDelay: 3600, batchReports: 1, firstPause: 0.001, longestPause: 0.01, ...more.delivery } });

const fill = async (client, reports = 5) => {
  for (let i = 0; i < reports; i++) assert.ok(await client.record("homepage", "x"), client.lastRefusal);
};

/** A server that takes connections and answers nothing. */
const startSilent = async (t) => {
  const pieces = [];
  const silent = { connections: 0, said: () => pieces };
  const server = createServer((socket) => {
    silent.connections++;
    server.emit("taken");
    socket.on("error", () => undefined).on("close", () => server.emit("ended"));
    socket.on("data", (data) => (pieces.push(data), server.emit("asked")));
    t.after(() => socket.destroy());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  return Object.assign(silent, { server, port: server.address().port });
};

const WAYS = {
  flush: { delivery: {}, begin: (client) => client.flush(20) },
  "the random delay": { delivery: { meanDelay: 0 }, begin: () => undefined },
};
const ENDS = {
  setConsent: { condition: "no_consent", end: (client) => client.setConsent(false) },
  close: { condition: "closed", end: (client) => client.close() },
};

for (const [way, { delivery, begin }] of Object.entries(WAYS)) {
  for (const [word, { condition, end }] of Object.entries(ENDS)) {
    test(`${word} while ${way} is connecting has it send no request`, async (t) => {
      const silent = await startSilent(t);
      const client = await open(`https://127.0.0.1:${silent.port}`, { delivery });
      const taken = once(silent.server, "taken");
      await fill(client);
      const flushed = begin(client);
      await taken;
      await end(client);
      assert.equal(client.status.condition, condition);
      assert.ok((await flushed) !== true);
      assert.equal(silent.connections, 1);
      assert.ok(silent.said().every((data) => data[0] === 22)); // a handshake: nothing of a request
    });

    test(`${word} while ${way} waits for an answer ends the exchange`, async (t) => {
      const silent = await startSilent(t);
      const client = await open(`http://127.0.0.1:${silent.port}`, { delivery });
      const asked = once(silent.server, "asked");
      await fill(client);
      const flushed = begin(client);
      await asked;
      const ended = once(silent.server, "ended");
      await end(client);
      assert.equal(client.status.condition, condition);
      const before = silent.said().length;
      await ended;
      assert.ok((await flushed) !== true);
      await new Promise((resolve) => setTimeout(resolve, 20));
      assert.equal(silent.said().length, before);
    });
  }

  test(`a withdrawal between two batches of ${way} is the last that is heard`, async (t) => {
    let withdrawn;
    const client = {};
    const witness = await startWitness(t, { delay: () => void (withdrawn ??= client.it.setConsent(false)) });
    client.it = await open(witness.url, { delivery });
    await fill(client.it);
    await begin(client.it);
    while (!withdrawn) await new Promise(setImmediate);
    await withdrawn;
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(witness.bodies, 1);
    assert.equal((await client.it.inspect()).waiting, 0);
  });
}

test("a withdrawal in the pause after a failure is the end of it", async () => {
  let tries = 0;
  const transport = async () => {
    tries++;
    throw new TypeError("offline");
  };
  const client = await open("http://127.0.0.1:1", { transport, delivery: { meanDelay: 0, firstPause: 0.02, longestPause: 0.02 } });
  await fill(client, 1);
  while (!tries) await new Promise(setImmediate);
  const flushed = client.flush(20);
  await client.setConsent(false);
  const before = tries;
  assert.equal(await flushed, false);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(tries, before);
});

test("a transport that ignores the signal is waited for, and the status says what is not over", async () => {
  let answer;
  const transport = () => new Promise((resolve) => (answer = resolve));
  const client = await open("http://127.0.0.1:1", { transport });
  await fill(client, 1);
  void client.flush(20);
  while (!answer) await new Promise(setImmediate);
  await client.setConsent(false);
  assert.match(client.status.sentence, /could not be wiped yet: another process uses the state/);
  answer({ status: 500, contentType: "", retryAfter: "", text: "" });
  await new Promise(setImmediate);
  assert.equal(await client.record("homepage", "x"), false);
  assert.equal(client.status.sentence, "nothing is recorded: the person does not consent");
});

test("consent withdrawn and given again sends nothing of before, and goes on", async (t) => {
  const witness = await startWitness(t);
  const client = await open(witness.url);
  await fill(client);
  const flushed = client.flush(5);
  await Promise.all([client.setConsent(false), client.setConsent(true)]);
  assert.equal(client.status.condition, "active");
  assert.equal(await flushed, false);
  const { bodies } = witness;
  assert.ok(await client.flush(5));
  assert.equal(witness.bodies, bodies);
  await fill(client, 2);
  assert.ok(await client.flush(5));
  assert.equal(witness.bodies, bodies + 2);
  await client.close();
});

test("a record that a withdrawal overtakes makes no new secret", async () => {
  let kept = null;
  let waiting = [];
  const storage = new MemoryStorage();
  const { transaction } = storage;
  storage.transaction = async (...of) => {
    await new Promise((resolve) => waiting.push(resolve));
    return transaction.apply(storage, of);
  };
  const go = () => waiting.splice(0).forEach((resolve) => resolve());
  const opened = open("http://127.0.0.1:1", { storage });
  const done = (promise) => {
    const turn = setInterval(go, 1);
    return promise.finally(() => clearInterval(turn));
  };
  const client = await done(opened);
  const [recorded, withdrawn] = [client.record("homepage", "x"), client.setConsent(false)];
  assert.deepEqual(await done(Promise.all([recorded, withdrawn])), [false, true]);
  assert.equal(client.status.condition, "no_consent");
  const device = await done(storage.transaction({ keys: ["device"] }, (store) => (kept = store.get("device"))));
  assert.equal(device.secret, null, JSON.stringify(kept));
});

test(`no body leaves after ${MOMENTS} withdrawals at random moments`, { timeout: 280_000 }, async (t) => {
  const root = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const wait = (most) => new Promise((resolve) => setTimeout(resolve, Math.random() * most));
  const witness = await startWitness(t, { delay: () => wait(2) });
  const seen = { none: 0, some: 0, all: 0 };
  for (let moment = 0; moment < MOMENTS; moment++) {
    const storage = moment % 2 ? new MemoryStorage() : new FileStorage(join(root, "state"));
    const [sending, other] = [await open(witness.url, { storage }), await open(witness.url, { storage })];
    await fill(sending, 4);
    const before = witness.bodies;
    const flushed = sending.flush(5);
    const most = moment % 3 ? 1 + Math.floor(Math.random() * 3) : 0; // bodies that arrive before it
    for (let turn = 0; witness.bodies - before < most && turn < 500; turn++) await wait(2);
    await (moment % 4 < 2 ? sending : other).setConsent(false);
    await fetch(`${witness.url}/close`);
    const sent = witness.bodies - before;
    seen[sent === 0 ? "none" : sent < 4 ? "some" : "all"]++;
    await Promise.all([flushed, wait(3)]);
    await fetch(`${witness.url}/open`);
    await Promise.all([sending.close(), other.close()]);
    rmSync(join(root, "state"), { recursive: true, force: true });
  }
  t.diagnostic(`bodies before the withdrawal: ${JSON.stringify(seen)}; after it: ${witness.late}`);
  assert.equal(witness.late, 0);
  assert.ok(seen.some > MOMENTS / 5, JSON.stringify(seen));
});
