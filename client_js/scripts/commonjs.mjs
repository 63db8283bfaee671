// Finishes dist/cjs, which the compiler wrote for `require`: its kind of modules is said, and the
// library of Keccak, which is of ES modules alone, is in it. `npm run build` runs it after the compiler.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { DIST } from "./production.mjs";

writeFileSync(join(DIST, "cjs", "package.json"), '{ "type": "commonjs" }\n');
await build({
  entryPoints: [join(DIST, "core", "shake.js")], outfile: join(DIST, "cjs", "core", "shake.js"),
  bundle: true, format: "cjs", target: "es2022", platform: "neutral", sourcemap: true,
});
