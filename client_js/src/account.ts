/** What the client does with its state as a whole, and what it says of it. */

import { say } from "./core/errors.js";
import { committed, spent } from "./core/ledger.js";
import { BATCH, type Bound, boundOf, DEVICE, LINE, QUEUE, valueOf, type DeviceState, type LineState, type Transaction } from "./core/state.js";
import type { LocalTime } from "./options.js";

/** Delete queue, values and secret; keep the numbers spent. store: opened for all documents. */
export const withdraw = (store: Transaction): void => {
  const device = store.get<DeviceState>(DEVICE);
  if (!device) return;
  for (const [key, document] of store.list<LineState>()) {
    if (key.startsWith(QUEUE) || key.startsWith(BATCH)) store.remove(key);
    if (!key.startsWith(LINE)) continue;
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
  store.put(DEVICE, { ...device, secret: null, check: null, waiting: 0, sendAt: null });
  store.through();
};

/** What was told of one metric, and what it can cost. */
export const accountOf = (line: LineState): { values: number; reports: number; spent: Bound; committed: Bound } => {
  const entries = Object.values(line.entries);
  return {
    values: line.pastValues + entries.length,
    reports: entries.reduce((sum, entry) => sum + entry.reports, line.pastReports),
    spent: boundOf(spent(line)),
    committed: boundOf(committed(line)),
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
