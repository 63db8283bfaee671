/** The ledger: what this device may still reveal, decided before anything is sent. */

import { own } from "./bytes.js";
import { MAX_TOUCHED, PERIOD_DAYS } from "./days.js";
import type { MetricEncoder } from "./device.js";
import type { Metric } from "./metrics.js";
import { epsilonN } from "./privacy.js";
import { boundOf, LINE, valueOf, type Agreed, type DeviceState, type LineState, type Transaction } from "./state.js";

const ROUNDING = 1 + 1e-9; // epsilons are doubles; an equal one must not look larger

/** The person's own bounds, each taken together with the app's: the smaller one holds. */
export interface PrivacyLevel {
  readonly maxValues: number;
  readonly maxReportsPerPeriod: number;
  readonly maxEpsilon: number;
}

export const LEVELS: Record<"standard" | "strict", PrivacyLevel> = {
  standard: { maxValues: Infinity, maxReportsPerPeriod: Infinity, maxEpsilon: Infinity },
  strict: { maxValues: 2, maxReportsPerPeriod: 1, maxEpsilon: Infinity },
};

/** The promise in a definition. */
export const promiseOf = (metric: Metric): Agreed => {
  const { location, period, max_reports: most, max_reports_per_period: each } = metric.definition;
  const window = location?.mode === "window";
  const inPeriod = !location ? each : location.mode === "memo" ? location.slots.length : 1 / (location.window || 1);
  return {
    epsilon_infinity: boundOf(metric.epsilonInfinity),
    epsilon_one: metric.epsilonPerReport,
    lifetime_epsilon: metric.lifetimeEpsilon,
    max_memoized_values: metric.maxResponses,
    max_reports: most,
    reports_per_day: inPeriod / PERIOD_DAYS[period],
    period: window ? "" : period,
    reports_per_period: window ? null : each,
    reports_in_window: location?.turn ? 2 : 1,
  };
};

const BOUNDS = [
  "epsilon_infinity", "epsilon_one", "lifetime_epsilon", "max_memoized_values", "max_reports",
  "reports_per_day", "reports_in_window",
] as const;

/** Name of the first bound that `now` promises less of than `first` did; "" for none. */
export const weakerThan = (now: Agreed, first: Agreed): string => {
  for (const name of BOUNDS) {
    if (valueOf(now[name]) > valueOf(first[name]) * ROUNDING) return name;
  }
  if (!first.period || !now.period) return "";
  const times = MAX_TOUCHED[first.period][now.period];
  return times * valueOf(now.reports_per_period) > valueOf(first.reports_per_period) * ROUNDING
    ? "reports_per_period"
    : "";
};

/** A line that was just agreed. */
export const newLine = (metric: Metric): LineState => ({
  agreed: promiseOf(metric),
  entries: {},
  counts: {},
  life: 0,
  note: null,
  pastValues: 0,
  pastCost: 0,
  pastSpent: 0,
  pastReports: 0,
});

/** The line of a metric, as stored or new; it may be damaged (`lineIsWhole`). */
export const lineOf = (store: Transaction, metric: Metric): LineState => {
  const line = store.get<LineState>(LINE + metric.line);
  return line === undefined ? newLine(metric) : line;
};

/** Enter what the app declares as the device's budget, where it is less or nothing is yet. */
export const pinBudget = (device: DeviceState, declared: number): boolean => {
  if (device.budget !== undefined && declared >= valueOf(device.budget)) return false;
  device.budget = boundOf(declared);
  return true;
};

/** Nats over all metrics and for life: the least of the declared, the stored and the person's. */
export const budgetOf = (device: DeviceState, declared: number, level: PrivacyLevel): number =>
  Math.min(declared, level.maxEpsilon, device.budget === undefined ? Infinity : valueOf(device.budget));

/** Nats that all reports from what is memoized can cost; extra: nats of values about to be. */
export const committed = (line: LineState, extra = 0): number => {
  const values = Object.values(line.entries).reduce((sum, entry) => sum + valueOf(entry.cost), 0);
  const { max_reports: most, epsilon_one: one } = line.agreed;
  return Math.min(valueOf(line.pastCost) + values + extra, most === null ? Infinity : most * one);
};

/** Nats that the reports made so far have cost. */
export const spent = (line: LineState): number =>
  Object.values(line.entries).reduce((sum, entry) => sum + epsilonN(entry.params, entry.reports), line.pastSpent);

/** What the ledger decides by. budget: as `budgetOf`. */
export interface Terms {
  readonly device: DeviceState;
  readonly line: LineState;
  readonly budget: number;
  readonly level: PrivacyLevel;
}

/** What to encode for a value: itself, its fallback, or undefined where nothing fits any more. */
export const admit = (terms: Terms, metric: MetricEncoder, bits: Uint8Array): Uint8Array | undefined => {
  const reserved = metric.reservedBits();
  if (!memoize(terms, metric, reserved)) return undefined;
  return memoize(terms, metric, [bits]) ? bits : reserved[0];
};

/**
 * Memoize all of several values that are not yet; none, if not all of them fit. By digest: in the order of a list, who
 * reads the store knows which value each entry is of.
 */
const memoize = (terms: Terms, of: MetricEncoder, several: readonly Uint8Array[]): boolean => {
  const { line, device } = terms;
  const added = new Set(several.map((bits) => of.digest(bits)));
  for (const digest of added) if (own(line.entries, digest)) added.delete(digest);
  if (added.size && !fits(terms, of.metric, added.size)) return false;
  const cost = boundOf(of.metric.epsilonInfinity);
  for (const digest of [...added].sort()) line.entries[digest] = { params: of.metric.definition.params, cost, reports: 0 };
  device.committed[of.metric.line] = boundOf(committed(line));
  return true;
};

const fits = (terms: Terms, metric: Metric, number: number): boolean => {
  const { line, device, level, budget } = terms;
  const held = line.pastValues + Object.keys(line.entries).length;
  if (held + number > Math.min(metric.maxResponses, level.maxValues)) return false;
  let others = 0;
  for (const [name, nats] of Object.entries(device.committed)) {
    if (name !== metric.line) others += valueOf(nats);
  }
  return others + committed(line, number * metric.epsilonInfinity) <= budget * ROUNDING;
};
