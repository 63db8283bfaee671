// What an app ships, and what importing does: nothing, on a server too.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { TEXTS } from "../dist/core/texts.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = join(ROOT, "src");

const gzipped = (text) => gzipSync(text, { level: 9 }).length;

/** An app's own bundle, as its build makes it: the package by its names, minified. */
const bundle = async (contents, conditions) => {
  const options = { bundle: true, minify: true, format: "esm", target: "es2022", write: false, platform: "browser" };
  const { outputFiles } = await build({ stdin: { contents, resolveDir: ROOT }, conditions, ...options });
  return { text: outputFiles[0].text, size: gzipped(outputFiles[0].contents) };
};

const BROWSER = 'export { openClient } from "rappor-telemetry-client/browser";';
const PLACES = 'export { places } from "rappor-telemetry-client/places";';

test("the browser's client, and what places add, stay within their budgets", async (t) => {
  const [core, both] = [await bundle(BROWSER, ["production"]), await bundle(BROWSER + PLACES, ["production"])];
  t.diagnostic(`browser ${core.size} bytes gzipped, places ${both.size - core.size} more`);
  assert.ok(core.size <= 17_700, `${core.size}`);
  assert.ok(both.size - core.size <= 3_950, `${both.size - core.size}`);
  for (const text of [core.text, both.text]) assert.doesNotMatch(text, /\beval\(|new Function/);
});

// what each part adds to the browser's client, bytes gzipped at most, and a text that is in it alone
const PARTS = {
  numbers: [1_400, "value_negative"],
  pairs: [345, "value_pair"],
  discover: [640, "code_missing"],
  domains: [11_800, "lower_case\\\\?\":true"],
  flows: [5_700, "zones"],
  relay: [2_200, "message/ohttp-req"],
};

test("what a part adds is within its budget, and is in no bundle without it", async (t) => {
  const core = await bundle(BROWSER, ["production"]);
  const every = Object.keys(PARTS);
  for (const [name, [most]] of Object.entries(PARTS)) {
    const { text, size } = await bundle(`${BROWSER} export { ${name} } from "rappor-telemetry-client/${name}";`, ["production"]);
    t.diagnostic(`${name} ${size - core.size} bytes gzipped more`);
    assert.ok(size - core.size <= most, `${name} ${size - core.size}`);
    const found = every.filter((other) => new RegExp(PARTS[other][1]).test(text));
    assert.deepEqual(found, [name]);
  }
  for (const [, mark] of Object.values(PARTS)) assert.doesNotMatch(core.text, new RegExp(mark));
});

test("nothing of the client is loaded later", async () => {
  const { outputFiles } = await build({ stdin: { contents: 'export { openClient } from "./dist/production/browser.js";', resolveDir: ROOT },
    bundle: true, minify: true, format: "esm", target: "es2022", write: false, platform: "browser", splitting: true, outdir: "none" });
  assert.equal(outputFiles.length, 1); // no part of it is loaded later: offline, or after a new release, it could not be
});

test("texts and checks are in the development build, by its condition, and in no other", async () => {
  const [shipped, other] = [await bundle(BROWSER, ["production"]), await bundle(BROWSER, ["development"])];
  assert.match(other.text, /first promised less/);
  assert.doesNotMatch(shipped.text, /first promised less|num_hashes is not 1/);
  assert.match(shipped.text, /not_sealed/);
});

test("what the package says of each code is what the README says", () => {
  const rows = new Map([...readFileSync(join(ROOT, "README.md"), "utf8").matchAll(/^\| `(\w+)` \| (.*) \|$/gm)].map(([, code, text]) => [code, text]));
  for (const [code, text] of Object.entries(TEXTS)) assert.equal(rows.get(code), text.replace(/\{(\d)\}/g, "{$1}").replaceAll("|", "\\|"), code);
  const sources = readdirSync(SOURCES, { recursive: true }).filter((name) => name.endsWith(".ts") && !name.includes("texts"));
  const used = sources.map((name) => readFileSync(join(SOURCES, name), "utf8")).join();
  for (const code of Object.keys(TEXTS)) assert.match(used, new RegExp(`"${code}[":]|\\b${code}\\b`), code);
});

test("the package imports @noble/hashes and nothing else", () => {
  const files = readdirSync(SOURCES, { recursive: true }).filter((name) => name.endsWith(".ts"));
  const names = new Set();
  const ofNode = ["node.ts", "testing_node.ts", ...["files.ts", "http.ts", "lock.ts"].map((name) => join("ports", name))];
  for (const name of files.filter((file) => !ofNode.includes(file))) {
    for (const [, from] of readFileSync(join(SOURCES, name), "utf8").matchAll(/from "([^."][^"]*)"/g)) names.add(from);
  }
  assert.deepEqual([...names], ["@noble/hashes/sha3.js"]);
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
