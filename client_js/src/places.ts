/** The part for metrics of kind `location`: pass `places()` to `open`. */

import type { PlaceAct, Places } from "./options.js";
import { fromHex } from "./core/bytes.js";
import { StateError, UnknownMetricError } from "./core/errors.js";
import { lineOf } from "./core/ledger.js";
import type { Metric } from "./core/metrics.js";
import type { Recorder } from "./core/recorder.js";
import { count, DEVICE, LINE, type DeviceState, type LineState } from "./core/state.js";
import { checkPlace } from "./places/check.js";
import { Grid } from "./places/grid.js";
import type { H3 } from "./places/h3.js";
import { momentOf, Visits } from "./places/visits.js";

const partsOf = (recorder: Recorder, name: string): Metric[] => {
  const parts = [...recorder.metrics.metrics.values()].filter((metric) => metric.line === name && metric.definition.location);
  if (!parts.length) throw new UnknownMetricError("places_unknown", name);
  return parts;
};

/** Whether the metric is declared for this platform: all its parts are, or none. */
const runsHere = ({ recorder, name }: PlaceAct): boolean => recorder.runsHere(partsOf(recorder, name)[0]!);

/** Load the visits of a metric, act on them, and keep them. */
const visit = <T>({ store, recorder, name }: PlaceAct, h3: H3 | undefined, act: (visits: Visits) => T): T => {
  const device = store.get<DeviceState>(DEVICE);
  if (!device?.secret) throw new StateError("no_consent", "secret_gone");
  const parts = partsOf(recorder, name);
  const refused: string[] = [];
  const send = (part: string, value: string, day: number): void => {
    const outcome = recorder.record(store, part, value, day);
    if (!outcome.startsWith("queued")) refused.push(`${outcome.split(":")[0]}:${part}`);
  };
  const saved = store.get<LineState>(LINE + name)?.note ?? null;
  const visits = new Visits(parts, fromHex(device.secret), send, saved, h3);
  const result = act(visits);
  store.put(LINE + name, { ...lineOf(store, parts[0]!), note: visits.toJson() });
  const after = store.get<DeviceState>(DEVICE)!;
  for (const reason of refused) count(after, reason);
  store.put(DEVICE, after);
  return result;
};

/** Grids (quadkey, geohash, square; h3 where the library h3-js is passed), slots, dwell and modes. */
export const places = ({ h3 }: { readonly h3?: H3 } = {}): Places => ({
  check: (definition) => checkPlace(definition, h3),
  domain: (place, noData) => new Grid(place.grid, h3).domain(place.level, noData),
  scope: (recorder, name) => {
    partsOf(recorder, name);
    return { keys: [DEVICE, LINE + name] };
  },
  take: (act, points) =>
    !runsHere(act)
      ? "elsewhere"
      : visit(act, h3, (visits) => {
          const moment = momentOf(act.at);
          const why = visits.refuses(moment, momentOf(act.now));
          if (!why) visits.take(points, moment);
          return why;
        }),
  roll: (act) => {
    if (runsHere(act)) visit(act, h3, (visits) => visits.look(momentOf(act.now)));
  },
});
