// The example's main process, with Node in the place of Electron (whose binary is not installed for
// the tests): `app` is a stand-in, all else is real. As Electron does, it quits without waiting for
// what a handler of `will-quit` began.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { vectors } from "./vectors.mjs";

const MAIN = fileURLToPath(new URL("../../examples/electron/main.mjs", import.meta.url));
const asUrl = (code) => JSON.stringify(`data:text/javascript,${encodeURIComponent(code)}`);

/** Puts the stand-in in the place of the module `electron`. With STAYS the app is not quit. */
const hooks = (folder) => {
  const stand = `const quit = []; export const app = {
    whenReady: async () => {}, getAppPath: () => ${JSON.stringify(folder)}, getPath: () => ${JSON.stringify(folder)},
    on: (event, act) => {
      if (event !== "will-quit") return;
      quit.push(act);
      if (process.env.STAYS) { console.log("runs"); setInterval(() => {}, 1000); }
    } };
    process.once("beforeExit", () => { quit.forEach((act) => act()); process.exit(0); });`;
  const text = `export const resolve = (name, context, next) => name === "electron"
    ? { url: ${asUrl(stand)}, shortCircuit: true }
    : next(name, name.startsWith("rappor-") ? { ...context, parentURL: ${JSON.stringify(import.meta.url)} } : context);`;
  return `import { register } from "node:module"; register(${asUrl(text)});`;
};

/** An app in a folder: how to start it, and what its state holds. */
const app = (t) => {
  const folder = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "hooks.mjs"), hooks(folder));
  const { document } = vectors("compiled").good.metrics;
  const metrics = document.metrics.filter(({ definition }) => definition.kind !== "location");
  writeFileSync(join(folder, "metrics.json"), JSON.stringify({ ...document, metrics }));
  const words = ["--import", pathToFileURL(join(folder, "hooks.mjs")).href, MAIN];
  const env = { ...process.env, DO_NOT_TRACK: "" };
  return {
    /** A whole life of the process. */
    run: () => {
      const { status, stderr } = spawnSync(process.execPath, words, { encoding: "utf8", timeout: 60_000, env });
      assert.deepEqual([status, stderr], [0, ""]);
    },
    /** A process that is open and has recorded. */
    stay: async () => {
      const child = spawn(process.execPath, words, { env: { ...env, STAYS: "1" }, stdio: ["ignore", "pipe", "inherit"] });
      t.after(() => child.kill("SIGKILL"));
      await new Promise((resolve) => child.stdout.once("data", resolve));
      return child;
    },
    isLocked: () => existsSync(join(folder, "telemetry", "state.lock")),
    /** Secrets that were ever written, numbers of queued reports, and whether a day was found full. */
    state: () => {
      const journal = readFileSync(join(folder, "telemetry", "state.journal"), "utf8");
      const found = (pattern) => [...new Set([...journal.matchAll(pattern)].map(([, one]) => one))];
      return {
        secrets: found(/secret\\*":\\*"([0-9a-f]{64})/g).length,
        queued: found(/queue\/(\d{15})/g).length,
        full: found(/full:crashed\\*":(\d+)/g).length,
      };
    },
  };
};

test("the Electron example records into the app's own directory and lets go of it at the end", (t) => {
  const { run, state, isLocked } = app(t);
  run();
  assert.deepEqual([state(), isLocked()], [{ secrets: 1, queued: 1, full: 0 }, false]);
  run(); // the next start goes on with the same secret, and knows that the day has its report
  assert.deepEqual([state(), isLocked()], [{ secrets: 1, queued: 1, full: 1 }, false]);
});

test("a second instance leaves the state of the first one alone", async (t) => {
  const { run, stay, state, isLocked } = app(t);
  await stay();
  run();
  assert.deepEqual([state(), isLocked()], [{ secrets: 1, queued: 1, full: 0 }, true]);
});

test("after a crash the next start takes the state over", async (t) => {
  const { run, stay, state, isLocked } = app(t);
  const child = await stay();
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("close", resolve));
  assert.equal(isLocked(), true);
  run();
  assert.deepEqual([state(), isLocked()], [{ secrets: 1, queued: 1, full: 1 }, false]);
});
