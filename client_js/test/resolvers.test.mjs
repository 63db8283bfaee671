// README's imports as its readers' tools find them: Metro with `exports` and without (metro #1431), TypeScript under
// "bundler" and "node16" (TypeScript #61357), engines without what browsers have (hermes #948, jest's jsdom).

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import metro from "metro-resolver";
import { METRICS } from "./witness.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const { name, exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const ENTRIES = Object.keys(exports).filter((entry) => entry !== "./package.json").map((entry) => name + entry.slice(1));
const README = readFileSync(join(ROOT, "README.md"), "utf8");

/** A folder of an app that has the package and what it is tested with. */
const app = (t) => {
  const made = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  mkdirSync(join(made, "node_modules"));
  symlinkSync(ROOT, join(made, "node_modules", name));
  for (const other of ["vitest", "@types", "@vitest"]) symlinkSync(join(ROOT, "node_modules", other), join(made, "node_modules", other));
  return made;
};
const isFile = (path) => existsSync(path) && statSync(path).isFile();
const packageOf = (path) => {
  for (let folder = dirname(path); folder !== "/"; folder = dirname(folder)) {
    const file = join(folder, "package.json");
    if (existsSync(file)) return { rootPath: folder, packageJson: JSON.parse(readFileSync(file, "utf8")), packageRelativePath: path.slice(folder.length + 1) };
  }
  return null;
};

for (const isOn of [true, false]) {
  test(`Metro finds every entry ${isOn ? "by" : "without"} exports`, (t) => {
    const made = app(t);
    const context = {
      allowHaste: false, assetExts: new Set(), customResolverOptions: {}, disableHierarchicalLookup: false, dev: true, doesFileExist: isFile,
      extraNodeModules: null, getPackage: (path) => (isFile(path) ? JSON.parse(readFileSync(path, "utf8")) : null), getPackageForModule: packageOf,
      fileSystemLookup: (path) => (existsSync(path) ? { exists: true, type: statSync(path).isDirectory() ? "d" : "f", realPath: realpathSync(path) } : { exists: false }),
      isESMImport: true, mainFields: ["react-native", "browser", "main"], nodeModulesPaths: [], originModulePath: join(made, "App.js"),
      preferNativePlatform: true, redirectModulePath: (path) => path, resolveAsset: () => null, resolveHasteModule: () => null,
      resolveHastePackage: () => null, resolveRequest: null, sourceExts: ["js", "json", "ts", "tsx"], unstable_conditionNames: ["react-native"],
      unstable_conditionsByPlatform: {}, unstable_enablePackageExports: isOn, unstable_logWarning: (text) => assert.fail(text),
    }; // prettier-ignore
    for (const entry of ENTRIES) {
      const { filePath } = metro.resolve(context, entry, "android");
      assert.ok(isFile(filePath) && filePath.includes("/dist/"), `${entry}: ${filePath}`);
      if (!isOn) assert.match(filePath, /\/cjs\//);
    }
  });
}

test("who reads no exports finds the types, too", () => {
  for (const entry of ENTRIES.slice(1)) {
    const folder = join(ROOT, entry.slice(name.length + 1));
    const { main, types } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    assert.ok(isFile(join(folder, main)) && isFile(join(folder, types)), entry);
  }
});

test("every import of README, and its example for vitest, compile under bundler and node16", (t) => {
  const made = app(t);
  const imports = [...README.matchAll(/^import \{ ([\w, ]+) \} from "(rappor-telemetry-client[^"]*)";/gm)].map(([, names, from]) => [names.split(", ").filter((one) => !one.startsWith("type ")), from]);
  assert.ok(imports.length >= 8, `${imports.length}`);
  const all = imports.map(([names, from], at) => names.map((one, i) => `import { ${one} as a${at}_${i} } from "${from}"; export const b${at}_${i}: unknown = a${at}_${i};`).join("\n"));
  writeFileSync(join(made, "all.mts"), `${all.join("\n")}\n${ENTRIES.map((entry, at) => `import * as c${at} from "${entry}"; export const d${at}: object = c${at};`).join("\n")}`);
  const [example] = /^expect\.extend\(matchers\);\n[^]*?(?=```)/m.exec(README);
  const [declared] = /^declare module "vitest" \{\n[^]*?^\}\n/m.exec(README);
  writeFileSync(join(made, "app.test.mts"), `import { expect, test } from "vitest";\nimport { type AppMatchers, matchers, ObservedApp } from "${name}/testing";\ndeclare const metrics: unknown;
declare const parts: () => object;\n${declared}test("x", async () => {\n${example}});\n`);
  for (const moduleResolution of ["bundler", "node16"]) {
    const module = moduleResolution === "bundler" ? "ESNext" : "Node16";
    const compilerOptions = { target: "ES2022", module, moduleResolution, strict: true, noUnusedLocals: true, noEmit: true, skipLibCheck: true, lib: ["ES2022", "DOM"], types: [] };
    writeFileSync(join(made, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["all.mts", "app.test.mts"] }));
    try {
      execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", made], { encoding: "utf8" });
    } catch ({ stdout }) {
      assert.fail(`${moduleResolution}: ${stdout}`);
    }
  }
});

test("in Node the main entry has the client that sends by node:http", (t) => {
  const program = `const same = async (load) => (await load("${name}")).Client === (await load("${name}/node")).Client; Promise.all([same((of) => import(of)), same(require)]).then(console.log)`;
  const made = app(t);
  writeFileSync(join(made, "same.cjs"), program);
  assert.equal(execFileSync(process.execPath, ["same.cjs"], { cwd: made, encoding: "utf8" }), "[ true, true ]\n");
});

const LACKS = ["TextEncoder", "TextDecoder", "btoa", "atob", "structuredClone", "Blob", "Response", "DecompressionStream", "BroadcastChannel", "URL", "performance", "fetch"];

test("an engine that has nothing but a generator imports it, records and sends", (t) => {
  const made = app(t);
  const program = `for (const name of ${JSON.stringify(LACKS)}) Object.defineProperty(globalThis, name, { value: undefined });
    const { ObservedApp, MemoryCollector } = require("${name}/testing"), { openClient, Encoder, newSecret, readMetrics } = require("${name}/react-native");
    const metrics = ${JSON.stringify(METRICS)}, kept = new Map(), collector = new MemoryCollector();
    const asyncStorage = { getItem: async (key) => kept.get(key), setItem: async (key, text) => void kept.set(key, text), removeItem: async () => undefined };
    (async () => {
      const client = await openClient({ metrics, asyncStorage, collector: "https://x.example", consent: true, development: true, delivery: { padTo: 0 }, transport: collector.transport });
      for (const value of ["a", "\\u00e4\\u{1f600}"]) if (!(await client.record("homepage", value))) throw new Error(client.lastRefusal);
      console.log(await client.flush(5), collector.counted().homepage, await (await ObservedApp.open({ metrics })).whyNotSent("homepage"));
      await client.close();
    })();`;
  writeFileSync(join(made, "all.cjs"), program);
  assert.equal(execFileSync(process.execPath, ["--conditions=browser", "all.cjs"], { cwd: made, encoding: "utf8", env: { PATH: process.env.PATH } }), "true 2 \n");
});
