// A closed client opens nothing again and listens to nothing (shaka-player #10434); what was sent ends with it
// (undici #4405 and #5845: an aborted `fetch` of Node connects once more, and keeps the process).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSilent, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openClient } from "../dist/browser.js";
import { Client, FileStorage, MemoryStorage, openClient as openInNode } from "../dist/node.js";
import { standIn } from "./stand_in_indexeddb.mjs";
import { METRICS } from "./witness.mjs";

const OPTIONS = { metrics: METRICS, consent: true, doNotTrack: () => false, collector: "http://127.0.0.1:1" };
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const folder = (t) => {
  const made = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
};

test("pages that open and close a client leave no listener, channel or database", async (t) => {
  const browser = standIn(t);
  const page = Object.assign(new EventTarget(), { visibilityState: "visible", number: 0 });
  for (const [name, by] of [["addEventListener", 1], ["removeEventListener", -1]]) {
    const whole = page[name].bind(page);
    page[name] = (...of) => ((page.number += by), whole(...of));
  }
  browser.put("document", { value: page });
  const clients = [];
  for (let mount = 0; mount < 5; mount++) {
    const client = await openClient({ ...OPTIONS, sendWhenHidden: true, database: `d${mount}`, transport: async () => { throw new TypeError("offline"); } });
    assert.ok(await client.record("homepage", "a"));
    assert.equal(page.number, 1);
    const late = [client.record("homepage", "b"), client.flush(5), client.inspect()];
    await client.close();
    await Promise.all(late);
    clients.push(client);
  }
  const { opens } = browser;
  page.visibilityState = "hidden";
  page.dispatchEvent(new Event("visibilitychange"));
  for (const client of clients) {
    assert.deepEqual([await client.record("homepage", "a"), await client.flush(1), await client.setConsent(false), await client.setConsent(true)], [false, false, false, false]);
    assert.equal((await client.inspect()).waiting, undefined);
    await client.close();
  }
  await wait(20);
  assert.deepEqual([browser.opens, browser.open, page.number, BroadcastChannel.number], [opens, 0, 0, 0]);
});

test("a closed client of Node takes no lock and no directory again", async (t) => {
  const stateDir = join(folder(t), "state");
  const client = await openInNode({ ...OPTIONS, stateDir });
  const late = [client.record("homepage", "a"), client.flush(1), client.inspect(), client.setConsent(false)];
  await client.close();
  await Promise.all(late);
  await client.flush(1);
  await client.inspect();
  assert.ok(!existsSync(join(stateDir, "state.lock")));
  rmSync(stateDir, { recursive: true });
  await client.flush(1);
  assert.deepEqual([await client.record("homepage", "a"), existsSync(stateDir)], [false, false]);
});

for (const [word, end] of [["setConsent(false)", (client) => client.setConsent(false)], ["close()", (client) => client.close()]]) {
  test(`after ${word} Node opens no connection, at 75 random moments`, { timeout: 120_000 }, async (t) => {
    let connections = 0;
    const { connect } = Socket.prototype;
    Socket.prototype.connect = function (...of) {
      connections++;
      return connect.apply(this, of);
    };
    t.after(() => (Socket.prototype.connect = connect));
    const server = createServer((request, answer) => request.resume().on("end", () => setTimeout(() => answer.writeHead(503).end(), Math.random() * 20)));
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => (server.closeAllConnections(), server.close()));
    let begun = 0;
    for (let moment = 0; moment < 75; moment++) {
      const collector = `http://127.0.0.1:${server.address().port}`;
      const client = await Client.open({ ...OPTIONS, collector, storage: moment % 2 ? new MemoryStorage() : new FileStorage(join(folder(t), "state")),
        delivery: { meanDelay: 3600, firstPause: 0.001, longestPause: 0.002, batchReports: 1 } });
      for (let i = 0; i < 3; i++) assert.ok(await client.record("homepage", "a"));
      const before = connections;
      void client.flush(5);
      await wait(Math.random() * 30);
      const ended = end(client);
      const after = connections;
      await ended;
      begun += after > before;
      await wait(30);
      assert.equal(connections, after, `moment ${moment}`);
      await client.close();
    }
    assert.ok(begun > 50, `${begun}`);
  });
}

test("a program that closes while its collector is silent ends at once", async (t) => {
  const silent = createSilent(() => undefined);
  await new Promise((resolve) => silent.listen(0, "127.0.0.1", resolve));
  t.after(() => silent.close());
  const program = `
    import { openClient } from ${JSON.stringify(new URL("../dist/node.js", import.meta.url))};
    const client = await openClient(${JSON.stringify({ ...OPTIONS, doNotTrack: undefined, collector: `http://127.0.0.1:${silent.address().port}`, stateDir: join(folder(t), "state") })});
    await client.record("homepage", "a");
    void client.flush(30);
    setTimeout(() => client.close(), 300);`;
  const begun = performance.now();
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "inherit", env: { PATH: process.env.PATH } });
  assert.equal(await new Promise((resolve) => child.on("exit", resolve)), 0);
  assert.ok(performance.now() - begun < 5000, `${performance.now() - begun}`);
});

test("what a request says in Node is what the documentation lists, and each batch has a connection of its own", async (t) => {
  const seen = [];
  const server = createServer((request, answer) => {
    seen.push([request.rawHeaders.filter((_, at) => at % 2 === 0), request.socket.remotePort]);
    request.resume().on("end", () => answer.writeHead(503).end());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const client = await openInNode({ ...OPTIONS, stateDir: join(folder(t), "state"), collector: `http://127.0.0.1:${server.address().port}`, key: "k", delivery: { firstPause: 0.001 } });
  assert.ok(await client.record("homepage", "a"));
  await client.flush(0.3);
  await client.close();
  assert.deepEqual(seen[0][0], ["Content-Type", "Content-Encoding", "Authorization", "Content-Length", "Host", "Connection"]);
  assert.equal(new Set(seen.map(([, port]) => port)).size, seen.length);
});
