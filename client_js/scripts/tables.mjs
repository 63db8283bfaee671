// Writes the entry /domains: the public code table of the package, which is that of rappor_core
// (test/package.long.mjs). `npm run build` runs it after the compiler.

import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";

const here = (path) => new URL(`../${path}`, import.meta.url);

const text = readFileSync(here("tables/domains.json"), "utf8").trimEnd();
const table = JSON.stringify({ sha256: createHash("sha256").update(text).digest("hex"), text });
writeFileSync(here("dist/domains.js"), `export const domains = ${table};\n`);
writeFileSync(here("dist/cjs/domains.js"), `exports.domains = ${table};\n`);
for (const folder of ["dist", "dist/cjs"]) copyFileSync(here("src/domains.d.ts"), here(`${folder}/domains.d.ts`));
