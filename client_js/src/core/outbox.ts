/** From queued reports to stored batches, and what becomes of them. Each act is one transaction. */

import { BINARY_TYPE, encodeBinary, gzipPadded, sorted } from "./batch.js";
import { fromBase64, toBase64, toHex } from "./bytes.js";
import type { Randomness } from "./device.js";
import { BATCH, count, DEVICE, type DeviceState, type QueuedReport, type StoredBatch, type Transaction } from "./state.js";

/** Choices about delivery; nothing here changes what a report says. Seconds and bytes. */
export interface Delivery {
  /** From the first waiting report to sending, on average; 0 sends at once. */
  readonly meanDelay: number;
  /** Most reports in a batch, which holds one metric. */
  readonly batchReports: number;
  /** Bodies are padded to a multiple of so many bytes; 0 leaves them as they are. */
  readonly padTo: number;
  /** For one exchange. */
  readonly timeout: number;
  /** Reports that wait at most, and bytes of their batches; past them the oldest go, counted. */
  readonly maxQueued: number;
  readonly maxQueuedBytes: number;
  readonly maxAgeDays: number;
  /** Bounds of the pause after failures (full jitter). */
  readonly firstPause: number;
  readonly longestPause: number;
  readonly longestRetryAfter: number;
}

export const DELIVERY: Delivery = {
  meanDelay: 600,
  batchReports: 100,
  padTo: 256,
  timeout: 10,
  maxQueued: 20_000,
  maxQueuedBytes: 4 << 20,
  maxAgeDays: 90,
  firstPause: 1,
  longestPause: 600,
  longestRetryAfter: 3600,
};

const MAX_BODY = 58_000; // a request that outlives its page may have 64 KiB, with all others

/** The items in random order: sorted by 8 random bytes each. */
export const shuffled = <T>(items: readonly T[], randomness: Randomness): T[] =>
  items
    .map((item) => [toHex(randomness(8)), item] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, item]) => item);

/** Store a batch under a new id: bytes that never change again. */
const makeBatch = (
  store: Transaction,
  reports: readonly QueuedReport[],
  delivery: Delivery,
  randomness: Randomness,
): void => {
  const id = toHex(randomness(16));
  const plain = encodeBinary(id, reports);
  const body = delivery.padTo ? gzipPadded(plain, delivery.padTo) : plain;
  store.put(BATCH + id, {
    id,
    metrics: reports.map((report) => report.metric),
    lastDay: Math.max(...reports.map((report) => report.day)),
    contentType: BINARY_TYPE,
    encoding: delivery.padTo ? "gzip" : "",
    body: toBase64(body),
    reports,
  } satisfies StoredBatch);
};

const isWhole = (report: QueuedReport): boolean => {
  try {
    return !!report.metric && Number.isInteger(report.day + report.cohort) && encodeBinary("", [report]).length > 0;
  } catch {
    return false;
  }
};

/** Whether a stored batch is what `makeBatch` stores. */
const batchIsWhole = (batch: StoredBatch): boolean => {
  try {
    return batch.reports.every(isWhole) && batch.metrics.length === batch.reports.length && bodyOf(batch).length > 0;
  } catch {
    return false;
  }
};

/** Those that are whole, and those that are damaged. */
const sifted = <T>(rows: readonly [string, T][], test: (document: T) => boolean): [[string, T][], [string, T][]] => {
  const [whole, damaged]: [[string, T][], [string, T][]] = [[], []];
  for (const row of rows) (test(row[1]) ? whole : damaged).push(row);
  return [whole, damaged];
};

/** Take documents out, and count their reports under a reason. How many these were. */
const drop = (store: Transaction, reason: string, rows: readonly (readonly [string, QueuedReport | StoredBatch])[]): number => {
  const device = store.get<DeviceState>(DEVICE);
  if (!device || !rows.length) return 0;
  let reports = 0;
  for (const [key, document] of rows) {
    store.remove(key);
    reports += (document as StoredBatch | null)?.metrics?.length || 1;
  }
  device.waiting = Math.max(0, device.waiting - reports);
  count(device, `dropped:${reason}`, reports);
  store.put(DEVICE, device);
  return reports;
};

/**
 * Turn what is queued into batches of one metric; drop what is damaged. How many that were.
 * store: opened for the queue and `device`.
 */
export const compose = (store: Transaction, delivery: Delivery, randomness: Randomness): number => {
  const [whole, damaged] = sifted(store.list<QueuedReport>(), isWhole);
  const dropped = drop(store, "damaged", damaged);
  const groups = new Map<string, QueuedReport[]>();
  for (const [key, report] of whole) {
    groups.set(report.metric, [...(groups.get(report.metric) ?? []), report]);
    store.remove(key);
  }
  store.through();
  for (const group of groups.values()) {
    const each = group[0]!.bits.length + 44;
    const most = Math.max(1, Math.min(delivery.batchReports, Math.floor(MAX_BODY / each)));
    const order = shuffled(group, randomness);
    for (let at = 0; at < order.length; at += most) {
      makeBatch(store, sorted(order.slice(at, at + most)), delivery, randomness);
    }
  }
  return dropped;
};

/**
 * The ids of the batches that wait, and how many reports were dropped: what is damaged, and past
 * the bounds the oldest. store: opened for the batches and `device`.
 */
export const outstanding = (store: Transaction, { maxQueued, maxQueuedBytes }: Delivery): { ids: string[]; dropped: number } => {
  const [whole, damaged] = sifted(store.list<StoredBatch>(), batchIsWhole);
  const kept: string[] = [];
  const gone: [string, StoredBatch][] = [];
  let [reports, bytes] = [0, 0];
  for (const [key, batch] of whole.sort(([, a], [, b]) => b.lastDay - a.lastDay)) {
    reports += batch.metrics.length;
    bytes += batch.body.length * 0.75;
    if (reports > maxQueued || bytes > maxQueuedBytes) gone.push([key, batch]);
    else kept.push(batch.id);
  }
  return { ids: kept, dropped: drop(store, "damaged", damaged) + drop(store, "queue_full", gone) };
};

/** Forget a batch, and count what became of each of its reports; nothing, if it is gone already. */
export const removeBatch = (store: Transaction, id: string, outcome: (metric: string, at: number) => string): void => {
  const batch = store.get<StoredBatch>(BATCH + id);
  const device = store.get<DeviceState>(DEVICE);
  if (!batch || !device) return;
  batch.metrics.forEach((metric, at) => count(device, outcome(metric, at)));
  device.waiting = Math.max(0, device.waiting - batch.metrics.length);
  store.remove(BATCH + id);
  store.put(DEVICE, device);
};

/** Put two batches of half the reports in the place of one. False for one report. */
export const split = (store: Transaction, id: string, delivery: Delivery, randomness: Randomness): boolean => {
  const batch = store.get<StoredBatch>(BATCH + id);
  if (!batch) return true;
  if (batch.reports.length < 2) return false;
  const order = shuffled(batch.reports, randomness);
  const middle = order.length >> 1;
  for (const half of [order.slice(0, middle), order.slice(middle)]) {
    makeBatch(store, sorted(half), delivery, randomness);
  }
  store.remove(BATCH + id);
  store.through();
  return true;
};

/** The bytes of a stored batch. */
export const bodyOf = (batch: StoredBatch): Uint8Array => fromBase64(batch.body);
