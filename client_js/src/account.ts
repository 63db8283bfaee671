/** What the client does with its state as a whole, and what it says of it. */

import { say } from "./core/errors.js";
import { committed, spent } from "./core/ledger.js";
import { BATCH, type Bound, boundOf, DEVICE, LINE, lineIsWhole, QUEUE, valueOf, type DeviceState, type LineState, type Transaction } from "./core/state.js";
import type { LocalTime } from "./options.js";

/**
 * Delete queue, values and secret; keep the numbers spent. Nothing is left of a line that is
 * damaged but that it was: its metric stays closed. store: opened for all documents.
 */
export const withdraw = (store: Transaction): void => {
  for (const [key, document] of store.list<LineState>()) {
    if (key.startsWith(QUEUE) || key.startsWith(BATCH)) store.remove(key);
    if (!key.startsWith(LINE)) continue;
    if (!lineIsWhole(document)) {
      store.put(key, {});
      continue;
    }
    const { values, reports } = accountOf(document);
    const cost = Object.values(document.entries).reduce((sum, entry) => sum + valueOf(entry.cost), valueOf(document.pastCost));
    store.put(key, {
      ...document,
      entries: {},
      note: null,
      pastValues: values,
      pastCost: boundOf(cost),
      pastSpent: spent(document),
      pastReports: reports,
    });
  }
  const device = store.get<DeviceState>(DEVICE);
  if (device !== undefined) store.put(DEVICE, { ...device, secret: null, check: null, waiting: 0, sendAt: null, failing: undefined });
  store.through();
};

/** What was told of one metric, and what it can cost, in nats. ever: at most, in one life of its storage. */
export interface LineAccount {
  readonly values: number;
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
    maxValues: agreed.max_memoized_values,
    reports: each.reduce((sum, entry) => sum + entry.reports, line.pastReports),
    spent: boundOf(spent(line)),
    committed: boundOf(committed(line)),
    ever: agreed.lifetime_epsilon,
  };
};

/** What a device holds and has told: no value, no secret. metrics: "damaged" for a line that is. */
export interface DeviceAccount {
  readonly consent: boolean;
  readonly budget: Bound;
  readonly waiting: number;
  readonly batches: number;
  readonly counters: Readonly<Record<string, number>>;
  readonly metrics: Readonly<Record<string, LineAccount | "damaged">>;
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
