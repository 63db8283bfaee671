/** Reading batches, strictly, as a collector does: for tests and audits, not for devices. */

import { BINARY_TYPE } from "./batch.js";
import { JSON_TYPE } from "./batch_json.js";
import { fromBase64, toBase64, toHex, utf8 } from "./bytes.js";
import { dayOf } from "./days.js";
import { WireFormatError } from "./errors.js";
import type { QueuedReport } from "./state.js";
import { parseStrictJson } from "./strict_json.js";

/** A batch that was read. */
export interface Batch {
  readonly id: string;
  readonly reports: readonly QueuedReport[];
}

const MAX_REPORTS = 10_000;
const MAX_BYTES = 8192;
const LAST_DAY = 2_932_896; // 9999-12-31

const wrong = (what: string): never => {
  throw new WireFormatError(what);
};

const utf8Text = (bytes: Uint8Array): string => {
  try {
    return decodeURIComponent(toHex(bytes).replace(/../g, "%$&"));
  } catch {
    return wrong("not UTF-8");
  }
};

/** Read a body. Throws WireFormatError for anything that is not exactly a batch. */
export const decodeBatch = (body: Uint8Array, contentType: string): Batch => {
  if (contentType === JSON_TYPE) return decodeJson(body);
  return contentType === BINARY_TYPE ? decodeBinary(body) : wrong("unknown content type");
};

const exactly = (value: unknown, keys: readonly string[]): Record<string, unknown> => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return wrong("not an object");
  if (Object.keys(value).sort().join() !== [...keys].sort().join()) wrong("missing or unknown fields");
  return value as Record<string, unknown>;
};

const hex128 = (value: unknown): string =>
  typeof value === "string" && /^[0-9a-f]{32}$/.test(value) ? value : wrong("not 32 hexadecimal digits");

const decodeJson = (body: Uint8Array): Batch => {
  const top = exactly(parseStrictJson(utf8Text(body)), ["version", "batch_id", "reports"]);
  const { version, batch_id: id, reports } = top;
  if (version !== 1) wrong("unknown version");
  if (!Array.isArray(reports) || !reports.length || reports.length > MAX_REPORTS) return wrong("reports");
  return { id: hex128(id), reports: reports.map(reportOf) };
};

const reportOf = (value: unknown): QueuedReport => {
  const fields = exactly(value, ["metric", "params_id", "cohort", "day", "bits"]);
  const { metric, cohort, day, bits } = fields;
  if (typeof metric !== "string" || !metric) return wrong("metric");
  if (utf8(metric).length > 128) wrong("metric");
  if (!Number.isInteger(cohort) || (cohort as number) < 0 || (cohort as number) > 65_535) wrong("cohort");
  const number = typeof day === "string" ? dayOf(day) : NaN;
  if (!(number >= 0)) wrong("day");
  return {
    metric,
    params_id: hex128(fields["params_id"]),
    cohort: cohort as number,
    day: number,
    bits: base64(bits),
  };
};

const base64 = (text: unknown): string => {
  if (typeof text !== "string" || !/^[A-Za-z0-9+/]+={0,2}$/.test(text) || text.length % 4) return wrong("bits");
  const bytes = fromBase64(text);
  if (bytes.length > MAX_BYTES || toBase64(bytes) !== text) wrong("bits");
  return text;
};

const decodeBinary = (body: Uint8Array): Batch => {
  let at = 0;
  const take = (size: number): Uint8Array => {
    if (at + size > body.length) wrong("the body is cut");
    return body.subarray(at, (at += size));
  };
  const number = (size: number): number => take(size).reduce((sum, byte) => sum * 256 + byte, 0);
  if (String.fromCharCode(...take(4)) !== "RAPR") wrong("another magic");
  if (number(1) !== 1) wrong("unknown version");
  const id = toHex(take(16));
  const reports: QueuedReport[] = [];
  for (let groups = number(2); groups > 0; groups--) {
    const metric = utf8Text(take(number(1)));
    if (!metric || utf8(metric).length > 128) wrong("metric");
    const params_id = toHex(take(16));
    const [day, size, rows] = [number(4), number(2), number(4)];
    if (day > LAST_DAY || size < 1 || size > MAX_BYTES || rows < 1) wrong("a group");
    if (reports.length + rows > MAX_REPORTS) wrong("too many reports");
    for (let row = 0; row < rows; row++) {
      reports.push({ metric, params_id, cohort: number(2), day, bits: toBase64(take(size)) });
    }
  }
  if (at !== body.length) wrong("bytes follow the last group");
  return reports.length ? { id, reports } : wrong("no reports");
};
