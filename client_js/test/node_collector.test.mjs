// Node against the real collector: killed again and again, every acknowledged record counts once.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openClient } from "../dist/node.js";
import { noCollector, startCollector } from "./collector.mjs";

const PROCESS = fileURLToPath(new URL("node_process.mjs", import.meta.url));

/** Lets a process record for some time, and kills it. How many it began and how many it was told. */
const killed = (setup, milliseconds) =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [PROCESS, JSON.stringify(setup)]);
    const marks = { "?": 0, "!": 0 };
    let complaint = "";
    child.stderr.on("data", (data) => (complaint += data));
    child.stdout.on("data", (data) => {
      if (marks["?"] === 0) setTimeout(() => child.kill("SIGKILL"), milliseconds);
      for (const mark of String(data)) marks[mark]++;
    });
    child.once("close", () => resolve({ ...marks, complaint }));
  });

test("a process that is killed five times loses nothing and counts nothing twice", { skip: noCollector }, async (t) => {
  const { folder, faults, metrics, url, counted } = await startCollector(t);
  const setup = { metrics, collector: url, stateDir: join(folder, "state") };
  let [begun, told] = [0, 0];
  for (const milliseconds of [120, 250, 60, 333, 181]) {
    faults.push("after", "before", 503, "garbage", "after");
    const marks = await killed(setup, milliseconds);
    assert.equal(marks.complaint, "");
    begun += marks["?"];
    told += marks["!"];
  }
  faults.length = 0;
  const client = await openClient({ ...setup, consent: true, doNotTrack: () => false });
  assert.ok(await client.flush(20), client.lastError);
  const { homepage } = counted();
  assert.ok(told > 50, `${told} records`);
  assert.ok(told <= homepage && homepage <= begun, `${told} told, ${begun} begun, ${homepage} counted`);
  const { metrics: account } = await client.inspect();
  assert.equal(account.homepage.reports, homepage);
  await client.close();
});
