/** What a device remembers: one document for it, and one for each line of the ledger. */

import { own } from "./bytes.js";
import type { Period } from "./days.js";
import type { Params } from "./privacy.js";

/** A number in JSON; null stands for infinity. */
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
}

/** A memoised permanent response; its key is a keyed digest, never the value. */
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

export const count = (device: DeviceState, name: string, number = 1): void => {
  device.counters[name] = (own(device.counters, name) ?? 0) + number;
};

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
