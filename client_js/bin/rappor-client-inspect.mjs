#!/usr/bin/env node
// What a state directory holds and has told: rappor-client-inspect STATE_DIR [--json]. No value is in it.

import { inspectState, render } from "../dist/node.js";

const words = process.argv.slice(2);
const folders = words.filter((word) => word !== "--json");
if (folders.length !== 1) {
  console.error("usage: rappor-client-inspect STATE_DIR [--json]");
  process.exit(2);
}
try {
  const account = inspectState(folders[0]);
  console.log(words.length > 1 ? JSON.stringify(account, null, 2) : render(account));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
