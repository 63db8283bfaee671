// The example for React Native: bundled, its types checked, and its telemetry run over a stand-in for AsyncStorage.
// The other examples of this client are run by chromium.long.mjs, electron.test.mjs and package.long.mjs.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { METRICS } from "./witness.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const EXAMPLE = fileURLToPath(new URL("../../examples/react_native/", import.meta.url));
const STORE = `const kept = new Map();
export default { getItem: async (name) => kept.get(name) ?? null, setItem: async (name, text) => void kept.set(name, text),
  removeItem: async (name) => void kept.delete(name) };`;

const folder = (t) => {
  const made = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
};

/** Bundles a file of the example. given: texts of modules that are not installed. */
const bundle = (file, outfile, given) =>
  build({
    entryPoints: [join(EXAMPLE, file)], outfile, bundle: true, format: "esm", jsx: "automatic", loader: { ".json": "json" }, nodePaths: [],
    external: ["react", "react/jsx-runtime", "react-native"],
    plugins: [{ name: "given", setup(making) {
      making.onResolve({ filter: /^rappor-telemetry-client/ }, ({ path }) => ({ path: fileURLToPath(import.meta.resolve(path)) }));
      making.onResolve({ filter: /async-storage$|metrics\.json$/ }, ({ path }) => ({ path, namespace: "given" }));
      making.onLoad({ filter: /./, namespace: "given" }, ({ path }) => ({ contents: given[path], loader: path.endsWith("json") ? "json" : "js" }));
    } }],
  }); // prettier-ignore

const GIVEN = { "@react-native-async-storage/async-storage": STORE, "./metrics.json": JSON.stringify(METRICS) };

test("the app of React Native can be bundled", async (t) => {
  const out = join(folder(t), "app.mjs");
  await bundle("App.jsx", out, GIVEN);
  assert.match(readFileSync(out, "utf8"), /from "react-native"/);
});

test("its telemetry asks once, records, and forgets when the answer is no", async (t) => {
  const out = join(folder(t), "telemetry.mjs");
  await bundle("telemetry.ts", out, GIVEN);
  const { answer, decide, openTelemetry } = await import(pathToFileURL(out));
  const client = await openTelemetry(METRICS);
  assert.deepEqual([await answer(), client.status.condition], [undefined, "no_consent"]);
  await decide(client, true);
  assert.ok(await client.record("homepage", "https://example.org/"), client.lastRefusal);
  assert.deepEqual([await answer(), (await client.inspect()).waiting], [true, 1]);
  await decide(client, false);
  assert.deepEqual([await answer(), (await client.inspect()).waiting], [false, 0]);
  await client.close();
});

test("its types are those of the package", (t) => {
  const made = folder(t);
  writeFileSync(join(made, "storage.d.ts"), "declare const storage: { getItem(name: string): Promise<string | null>; setItem(name: string, text: string): Promise<void>; removeItem(name: string): Promise<void> };\nexport default storage;\n");
  const paths = { "@react-native-async-storage/async-storage": [join(made, "storage.d.ts")] };
  for (const [name, file] of [["", "index"], ["/react-native", "react_native"]]) paths[`rappor-telemetry-client${name}`] = [join(ROOT, `dist/${file}.d.ts`)];
  const compilerOptions = { strict: true, noEmit: true, module: "esnext", moduleResolution: "bundler", target: "es2022", lib: ["es2022", "dom"], types: [], paths };
  writeFileSync(join(made, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [join(EXAMPLE, "telemetry.ts"), join(made, "storage.d.ts")] }));
  execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", made], { stdio: "inherit" });
});
