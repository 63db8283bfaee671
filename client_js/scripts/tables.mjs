// Writes dist/domains.js: the public code table of the package, from the one that it is trained and
// decoded with. `npm run build` runs it after the compiler.

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const TABLE = new URL("../../rappor_core/codes/tables/domains.json", import.meta.url);
const DIST = new URL("../dist/", import.meta.url);

const text = readFileSync(TABLE, "utf8").trimEnd();
const sha256 = createHash("sha256").update(text).digest("hex");
mkdirSync(DIST, { recursive: true });
writeFileSync(new URL("domains.js", DIST), `export const domains = ${JSON.stringify({ sha256, text })};\n`);
copyFileSync(new URL("../src/domains.d.ts", import.meta.url), new URL("domains.d.ts", DIST));
