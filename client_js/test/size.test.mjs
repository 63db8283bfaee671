// What an app ships, and what importing does: nothing, on a server too.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = join(ROOT, "src");

const bundle = async (contents) => {
  const options = { bundle: true, minify: true, format: "esm", target: "es2022", write: false, platform: "browser" };
  const { outputFiles } = await build({ stdin: { contents, resolveDir: ROOT }, ...options });
  return { text: outputFiles[0].text, size: gzipSync(outputFiles[0].contents, { level: 9 }).length };
};

test("the browser's client, and what places add, stay within their budgets", async (t) => {
  const core = await bundle('export { openClient } from "./dist/browser.js";');
  const both = await bundle('export { openClient } from "./dist/browser.js"; export { places } from "./dist/places.js";');
  t.diagnostic(`browser ${core.size} bytes gzipped, places ${both.size - core.size} more`);
  assert.ok(core.size <= 17_000, `${core.size}`);
  assert.ok(both.size - core.size <= 4_500, `${both.size - core.size}`);
  for (const text of [core.text, both.text]) assert.doesNotMatch(text, /\beval\(|new Function/);
});

test("the core imports @noble/hashes and nothing else", () => {
  const files = readdirSync(SOURCES, { recursive: true }).filter((name) => name.endsWith(".ts"));
  const names = new Set();
  for (const name of files.filter((file) => !["node.ts", join("ports", "files.ts"), join("ports", "rollback_guard.ts")].includes(file))) {
    for (const [, from] of readFileSync(join(SOURCES, name), "utf8").matchAll(/from "([^."][^"]*)"/g)) names.add(from);
  }
  assert.deepEqual([...names].sort(), ["@noble/hashes/sha3.js"]);
});

test("importing the browser's part does nothing where there is no browser", async () => {
  const { openClient } = await import("../dist/browser.js");
  assert.equal(typeof openClient, "function");
});

test("the lock file names no host of a registry", () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8"));
  for (const { resolved } of Object.values(packages)) {
    assert.ok(resolved === undefined || resolved.startsWith("https://registry.npmjs.org/"));
  }
});
