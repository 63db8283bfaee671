#!/usr/bin/env node
// Speaks JSON, one command a line, for vectors and audits: see client_js/README.md, "Commands".

import { createInterface } from "node:readline";
import { webcrypto } from "node:crypto";
import { BINARY_TYPE, encodeBinary } from "../dist/core/batch.js";
import { encodeJson } from "../dist/core/batch_json.js";
import { fromHex, toHex } from "../dist/core/bytes.js";
import { dayOf } from "../dist/core/days.js";
import { decodeBatch } from "../dist/core/decode.js";
import { secretCheck } from "../dist/core/derive.js";
import { MetricEncoder } from "../dist/core/device.js";
import { LEVELS, pinBudget } from "../dist/core/ledger.js";
import { metricOf } from "../dist/core/metrics.js";
import { readMetrics } from "../dist/core/reading.js";
import { Recorder } from "../dist/core/recorder.js";
import { newDevice } from "../dist/core/state.js";
import { discover } from "../dist/discover.js";
import { domains } from "../dist/domains.js";
import { flows } from "../dist/flows.js";
import { numbers } from "../dist/numbers.js";
import { pairs } from "../dist/pairs.js";
import { places } from "../dist/places.js";
import { Changes } from "../dist/ports/storage.js";

const system = (numBytes) => webcrypto.getRandomValues(new Uint8Array(numBytes));
const randomnessOf = (random) => {
  if (random === undefined) return system;
  const bytes = fromHex(random);
  return (numBytes) => bytes.subarray(0, numBytes);
};

let metrics;
let devices = new Map();

const COMMANDS = {
  /** Read compiled metrics: names and params_ids. */
  metrics({ document }) {
    metrics = readMetrics(document, places(), [numbers(), pairs(), discover({ domains }), flows()]);
    devices = new Map();
    return { params_ids: Object.fromEntries([...metrics.metrics].map(([name, { paramsId }]) => [name, paramsId])) };
  },
  /** Every step from a value to a report, for one secret; `count` fresh reports. */
  encode({ metric, secret, value, random, count = 1 }) {
    const device = new MetricEncoder(metricOf(metrics, metric), fromHex(secret), randomnessOf(random));
    const bits = device.valueBits(value);
    return {
      params_id: device.metric.paramsId,
      cohort: device.cohort,
      bloom_bits: toHex(bits),
      permanent_bits: toHex(device.permanentBits(bits)),
      ledger_digest: device.digest(bits),
      report_bits: Array.from({ length: count }, () => toHex(device.reportBits(bits))),
    };
  },
  /** Record on a device with a ledger, kept in memory by its secret: the outcome and the report. */
  record({ metric, secret, value, day, random, platform = metricOf(metrics, metric).platforms[0] }) {
    const state = devices.get(secret) ?? new Map();
    devices.set(secret, state);
    const changes = new Changes(state, "queue/");
    const device = changes.get("device") ?? { ...newDevice(), secret, check: toHex(secretCheck(fromHex(secret))) };
    pinBudget(device, metrics.budget);
    changes.put("device", device);
    const recorder = new Recorder(metrics, LEVELS.standard, randomnessOf(random), platform);
    const outcome = recorder.record(changes, metric, value, dayOf(day));
    const queued = [...changes.written].find(([key]) => key.startsWith("queue/"));
    changes.applyTo(state);
    return { outcome, report: queued ? JSON.parse(queued[1]) : null };
  },
  /** A batch in both forms. reports: as `record` gives them. */
  batch({ batch_id: id, reports }) {
    return { json: new TextDecoder().decode(encodeJson(id, reports)), binary: toHex(encodeBinary(id, reports)) };
  },
  /** Read a body; an error where it is none. */
  decode({ body, content_type: type = BINARY_TYPE }) {
    const { id, reports } = decodeBatch(fromHex(body), type);
    return { batch_id: id, reports };
  },
};

const answer = (line) => {
  try {
    const command = JSON.parse(line);
    if (!Object.hasOwn(COMMANDS, command.do)) throw new TypeError(`unknown command; known are ${Object.keys(COMMANDS)}`);
    return { ok: true, ...COMMANDS[command.do](command) };
  } catch (error) {
    return { ok: false, error: error.name, message: error.message };
  }
};

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim()) process.stdout.write(`${JSON.stringify(answer(line))}\n`);
}
