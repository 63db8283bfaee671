// What weighs: npm run size. The production build of the browser's client by module, then gzipped.

import { gzipSync } from "node:zlib";
import { basename } from "node:path";
import { produce } from "./production.mjs";

for (const entries of [["browser"], ["browser", "places"]]) {
  const { files, modules } = await produce(entries);
  if (entries.length === 1) {
    for (const [name, bytes] of modules.sort((a, b) => b[1] - a[1])) console.log(`${String(bytes).padStart(6)}  ${basename(name)}`);
  }
  const code = [...files.values()].join("");
  console.log(`${entries.join(" and ")}: ${code.length} bytes minified, ${gzipSync(code, { level: 9 }).length} gzipped`);
}
