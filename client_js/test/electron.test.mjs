// The example's main process, with Node in the place of Electron: `app` is a stand-in, all else is real.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { vectors } from "./vectors.mjs";

const MAIN = fileURLToPath(new URL("../example/electron_main.mjs", import.meta.url));

const hooks = (folder) => {
  const stand = `const quit = []; export const app = {
    whenReady: async () => {}, getAppPath: () => ${JSON.stringify(folder)}, getPath: () => ${JSON.stringify(folder)},
    on: (event, act) => { if (event === "will-quit") quit.push(act); } };
    process.once("beforeExit", () => quit.forEach((act) => act()));`;
  const text = `export const resolve = (name, context, next) => name === "electron"
    ? { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(stand)}`)}, shortCircuit: true } : next(name, context);`;
  return `import { register } from "node:module"; register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(text)}`)});`;
};

test("the Electron example records into the app's own directory and lets go of it at the end", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "hooks.mjs"), hooks(folder));
  const { document } = vectors("compiled").good.metrics;
  const metrics = document.metrics.filter(({ definition }) => definition.kind !== "location");
  writeFileSync(join(folder, "metrics.json"), JSON.stringify({ ...document, metrics }));
  const run = spawnSync(process.execPath, ["--import", pathToFileURL(join(folder, "hooks.mjs")).href, MAIN], {
    encoding: "utf8", timeout: 30_000, env: { ...process.env, DO_NOT_TRACK: "" } });
  assert.deepEqual([run.status, run.stderr], [0, ""]);
  const journal = readFileSync(join(folder, "telemetry", "state.journal"), "utf8");
  assert.match(journal, /queue\/0{15}/);
  assert.throws(() => readFileSync(join(folder, "telemetry", "state.lock")), { code: "ENOENT" });
});
