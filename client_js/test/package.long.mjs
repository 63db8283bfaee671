// The package as it is installed: what a tarball holds, from an empty folder, by import and by require.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { readMetrics } from "../dist/node.js";
import { listen, MemoryCollector } from "../dist/testing_node.js";
import { METRICS } from "./witness.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const { name, exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const SOURCES = ["bin", "scripts", "src", "tables", "LICENSE", "README.md", "package.json", "package-lock.json", ".npmrc", "tsconfig.json", "tsconfig.cjs.json"];

const folder = (t) => {
  const path = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
};
const npm = (cwd, ...words) => execFileSync("npm", [...words, "--silent", "--no-audit", "--no-fund"], { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

/** The folder of the client alone, built anew and packed; beside the library that it needs. */
const packed = (t) => {
  const alone = join(folder(t), "client");
  mkdirSync(alone);
  for (const source of SOURCES) cpSync(join(ROOT, source), join(alone, source), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(alone, "node_modules"));
  const [tarball] = JSON.parse(npm(alone, "pack", "--json"));
  const library = npm(alone, "pack", "--ignore-scripts", "./node_modules/@noble/hashes").trim().split("\n").at(-1);
  return { files: tarball.files.map(({ path }) => path), tarballs: [tarball.filename, library].map((file) => join(alone, file)) };
};

test("the table and the licence of the package are those of the repository", { skip: !existsSync(join(ROOT, "../LICENSE")) }, () => {
  const pairs = [["tables/domains.json", "../rappor_core/codes/tables/domains.json"], ["LICENSE", "../LICENSE"]];
  for (const [copy, of] of pairs) assert.equal(readFileSync(join(ROOT, copy), "utf8"), readFileSync(join(ROOT, of), "utf8"), copy);
});

test("a client without a directory says what it needs", async () => {
  const { openClient } = await import("../dist/node.js");
  for (const stateDir of [undefined, "", 3]) {
    await assert.rejects(openClient({ metrics: METRICS, collector: "http://127.0.0.1:1", consent: true, stateDir }), { code: "state_dir", message: /^stateDir: name a directory/ });
  }
});

test("the folder alone is built and packed; from an empty folder the package runs, by import, require and types", { timeout: 240_000 }, async (t) => {
  const { files, tarballs } = packed(t);
  for (const file of ["LICENSE", "README.md", "dist/index.js", "dist/index.js.map", "dist/index.d.ts", "dist/cjs/index.js", "dist/cjs/index.d.ts", "dist/production/browser.js", "dist/production/browser.js.map", "bin/rappor-client-inspect.mjs"]) {
    assert.ok(files.includes(file), file);
  }
  assert.ok(!files.some((file) => /^(src|test|scripts|example|tables)\//.test(file)));

  const app = folder(t);
  writeFileSync(join(app, "package.json"), '{ "private": true }');
  npm(app, "install", "--offline", "--ignore-scripts", ...tarballs);
  const installed = join(app, "node_modules", name);
  assert.ok(existsSync(join(installed, "LICENSE")));
  for (const file of files.filter((one) => one.endsWith(".map"))) {
    const { sources, sourcesContent } = JSON.parse(readFileSync(join(installed, file), "utf8"));
    assert.ok(sources.every((source, i) => sourcesContent[i] && (/\.ts$|@noble|domains\.js$/.test(source))), `${file}: ${sources}`);
  }

  const collector = new MemoryCollector(readMetrics(METRICS));
  const { url, close } = await listen(collector);
  t.after(close);
  const example = readFileSync(join(ROOT, "../examples/node/app.mjs"), "utf8");
  assert.ok(example.trimEnd().split("\n").filter((line) => line && !line.startsWith("import")).length <= 10);
  copyFileSync(join(ROOT, "../examples/node/app.mjs"), join(app, "app.mjs"));
  writeFileSync(join(app, "metrics.json"), JSON.stringify(METRICS));
  const run = async (...words) => (await promisify(execFile)(process.execPath, words, { cwd: app, env: { PATH: process.env.PATH, COLLECTOR: url } })).stdout;
  assert.equal(await run("app.mjs"), "delivered\n");
  assert.deepEqual(collector.counted(), { homepage: 1 });

  const shown = await run(join(installed, "bin/rappor-client-inspect.mjs"), "state");
  assert.match(shown, /^Consent: given\n[^]*accepted:homepage: 1\n[^]*homepage: reports made: 1; different answers: 1 of at most 1000000/);

  const entries = Object.keys(exports).filter((entry) => entry !== "./package.json").map((entry) => join(name, entry));
  const script = (load) => `${entries.map((entry) => load(entry)).join("\n")}\nconsole.log("loaded");`;
  writeFileSync(join(app, "all.mjs"), script((entry) => `await import("${entry}");`));
  writeFileSync(join(app, "all.cjs"), script((entry) => `if (!Object.keys(require("${entry}")).length) throw new Error("${entry}");`) + `require("${name}/package.json");`);
  assert.equal(await run("all.mjs"), "loaded\n");
  assert.equal(await run("all.cjs"), "loaded\n");
  writeFileSync(join(app, "by_require.cjs"), example.replace(/^import \{ (\w+) \} from (.*);$/gm, "const { $1 } = require($2);").replace('"state"', '"state2"').replace(/^const client[^]*/m, "(async () => {\n$&\n})();"));
  assert.equal(await run("by_require.cjs"), "delivered\n");

  const types = (load) => `${load}\nconst opened: Promise<Client> = openClient({ metrics: {}, stateDir: "x", collector: "https://x.example", consent: true, kinds: [numbers()] });\nexport const said: Promise<boolean> = opened.then((client) => client.record("a", 1));\n`;
  for (const [file, text] of [["app.mts", types(`import { openClient, type Client } from "${name}/node";\nimport { numbers } from "${name}/numbers";`)],
    ["app.cts", types(`import { openClient, type Client } from "${name}/node";\nimport { numbers } from "${name}/numbers";`)]]) writeFileSync(join(app, file), text);
  const tsc = join(dirname(fileURLToPath(import.meta.resolve("typescript/package.json"))), "bin/tsc");
  execFileSync(process.execPath, [tsc, "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom", "--types", "", "app.mts", "app.cts"], { cwd: app, stdio: "inherit" });
});

test("every file that the package names is there", () => {
  const named = [];
  const walk = (value) => (typeof value === "string" ? named.push(value) : Object.values(value).forEach(walk));
  walk(exports);
  for (const path of named) assert.ok(existsSync(join(ROOT, path)), path);
  assert.ok(readdirSync(join(ROOT, "dist/cjs")).includes("package.json"));
});
