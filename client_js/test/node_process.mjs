// A process that records until it is killed, and says each acknowledged record on its output.

import { writeSync } from "node:fs";
import { openClient } from "../dist/node.js";

const { metrics, collector, stateDir } = JSON.parse(process.argv[2]);
const delivery = { meanDelay: 0.02, firstPause: 0.01, longestPause: 0.05, batchReports: 7 };
const client = await openClient({ metrics, collector, stateDir, consent: true, delivery, doNotTrack: () => false });
for (let i = 0; ; i++) {
  writeSync(1, "?");
  if (!(await client.record("homepage", `value ${i % 3}`))) throw new Error(client.lastRefusal);
  writeSync(1, "!");
  await new Promise((resolve) => setTimeout(resolve, 3));
}
