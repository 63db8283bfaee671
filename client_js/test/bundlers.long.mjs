// What an app ships, by the bundlers that apps use: one size, and no part that it does not import.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";
import resolve from "@rollup/plugin-node-resolve";
import { rollup } from "rollup";
import { build as vite } from "vite";
import webpack from "webpack";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const CODE = 'import { openClient } from "rappor-telemetry-client/browser";\nglobalThis.openClient = openClient;\n';

const BUNDLERS = {
  async esbuild(entry) {
    const { outputFiles } = await esbuild.build({ entryPoints: [entry], bundle: true, minify: true, format: "esm", target: "es2022", write: false });
    return outputFiles.map(({ text }) => text);
  },
  async rollup(entry) {
    const bundle = await rollup({ input: entry, plugins: [resolve({ browser: true })], onwarn: ({ message }) => assert.fail(message) });
    const { output } = await bundle.generate({ format: "es" });
    return Promise.all(output.map(async ({ code }) => (await esbuild.transform(code, { minify: true })).code));
  },
  async webpack(entry, folder) {
    const compiler = webpack({ mode: "production", entry, target: ["web", "es2022"], output: { path: folder, filename: "webpack.js" }, performance: { hints: false } });
    const stats = await new Promise((done, fail) => compiler.run((error, made) => (error ? fail(error) : done(made))));
    assert.deepEqual(stats.toJson({ errors: true, warnings: true }).errors.concat(stats.toJson().warnings), []);
    return stats.toJson().assets.map(({ name }) => readFileSync(join(folder, name), "utf8"));
  },
  async vite(entry) {
    const { output } = await vite({ root: ROOT, configFile: false, logLevel: "error", build: { write: false, target: "es2022", rollupOptions: { input: entry } } });
    return output.map(({ code }) => code);
  },
};

test("esbuild, rollup, webpack and Vite make one file of the production build, within the bound", async (t) => {
  const folder = mkdtempSync(join(ROOT, "dist/app-")); // within the package, which finds itself by its name
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const entry = join(folder, "app.mjs");
  writeFileSync(entry, CODE);
  for (const [name, bundle] of Object.entries(BUNDLERS)) {
    const files = await bundle(entry, folder);
    assert.equal(files.length, 1, name);
    const size = gzipSync(files[0], { level: 9 }).length;
    t.diagnostic(`${name}: ${size} bytes gzipped`);
    assert.ok(size <= 18_150, `${name} ${size}`);
    assert.match(files[0], /not_sealed/, name);
    assert.doesNotMatch(files[0], /first promised less|value_negative/, name); // texts, numbers
  }
});
