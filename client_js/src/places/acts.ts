/** Acts about one metric of fixes in a transaction: its visits are loaded, take a fix or look, and are kept. */

import type { Metric, PlaceAct, Places, RecorderOfParts } from "../core/metrics.js";
import { fromHex } from "../core/bytes.js";
import { StateError } from "../core/errors.js";
import { lineOf } from "../core/ledger.js";
import { count, DEVICE, LINE, type DeviceState, type LineState } from "../core/state.js";
import { momentOf, type Send, type Visits } from "./visits.js";

type LookAct = Omit<PlaceAct, "at">;

/** partsOf: the metrics of a declared name; throws UnknownMetricError. make: their visits, of a secret, from what was saved. */
export const actsOf = (
  partsOf: (recorder: RecorderOfParts, name: string) => readonly Metric[],
  make: (parts: readonly Metric[], secret: Uint8Array, send: Send, saved: string | null) => Visits,
): Pick<Places, "scope" | "take" | "roll"> => {
  const visit = <T>({ store, recorder, name }: LookAct, act: (visits: Visits) => T): T => {
    const device = store.get<DeviceState>(DEVICE);
    if (!device?.secret) throw new StateError("no_consent", "secret_gone");
    const parts = partsOf(recorder, name);
    const refused: string[] = [];
    const send = (part: string, value: string, day: number): void => {
      const outcome = recorder.record(store, part, value, day);
      if (!outcome.startsWith("queued")) refused.push(`${outcome.split(":")[0]}:${part}`);
    };
    const visits = make(parts, fromHex(device.secret), send, store.get<LineState>(LINE + name)?.note ?? null);
    const result = act(visits);
    store.put(LINE + name, { ...lineOf(store, parts[0]!), note: visits.toJson() });
    const after = store.get<DeviceState>(DEVICE)!;
    for (const reason of refused) count(after, reason);
    store.put(DEVICE, after);
    return result;
  };
  /** Whether the metric is declared for this platform: all its parts are, or none. */
  const runsHere = ({ recorder, name }: LookAct): boolean => recorder.runsHere(partsOf(recorder, name)[0]!);
  return {
    scope: (recorder, name) => {
      partsOf(recorder, name);
      return { keys: [DEVICE, LINE + name] };
    },
    take: (act, points) =>
      !runsHere(act)
        ? "elsewhere"
        : visit(act, (visits) => {
            const moment = momentOf(act.at);
            const why = visits.refuses(moment, momentOf(act.now));
            if (!why) visits.take(points, moment);
            return why;
          }),
    roll: (act) => {
      if (runsHere(act)) visit(act, (visits) => visits.look(momentOf(act.now)));
    },
  };
};
