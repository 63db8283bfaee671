// Builds dist/production from dist: what an app ships. `npm run build` runs it after the compiler.
//
// A module X.js with an X.production.js alongside it is replaced by that: no texts (messages are
// codes), no checks that `rappor metrics compile` or a development build has made. The entries
// share their common code. Private names are not shortened (README.md, "Size and speed").

import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));
export const DIST = join(ROOT, "dist");
export const ENTRIES = ["index", "browser", "react_native", "places", "numbers", "pairs", "discover", "domains", "flows"];
export const ALONE = ["relay"]; // shares no code: another entry would divide the chunks of all others further

export const substitutes = {
  name: "substitutes",
  setup(building) {
    building.onResolve({ filter: /^\..*\.js$/ }, ({ path, resolveDir }) => {
      const other = resolve(resolveDir, path.replace(/\.js$/, ".production.js"));
      return existsSync(other) ? { path: other } : undefined;
    });
  },
};

/** Bundles of some entries, minified: names and texts; and the bytes that each module takes. sourcemap: with maps. */
export const produce = async (entries, sourcemap = false) => {
  const { metafile, outputFiles } = await build({
    entryPoints: entries.map((name) => join(DIST, `${name}.js`)),
    outdir: join(DIST, "production"), write: false, bundle: true, splitting: entries.length > 1,
    format: "esm", target: "es2022", platform: "browser", minify: true, legalComments: "none",
    sourcemap, plugins: [substitutes], metafile: true,
  });
  // a chunk that is imported for its effects alone has none: app's bundlers warn of such an import
  const bare = /import"\.\/chunk-\w+\.js";/g;
  const files = outputFiles.map(({ path, text }) => [basename(path), text.replaceAll(bare, (found) => " ".repeat(found.length))]);
  const modules = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs));
  return { files: new Map(files), modules: modules.map(([name, { bytesInOutput }]) => [name, bytesInOutput]) };
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = join(DIST, "production");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const entries of [ENTRIES, ...ALONE.map((name) => [name])]) {
    const { files } = await produce(entries, true);
    for (const [name, code] of files) writeFileSync(join(folder, name), code);
  }
}
