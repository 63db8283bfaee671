/** What a device remembers: one document for it, and one for each line of the ledger. */

import { own } from "./bytes.js";
import type { Period } from "./days.js";
import type { Params } from "./privacy.js";

/** A number in JSON; null represents infinity. */
export type Bound = number | null;

export const boundOf = (value: number): Bound => (value === Infinity ? null : value);
export const valueOf = (bound: Bound): number => bound ?? Infinity;

/** The document `device`. */
export interface DeviceState {
  version: 1;
  /** 64 hexadecimal digits while the person consents. Private. */
  secret: string | null;
  /** Tells a damaged secret. */
  check: string | null;
  /** Nats, infinite (null) where the device began without a bound; undefined before that. */
  budget?: Bound;
  /** Nats that each line may cost: the sum is what the budget bounds. */
  committed: Record<string, Bound>;
  counters: Record<string, number>;
  /** Number of the next queued report. */
  next: number;
  /** Reports that wait, queued or in batches. */
  waiting: number;
  /** When the next batch leaves, seconds since 1970. */
  sendAt: number | null;
  /** Since when (seconds since 1970) nothing could be delivered, and why. */
  failing?: Failing | undefined;
  /** Metrics that the collector has stopped: reason, params_id and the day of the next report. */
  stops?: Record<string, string>;
}

export interface Failing {
  readonly since: number;
  readonly why: string;
}

/** What a metric promised when this device first used it. */
export interface Agreed {
  epsilon_infinity: Bound;
  epsilon_one: number;
  lifetime_epsilon: number;
  max_memoized_values: number;
  max_reports: Bound;
  reports_per_day: number;
  /** "" for mode `window`, which is bounded by the time between two reports. */
  period: Period | "";
  reports_per_period: Bound;
  /** In any `window` periods in a row: 2 where turns are redrawn in each block. */
  reports_in_window: number;
}

/** A memoized permanent response; its key is a keyed digest, never the value. */
export interface Entry {
  params: Params;
  cost: Bound;
  reports: number;
}

/** Reports counted under one name. used: runs of periods that are full, first and last. */
export interface Counts {
  unit: Period;
  periods: Record<string, number>;
  used: [number, number][];
}

/** The document `line/NAME`. past*: of secrets that were wiped. */
export interface LineState {
  agreed: Agreed;
  entries: Record<string, Entry>;
  counts: Record<string, Counts>;
  life: number;
  note: string | null;
  pastValues: number;
  /** Undefined where an earlier version wiped: then as `pastValues`. */
  pastAnswers?: number;
  pastCost: Bound;
  pastSpent: number;
  pastReports: number;
}

/** The document `queue/NUMBER`: a report, ready for the wire. bits: base64. */
export interface QueuedReport {
  metric: string;
  params_id: string;
  cohort: number;
  day: number;
  bits: string;
}

/** The document `batch/ID`: bytes that never change again. metrics: of each report, in order. */
export interface StoredBatch {
  id: string;
  metrics: string[];
  lastDay: number;
  contentType: string;
  encoding: "gzip" | "";
  body: string;
  reports: readonly QueuedReport[];
}

export const DEVICE = "device";
export const LINE = "line/";
export const QUEUE = "queue/";
export const BATCH = "batch/";

export const newDevice = (): DeviceState => ({
  version: 1,
  secret: null,
  check: null,
  committed: {},
  counters: {},
  next: 0,
  waiting: 0,
  sendAt: null,
});

type Fields = Record<string, unknown>;
const isNumber = (value: unknown): boolean => typeof value === "number" && value === value;
const isBound = (value: unknown): boolean => value === null || isNumber(value);
const every = (record: unknown, test: (value: never) => boolean): boolean =>
  typeof record === "object" && record !== null && (Object.values(record) as never[]).every(test);

/** Whether a stored device has all that is decided by; its secret apart (`secretIsWhole`). */
export const deviceIsWhole = (device: DeviceState): boolean =>
  every(device, () => true) &&
  device.version === 1 &&
  every(device.committed, isBound) &&
  every(device.counters, isNumber) &&
  every(device.stops ?? {}, (stop: unknown) => typeof stop === "string") &&
  every([device.next, device.waiting, device.sendAt ?? 0, device.budget ?? 0], isNumber);

/** Whether a stored line has all that the ledger decides by: what is not a number bounds nothing. */
export const lineIsWhole = (line: LineState): boolean =>
  every(line, () => true) &&
  every(line.agreed, (value: unknown) => isBound(value) || typeof value === "string") &&
  Object.keys(line.agreed).length === 9 &&
  every(line.entries, (entry: Fields | null) => every(entry?.["params"], () => true) && isBound(entry!["cost"]) && isNumber(entry!["reports"])) &&
  every(line.counts, (counts: Counts | null) => every(counts?.periods, isNumber) && every(counts!.used, (run) => every(run, isNumber))) &&
  every([line.life, line.pastValues, line.pastCost ?? 0, line.pastSpent ?? 0, line.pastReports], isNumber) &&
  typeof (line.note ?? "") === "string";

export const count = (device: DeviceState, name: string, number = 1): void => {
  device.counters[name] = (own(device.counters, name) ?? 0) + number;
};

/** What a transaction reads: documents by key, and those under a prefix (`Transaction.list`). */
export interface Scope {
  readonly keys: readonly string[];
  readonly prefix?: string;
}

/** One transaction of a `Storage`: what it read, and what it will write if nothing is thrown. */
export interface Transaction {
  /** A document as stored, a copy; only those that the transaction was opened for. */
  get<T>(key: string): T | undefined;
  /** Keys and documents under the prefix that the transaction was opened for, by key. */
  list<T>(): [string, T][];
  put(key: string, document: object): void;
  remove(key: string): void;
  /** What is written must survive a loss of power, too: it is what a guarantee hangs on. */
  through(): void;
}
