// What weighs: npm run size. The production build of the browser's client by module: minified, and
// what it adds to the gzipped whole (the whole less the whole without it: what repeats is nobody's).

import { gzipSync } from "node:zlib";
import { basename, join } from "node:path";
import { build, transform } from "esbuild";
import { DIST, produce, substitutes } from "./production.mjs";

const gzipped = (text) => gzipSync(text, { level: 9 }).length;

/** [module, its code in the bundle, minified] */
const modulesOf = async (entry) => {
  const { outputFiles } = await build({
    entryPoints: [join(DIST, `${entry}.js`)], write: false, bundle: true, format: "esm", target: "es2022", platform: "browser",
    minifySyntax: true, minifyIdentifiers: true, legalComments: "none", plugins: [substitutes],
  });
  const [, ...parts] = outputFiles[0].text.split(/^\/\/ (\S+\.js)$/m);
  const pairs = parts.flatMap((name, at) => (at % 2 ? [] : [[basename(name), parts[at + 1]]]));
  return Promise.all(pairs.map(async ([name, code]) => [name, (await transform(code.replace(/^export \{[^}]*\};/m, ""), { minifyWhitespace: true, legalComments: "none" })).code]));
};

const modules = await modulesOf("browser");
const whole = gzipped(modules.map(([, code]) => code).join(""));
const rows = modules.map(([name, code]) => [code.length, whole - gzipped(modules.filter(([other]) => other !== name).map(([, text]) => text).join("")), name]);
for (const [bytes, adds, name] of rows.sort((a, b) => b[1] - a[1])) console.log(`${String(bytes).padStart(6)} ${String(adds).padStart(6)}  ${name}`);
for (const entries of [["browser"], ["browser", "places"]]) {
  const code = [...(await produce(entries)).files.values()].join("");
  console.log(`${entries.join(" and ")}: ${code.length} bytes minified, ${gzipped(code)} gzipped`);
}
