// Prints microseconds of the TypeScript client in Node as JSON; `scripts/speed.py` runs it.

import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { openClient } from "../../client_js/dist/node.js";
import { MetricEncoder } from "../../client_js/dist/core/device.js";
import { readMetrics } from "../../client_js/dist/index.js";
import { METRICS } from "../../client_js/test/witness.mjs";
const device = new MetricEncoder(readMetrics(METRICS).metrics.get("homepage"), new Uint8Array(32).fill(7), (n) => randomFillSync(new Uint8Array(n)));
let count = 0;
const encoded = (value) => { const bits = device.valueBits(value); device.digest(bits); device.reportBits(bits); };
const median = async (batches, number, act) => {
  const times = [];
  for (let i = 0; i < batches; i++) {
    const begun = performance.now();
    for (let j = 0; j < number; j++) await act();
    times.push(((performance.now() - begun) * 1000) / number);
  }
  return times.slice(batches / 4).sort((a, b) => a - b)[(batches * 3) >> 3];
};
const fresh = await median(40, 500, () => encoded("https://example.org/page/" + count++));
const known = await median(40, 2500, () => encoded("https://example.org/"));
const stateDir = mkdtempSync("/tmp/rappor-speed-");
const client = await openClient({ metrics: METRICS, stateDir, consent: true, collector: "http://127.0.0.1:9", doNotTrack: () => false, delivery: { meanDelay: 3600 } });
const durable = await median(40, 50, () => client.record("homepage", "value"));
await client.close();
rmSync(stateDir, { recursive: true });
console.log(JSON.stringify({ fresh, known, durable }));
