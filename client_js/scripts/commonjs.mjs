// Finishes dist/cjs, which the compiler wrote for `require`: its kind of modules is said, and the
// library of Keccak, which is of ES modules alone, is in it. And a folder for each entry, by which those
// find it who do not read `exports`: Metro before 0.82 (React Native before 0.79), TypeScript's `node10`,
// older Jest. `npm run build` runs it after the compiler.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { DIST, ROOT } from "./production.mjs";

writeFileSync(join(DIST, "cjs", "package.json"), '{ "type": "commonjs" }\n');
await build({
  entryPoints: [join(DIST, "core", "shake.js")], outfile: join(DIST, "cjs", "core", "shake.js"),
  bundle: true, format: "cjs", target: "es2022", platform: "neutral", sourcemap: true,
});

const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
for (const [entry, { require: given }] of Object.entries(exports)) {
  if (entry === "." || !given) continue;
  mkdirSync(join(ROOT, entry), { recursive: true });
  const [main, types] = [given.node ?? given.default, given.types].map((path) => path.replace(".", ".."));
  writeFileSync(join(ROOT, entry, "package.json"), `${JSON.stringify({ main, types, sideEffects: false })}\n`);
}
