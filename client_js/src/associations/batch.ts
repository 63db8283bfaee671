/** Batches of version 2: two linked reports (docs/protocol.md, "Linked reports"). */

import { bigEndian, concat, fromBase64, fromHex, utf8 } from "../core/bytes.js";
import type { QueuedReport } from "../core/state.js";

/** One linked report. reports: both, in the order of the association; of one day. */
export const encodeLinked = (id: string, reports: readonly QueuedReport[]): Uint8Array => {
  const [names, bits] = [reports.map(({ metric }) => utf8(metric)), reports.map((report) => fromBase64(report.bits))];
  const heads = reports.flatMap(({ params_id: params }, i) => [
    bigEndian(names[i]!.length, 1), names[i]!, fromHex(params), bigEndian(bits[i]!.length, 2),
  ]);
  const cohort = Math.max(...reports.map((report) => report.cohort)); // a metric with one cohort has 0
  return concat([
    utf8("RAPR"), bigEndian(2, 1), fromHex(id), bigEndian(1, 2),
    ...heads, bigEndian(reports[0]!.day, 4), bigEndian(1, 4), bigEndian(cohort, 2), ...bits,
  ]);
};
