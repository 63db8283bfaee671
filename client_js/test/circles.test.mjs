// No circle of files: no module imports one that imports it, types included.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";

const SOURCES = join(import.meta.dirname, "..", "src");

test("no module imports one that imports it", () => {
  const files = readdirSync(SOURCES, { recursive: true }).map(normalize).filter((name) => name.endsWith(".ts"));
  const imports = (file) =>
    [...readFileSync(join(SOURCES, file), "utf8").matchAll(/ from "(\.[^"]+)\.js"/g)]
      .map(([, path]) => `${join(dirname(file), path)}.ts`);
  const finished = new Set();
  const visit = (file, path) => {
    assert.ok(!path.includes(file), `a circle of files: ${[...path, file].join(" -> ")}`);
    if (finished.has(file)) return;
    for (const other of imports(file)) visit(other, [...path, file]);
    finished.add(file);
  };
  for (const file of files) visit(file, []);
});
