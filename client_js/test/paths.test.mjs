// A relative directory and a process that changes its own (openai-agents-python #5012); a state that was moved.

import assert from "node:assert/strict";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client, FileStorage, inspectState, openClient } from "../dist/node.js";
import { METRICS } from "./witness.mjs";

const OPTIONS = { metrics: METRICS, consent: true, collector: "http://127.0.0.1:1", doNotTrack: () => false, delivery: { meanDelay: 3600 } };
const everything = (directory) => readdirSync(directory).map((name) => readFileSync(join(directory, name), "latin1")).join();
const isSecret = (directory) => existsSync(directory) && /secret\\?":\\?"[0-9a-f]{64}/.test(everything(directory));

/** Two folders, the first of which is the process's. */
const start = (t) => {
  const [root, before] = [mkdtempSync(join(tmpdir(), "rappor-js-")), process.cwd()];
  const [home, other] = [join(root, "home"), join(root, "other")];
  for (const name of [home, other]) mkdirSync(name);
  process.chdir(home);
  t.after(() => (process.chdir(before), rmSync(root, { recursive: true, force: true })));
  return { home, other };
};

for (const [word, open] of [["openClient", () => openClient({ ...OPTIONS, stateDir: "state/app" })],
  ["FileStorage", () => Client.open({ ...OPTIONS, storage: new FileStorage("state/app") })]]) {
  test(`a relative directory of ${word} stays where it was when the process goes elsewhere`, async (t) => {
    const { home, other } = start(t);
    const client = await open();
    process.chdir(other);
    assert.ok(await client.record("homepage", "a"));
    assert.equal((await client.inspect()).waiting, 1);
    assert.equal(inspectState(join(home, "state/app")).waiting, 1);
    assert.ok(isSecret(join(home, "state/app")));
    assert.equal(await client.setConsent(false), true);
    await client.close();
    assert.deepEqual([isSecret(join(home, "state/app")), readdirSync(other), readdirSync(join(home, "state/app")).sort()], [false, [], ["state.journal", "state.witness"]]);
  });
}

const MOVES = {
  "moved": (state, away) => renameSync(state, away),
  "moved, and a new one made": (state, away) => (renameSync(state, away), mkdirSync(state)),
  "moved, and one of another process put there": (state, away) => {
    renameSync(state, away);
    mkdirSync(state);
    writeFileSync(join(state, "state.journal"), "");
    copyFileSync(join(away, "state.lock"), join(state, "state.lock")); // of a process that lives
  },
  "deleted": (state) => rmSync(state, { recursive: true }),
};
for (const [word, move] of Object.entries(MOVES)) {
  test(`a withdrawal after the directory was ${word} answers false, says so, and touches nothing of another's`, async (t) => {
    const { home } = start(t);
    const [state, away] = [join(home, "state"), join(home, "away")];
    const client = await openClient({ ...OPTIONS, stateDir: "state" });
    assert.ok(await client.record("homepage", "a"));
    move(state, away);
    const lock = word.includes("process") && readFileSync(join(state, "state.lock"), "utf8");
    assert.deepEqual([await client.setConsent(false), await client.setConsent(false)], [false, false]);
    assert.match(client.status.sentence, /consent is withdrawn, but the state could not be wiped yet: (no state lies where|another process)/);
    await client.close();
    if (lock) assert.equal(readFileSync(join(state, "state.lock"), "utf8"), lock);
    assert.equal(isSecret(state), false);
  });

  test(`where the directory was ${word} no record is true that would be lost`, async (t) => {
    const { home } = start(t);
    const client = await openClient({ ...OPTIONS, stateDir: "state" });
    assert.ok(await client.record("homepage", "a"));
    move(join(home, "state"), join(home, "away"));
    for (let i = 0; i < 3; i++) assert.equal(await client.record("homepage", "a"), false);
    assert.equal(isSecret(join(home, "state")), false); // no second secret alongside the first
    await client.close();
  });
}
