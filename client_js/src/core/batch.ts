/** Batches as bytes (docs/protocol.md, "Batch, binary"), and their padding. */

import { bigEndian, concat, fromBase64, fromHex, utf8 } from "./bytes.js";
import type { QueuedReport } from "./state.js";

export const BINARY_TYPE = "application/vnd.rappor.batch";

/** The binary form: a run of reports alike in all but cohort and bits is one group. */
export const encodeBinary = (id: string, reports: readonly QueuedReport[]): Uint8Array => {
  const groups: Uint8Array[][] = [];
  let alike = "";
  for (const report of reports) {
    const bits = fromBase64(report.bits);
    const key = `${report.metric} ${report.params_id} ${report.day} ${bits.length}`;
    if (key !== alike) {
      alike = key;
      const name = utf8(report.metric);
      groups.push([
        concat([
          Uint8Array.of(name.length),
          name,
          fromHex(report.params_id),
          bigEndian(report.day, 4),
          bigEndian(bits.length, 2),
        ]),
      ]);
    }
    groups.at(-1)!.push(concat([bigEndian(report.cohort, 2), bits]));
  }
  const parts = groups.flatMap(([head, ...rows]) => [head!, bigEndian(rows.length, 4), ...rows]);
  return concat([utf8("RAPR"), Uint8Array.of(1), fromHex(id), bigEndian(groups.length, 2), ...parts]);
};

/** By what they say: the order of reports in a batch reveals nothing else. */
export const sorted = (reports: readonly QueuedReport[]): QueuedReport[] => {
  const key = (report: QueuedReport): string =>
    [report.metric, report.params_id, bigEndian(report.day, 4), bigEndian(report.cohort, 2), report.bits].join();
  const keyed = reports.map((report) => [key(report), report] as const);
  return keyed.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, report]) => report);
};

/** CRC-32 of some bytes (RFC 1952, part 8). */
const crc32 = (data: Uint8Array): number => {
  let crc = -1;
  for (const byte of data) {
    crc ^= byte;
    for (let i = 0; i < 8; i++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
};

const littleEndian = (value: number, size: number): Uint8Array => bigEndian(value, size).reverse();

/**
 * Gzip with zeros in the header's extra field up to a multiple of `padTo` bytes.
 *
 * Nothing is compressed (reports are random bits): gzip is the envelope that may be padded.
 */
export const gzipPadded = (data: Uint8Array, padTo: number): Uint8Array => {
  const blocks: Uint8Array[] = [];
  for (let at = 0; at < data.length; at += 65535) {
    const block = data.subarray(at, at + 65535);
    const last = at + 65535 >= data.length ? 1 : 0;
    blocks.push(Uint8Array.of(last), littleEndian(block.length, 2), littleEndian(65535 - block.length, 2), block);
  }
  blocks.push(littleEndian(crc32(data), 4), littleEndian(data.length, 4));
  const body = concat(blocks);
  const zeros = (padTo - ((16 + body.length) % padTo)) % padTo;
  const header = Uint8Array.of(0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255);
  const extra = [littleEndian(zeros + 4, 2), utf8("RP"), littleEndian(zeros, 2), new Uint8Array(zeros)];
  return concat([header, ...extra, body]);
};
