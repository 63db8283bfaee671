/** What the client does with its state as a whole, and what it says of it. */

import { say } from "./core/errors.js";
import { committed, spent } from "./core/ledger.js";
import { BATCH, type Bound, boundOf, DEVICE, LINE, lineIsWhole, QUEUE, valueOf, type DeviceState, type LineState, type Transaction } from "./core/state.js";
import type { LocalTime } from "./core/metrics.js";

/**
 * Delete queue, values and secret; keep the numbers spent. Nothing is left of a line that is
 * damaged but that it was: its metric stays closed. store: opened for all documents.
 */
export const withdraw = (store: Transaction): void => {
  const all = store.list<LineState>();
  const queued = all.flatMap(([key, document]) => (key.startsWith(QUEUE) ? [String((document as { metric?: unknown } | null)?.metric)] : []));
  for (const [key, document] of all) {
    if (key.startsWith(QUEUE) || key.startsWith(BATCH)) store.remove(key);
    if (!key.startsWith(LINE)) continue;
    if (!lineIsWhole(document)) {
      store.put(key, {});
      continue;
    }
    const name = key.slice(LINE.length);
    const unsent = queued.filter((metric) => metric === name || metric.startsWith(`${name}/`)).length;
    const entries = without(document.entries, unsent);
    const { values, answers } = accountOf({ ...document, entries });
    const cost = Object.values(document.entries).reduce((sum, entry) => sum + valueOf(entry.cost), valueOf(document.pastCost));
    store.put(key, {
      ...document,
      entries: {},
      note: null,
      pastValues: values,
      pastAnswers: answers,
      pastCost: boundOf(cost),
      pastSpent: spent({ ...document, entries }),
      pastReports: accountOf(document).reports,
    });
  }
  const device = store.get<DeviceState>(DEVICE);
  if (device !== undefined) store.put(DEVICE, { ...device, secret: null, check: null, waiting: 0, sendAt: null, failing: undefined, stops: {} });
  store.through();
};

/**
 * Entries less so many reports that were wiped before they were sent. Of which entry each was is not kept: those go
 * that change the least of what was sent at most.
 */
const without = (entries: LineState["entries"], unsent: number): LineState["entries"] => {
  const left = Object.fromEntries(Object.entries(entries).map(([digest, entry]) => [digest, { ...entry }]));
  for (; unsent > 0; unsent--) {
    const most = Object.values(left).reduce((a, b) => (b.reports > a.reports ? b : a), { reports: 0 });
    most.reports -= 1;
  }
  return left;
};

/** What was sent of one metric, and what it can cost, in nats. ever: at most, in one life of its storage. */
export interface LineAccount {
  /** Places of `maxValues` that are taken: by answers, and by those that are kept for the fallback. */
  readonly values: number;
  /** Different answers that reports were made of. */
  readonly answers: number;
  readonly maxValues: number;
  readonly reports: number;
  readonly spent: Bound;
  readonly committed: Bound;
  readonly ever: Bound;
}

export const accountOf = (line: LineState): LineAccount => {
  const { entries, agreed } = line;
  const each = Object.values(entries);
  return {
    values: line.pastValues + each.length,
    answers: (line.pastAnswers ?? line.pastValues) + each.filter((entry) => entry.reports > 0).length,
    maxValues: agreed.max_memoized_values,
    reports: each.reduce((sum, entry) => sum + entry.reports, line.pastReports),
    spent: boundOf(spent(line)),
    committed: boundOf(committed(line)),
    ever: agreed.lifetime_epsilon,
  };
};

/** What a device holds and has sent: no value, no secret. metrics: "damaged" for a line that is. */
export interface DeviceAccount {
  readonly consent: boolean;
  readonly budget: Bound;
  readonly waiting: number;
  readonly batches: number;
  readonly counters: Readonly<Record<string, number>>;
  readonly metrics: Readonly<Record<string, LineAccount | "damaged">>;
  /** Metrics that the collector has stopped, and why: `metric_retired` or `metric_paused`. */
  readonly stopped: Readonly<Record<string, string>>;
}

/** The account of a device; undefined where there is none. budget: nats. store: opened for all documents. */
export const accountOfDevice = (store: Transaction, budget: (device: DeviceState) => number): DeviceAccount | undefined => {
  const device = store.get<DeviceState>(DEVICE);
  if (!device) return undefined;
  const all = store.list<LineState>();
  const lines = all.filter(([key]) => key.startsWith(LINE));
  return {
    consent: !!device.secret,
    budget: boundOf(budget(device)),
    waiting: device.waiting,
    batches: all.filter(([key]) => key.startsWith(BATCH)).length,
    counters: device.counters,
    metrics: Object.fromEntries(lines.map(([key, line]) => [key.slice(LINE.length), lineIsWhole(line) ? accountOf(line) : "damaged"])),
    stopped: Object.fromEntries(Object.entries(device.stops ?? {}).map(([metric, stop]) => [metric, stop.split(" ")[0]!])),
  };
};

/** Why a record came to nothing. outcome: of the recorder or of the part for places. */
export const sentence = (name: string, outcome: string): string => {
  const [word, why, bound] = outcome.split(":");
  return why ? say(bound ? "weaker" : why, name, bound ?? "") : say(word!, name);
};

export const localTime = (seconds: number): LocalTime => {
  const ms = seconds * 1000;
  return { ms, offset: -new Date(ms).getTimezoneOffset() };
};

/** DO_NOT_TRACK=1 in the environment; Do Not Track or Global Privacy Control in a browser. */
export const wantsNoTracking = (): boolean => {
  const { process, navigator } = globalThis as {
    process?: { env?: Record<string, string | undefined> };
    navigator?: { doNotTrack?: string | null; globalPrivacyControl?: boolean };
  };
  const said = process?.env?.["DO_NOT_TRACK"];
  return (said !== undefined && said !== "" && said !== "0") || navigator?.doNotTrack === "1" || navigator?.globalPrivacyControl === true;
};
