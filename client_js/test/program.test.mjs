// The program for audits, by the vectors, over its standard input and output.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { vectors } from "./vectors.mjs";

const PROGRAM = fileURLToPath(new URL("../bin/rappor-client-vectors.mjs", import.meta.url));

const ask = (commands) => {
  const input = commands.map((command) => JSON.stringify(command)).join("\n");
  const { stdout, status } = spawnSync(process.execPath, [PROGRAM], { input, encoding: "utf8", maxBuffer: 1 << 26 });
  assert.equal(status, 0);
  return stdout.trim().split("\n").map((line) => JSON.parse(line));
};

test("reports, the ledger and batches by the vectors, and errors as answers", () => {
  const [device, compiled, batches] = [vectors("device"), vectors("compiled").good, vectors("batches")];
  const reports = device.reports.map((row) => ({ do: "encode", ...row }));
  const [read, ...encoded] = ask([{ do: "metrics", document: compiled.metrics.document }, ...reports]);
  assert.equal(read.params_ids.homepage, device.reports[0].params_id);
  encoded.forEach((answer, i) => {
    const { params_id, cohort, bloom_bits, permanent_bits, ledger_digest, report_bits } = device.reports[i];
    const wanted = { params_id, cohort, bloom_bits, permanent_bits, ledger_digest, report_bits: [report_bits] };
    assert.deepEqual(answer, { ok: true, ...wanted });
  });
  const { secret, operations } = device.ledger;
  const records = operations.map((row) => ({ do: "record", secret, ...row }));
  const [, ...outcomes] = ask([{ do: "metrics", document: compiled.ledger.document }, ...records]);
  assert.deepEqual(outcomes.map(({ outcome }) => outcome), operations.map(({ outcome }) => outcome));
  assert.ok(outcomes.every(({ outcome, report }) => Boolean(report) === outcome.startsWith("queued")));
  const [decoded] = ask([{ do: "decode", body: batches[0].binary }]);
  const [{ json, binary }, wrong, unknown] = ask([{ do: "batch", ...decoded }, { do: "decode", body: "00" }, { do: "constructor" }]);
  assert.deepEqual([json, binary], [batches[0].json, batches[0].binary]);
  assert.deepEqual([wrong.ok, wrong.error, unknown.ok], [false, "WireFormatError", false]);
});

test("fresh reports have the chances that the metric promises", () => {
  // 20,000 bits a chance; the band is 6 standard errors wide: a false alarm in 10^8 runs
  const { metrics } = vectors("compiled").good;
  const ones = (text) => [...Buffer.from(text, "hex")].flatMap((byte) => [...Array(8).keys()].map((i) => (byte >> i) & 1));
  const secret = "0f".repeat(32);
  const [, told] = ask([{ do: "metrics", document: metrics.document }, { do: "encode", metric: "homepage", secret, value: "x", count: 400 }]);
  const { p2, q2 } = metrics.document.metrics[0].definition.params;
  const permanent = ones(told.permanent_bits);
  for (const [bit, chance] of [[1, p2 / 65536], [0, q2 / 65536]]) {
    const shown = told.report_bits.flatMap((report) => ones(report).filter((_, i) => permanent[i] === bit));
    const share = shown.reduce((sum, value) => sum + value, 0) / shown.length;
    assert.ok(Math.abs(share - chance) < 6 * Math.sqrt((chance * (1 - chance)) / shown.length), `${share} ${chance}`);
  }
});
