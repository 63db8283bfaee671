// Node against the real collector: killed again and again, every acknowledged record counts once.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openClient } from "../dist/node.js";
import { noCollector, startCollector } from "./collector.mjs";

const PROCESS = fileURLToPath(new URL("node_process.mjs", import.meta.url));

// Each process is killed so many milliseconds after so many records, however slow the machine.
const MOMENTS = [[120, 15], [250, 15], [60, 0], [333, 15], [181, 15]];

/** Kills a process at a moment. How many records it began and how many it was told. */
const killed = (setup, milliseconds, records) =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [PROCESS, JSON.stringify(setup)]);
    const marks = { "?": 0, "!": 0 };
    let complaint = "";
    let timer;
    child.stderr.on("data", (data) => (complaint += String(data).replace(/^rappor-telemetry: .* not delivered since .*\n/gm, "")));
    child.stdout.on("data", (data) => {
      for (const mark of String(data)) marks[mark]++;
      if (marks["!"] >= records) timer ??= setTimeout(() => child.kill("SIGKILL"), milliseconds);
    });
    child.once("close", () => resolve({ ...marks, complaint }));
  });

test("a process that is killed five times loses nothing and counts nothing twice", { skip: noCollector }, async (t) => {
  const { folder, faults, metrics, url, counted } = await startCollector(t);
  const setup = { metrics, collector: url, stateDir: join(folder, "state") };
  let [begun, told] = [0, 0];
  for (const moment of MOMENTS) {
    faults.push("after", "before", 503, "garbage", "after");
    const marks = await killed(setup, ...moment);
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
