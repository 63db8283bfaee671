// The helper for tests of an app works under vitest itself.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

test("an app's tests under vitest say what would be sent", () => {
  const program = join(ROOT, "node_modules", "vitest", "vitest.mjs");
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, "run", "--root", ROOT, "test/app_tests"], {
    cwd: ROOT, encoding: "utf8", env: { ...process.env, NO_COLOR: "1", CI: "1" },
  }); // prettier-ignore
  assert.equal(status, 0, stdout + stderr);
  assert.match(stdout, /Tests {2}4 passed/);
});
