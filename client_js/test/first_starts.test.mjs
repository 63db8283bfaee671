// Processes that start at the same moment over one directory, and what a lock says of them.

import assert from "node:assert/strict";
import { fork, spawn } from "node:child_process";
import fs, { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FileStorage } from "../dist/node.js";

const PROCESS = fileURLToPath(new URL("first_start_process.mjs", import.meta.url));
const DEAD = "4194305 1"; // above every process id

const folder = (t) => {
  const made = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
};

/** Processes that answer to each message once. */
const crew = async (t, number) => {
  const children = Array.from({ length: number }, () => fork(PROCESS));
  t.after(() => children.forEach((child) => child.kill("SIGKILL")));
  const told = (child) => new Promise((resolve) => child.once("message", resolve));
  await Promise.all(children.map(told));
  return (message) => Promise.all(children.map((child) => (child.send(message), told(child))));
};

const secretsIn = (stateDir) => new Set([...readFileSync(join(stateDir, "state.journal"), "utf8").matchAll(/secret\\":\\"([0-9a-f]{64})/g)].map(([, one]) => one));

test("of processes that start at the same moment one has the state, and all in turn have one secret", async (t) => {
  const root = folder(t);
  const ask = await crew(t, 6);
  for (let round = 0; round < 16; round++) {
    const stateDir = join(root, `state ${round}`);
    if (round % 2) { // where the process before was killed, or the one after it, too
      mkdirSync(stateDir);
      writeFileSync(join(stateDir, "state.lock"), DEAD);
    }
    const begun = await ask({ act: "open", stateDir, at: Date.now() + 15 });
    assert.deepEqual(begun.sort(), ["active", ...Array(5).fill("state_in_use")], `round ${round}`);
    const turns = await ask({ act: "record", day: 20_000, at: Date.now() + 10 });
    assert.deepEqual(turns.filter((one) => !/^(true|state_in_use)$/.test(one)), [], `round ${round}: ${turns}`);
    let left = 6;
    for (let turn = 0; left && turn < 100; turn++) { // who has it lets go; one of the rest takes it
      left = (await ask({ act: "pass on" })).filter((one) => one !== "closed").length;
    }
    assert.equal(left, 0);
    assert.equal(secretsIn(stateDir).size, 1);
    assert.deepEqual(readdirSync(stateDir).sort(), ["state.journal", "state.witness"]);
  }
});

test("a lock that is not filled yet is another process's, until it is old", async (t) => {
  const stateDir = folder(t);
  const lock = join(stateDir, "state.lock");
  writeFileSync(lock, "");
  const storage = new FileStorage(stateDir);
  const act = () => storage.transaction({ keys: [] }, (store) => store.put("a", { b: 1 }));
  await assert.rejects(act(), { condition: "state_in_use" });
  assert.equal(readFileSync(lock, "utf8"), "");
  const before = Date.now() / 1000 - 60;
  utimesSync(lock, before, before);
  await act();
  assert.match(readFileSync(lock, "utf8"), new RegExp(`^${process.pid} `));
  await storage.close();
});

/** Whether a storage gets a lock that says a text. */
const isFree = async (t, text, age = 0) => {
  const stateDir = folder(t);
  const lock = join(stateDir, "state.lock");
  writeFileSync(lock, text);
  const made = Date.now() / 1000 - age;
  utimesSync(lock, made, made);
  const storage = new FileStorage(stateDir);
  try {
    await storage.transaction({ keys: [] }, () => 1);
  } catch (error) {
    assert.equal(error.condition, "state_in_use");
    return false;
  }
  await storage.close();
  return true;
};

test("an empty lock of a time to come, after the clock was set back, keeps nobody out", async (t) => {
  assert.equal(await isFree(t, "", -5), false);
  assert.equal(await isFree(t, "", -3600), true);
});

test("a lock that no process wrote keeps nobody out", async (t) => {
  for (const text of ["garbage", "\n", "-1 ", "0 ", "0 0 0", "1.5 x", "\u0000\u0001"]) assert.equal(await isFree(t, text), true, JSON.stringify(text));
});

test("a process id that another user's process has since keeps nobody out", { skip: !existsSync("/proc/1/stat") && "no /proc" }, async (t) => {
  t.mock.method(process, "kill", () => { throw Object.assign(new Error("kill EPERM"), { code: "EPERM" }); });
  assert.equal(await isFree(t, "1 999 x"), true);
  const began = readFileSync("/proc/1/stat", "utf8").split(") ").at(-1).split(" ")[19];
  assert.equal(await isFree(t, `1 ${began} x`), false); // that very process
});

test("a process that was killed and that nobody waits for keeps nobody out", { skip: !existsSync("/proc/1/stat") && "no /proc" }, async (t) => {
  const parent = spawn("sh", ["-c", "sleep 60 & echo $!; exec sleep 60"], { stdio: ["ignore", "pipe", "ignore"] });
  t.after(() => parent.kill("SIGKILL"));
  const pid = Number(await new Promise((resolve) => parent.stdout.once("data", resolve)));
  const fields = () => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
  const lock = `${pid} ${fields()[19]} x`;
  assert.equal(await isFree(t, lock), false);
  for (let tries = 0; tries < 100 && readFileSync(`/proc/${parent.pid}/comm`, "utf8").trim() !== "sleep"; tries++) await new Promise((resolve) => setTimeout(resolve, 20)); // a shell would wait for it
  process.kill(pid, "SIGKILL");
  for (let tries = 0; tries < 100 && fields()[0] !== "Z"; tries++) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(await isFree(t, lock), true);
});

test("a lock is taken over after a process that died while it took one over", async (t) => {
  const stateDir = folder(t);
  const lock = join(stateDir, "state.lock");
  writeFileSync(lock, DEAD);
  const { createHash } = await import("node:crypto");
  const heir = (text) => `${lock}.${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
  writeFileSync(heir(DEAD), `${DEAD} second`);
  const storage = new FileStorage(stateDir);
  await storage.transaction({ keys: [] }, () => 1);
  assert.deepEqual(readdirSync(stateDir).filter((name) => name.startsWith("state.lock")), ["state.lock"]);
  await storage.close();
  writeFileSync(lock, DEAD);
  writeFileSync(heir(DEAD), `${process.pid} ${readFileSync("/proc/self/stat", "utf8").split(") ").at(-1).split(" ")[19]} other`);
  await assert.rejects(storage.transaction({ keys: [] }, () => 1), { condition: "state_in_use" }); // it is about to have it
});

/** Makes a function of `node:fs` fail, for the time of an act. */
const failing = async (name, fails, act) => {
  const whole = fs[name];
  fs[name] = (...words) => (fails(...words) ? assert.fail("ENOSPC") : whole(...words));
  syncBuiltinESMExports();
  try {
    return await act();
  } finally {
    fs[name] = whole;
    syncBuiltinESMExports();
  }
};

test("a line that did not reach the disk is taken back, and never cuts one that did", async (t) => {
  const stateDir = folder(t);
  const storage = new FileStorage(stateDir);
  const put = (key, isDurable = true) => storage.transaction({ keys: [] }, (store) => (store.put(key, { text: "x".repeat(500) }), isDurable && store.through()));
  await put("a");
  await assert.rejects(failing("fdatasyncSync", () => true, () => put("b")), { condition: "state_unavailable" });
  await put("c");
  const half = (file, bytes, at) => (fs.writeFileSync(join(stateDir, "state.journal"), bytes.subarray(at, 100), { flag: "a" }), true);
  await assert.rejects(failing("writeSync", half, () => put("d")), { condition: "state_unavailable" });
  await failing("truncateSync", () => true, () => assert.rejects(failing("writeSync", half, () => put("e")), { condition: "state_unavailable" }));
  await put("f");
  await storage.close();
  const kept = await new FileStorage(stateDir).transaction({ keys: [], prefix: "" }, (store) => store.list().map(([key]) => key));
  assert.deepEqual(kept, ["a", "c", "f"]);
});

test("a journal that cannot be shortened keeps what it was told, and no file stays open", { skip: !existsSync("/proc/self/fd") && "no /proc" }, async (t) => {
  const stateDir = folder(t);
  const storage = new FileStorage(stateDir);
  const put = (i) => storage.transaction({ keys: [] }, (store) => store.put("k", { i, text: "x".repeat(200_000) }));
  await put(0);
  const files = () => readdirSync("/proc/self/fd").length;
  const before = files();
  await failing("fsyncSync", () => true, async () => {
    for (let i = 1; i < 12; i++) await put(i);
  });
  assert.equal(files(), before);
  assert.ok(statSync(join(stateDir, "state.journal")).size > 2_000_000);
  await put(12);
  assert.ok(statSync(join(stateDir, "state.journal")).size < 500_000);
  await put(13);
  await storage.close();
  assert.equal(await new FileStorage(stateDir).transaction({ keys: ["k"] }, (store) => store.get("k").i), 13);
});
