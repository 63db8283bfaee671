/** The part for metrics of kind `location`: pass `places()` to `open`. */

import type { PlaceAct, Places } from "./options.js";
import { fromHex } from "./core/bytes.js";
import { MetricsFileError, StateError, UnknownMetricError } from "./core/errors.js";
import { newLine } from "./core/ledger.js";
import type { Metric } from "./core/metrics.js";
import { hasPermanentRound } from "./core/privacy.js";
import type { Recorder } from "./core/recorder.js";
import { count, DEVICE, LINE, type DeviceState, type LineState } from "./core/state.js";
import { checkPlace } from "./places/duty.js";
import { Grid } from "./places/grid.js";
import { momentOf, Visits } from "./places/visits.js";

const NAME = /^[a-z][a-z0-9_.-]{0,63}$/;

const check: Places["check"] = (definition) => {
  const { name, location, params, fallback, max_reports_per_period: each } = definition;
  const grid = new Grid(location.grid);
  checkPlace(location);
  const suffix = `/${location.slot}/${location.level}`;
  const fits =
    name.endsWith(suffix) &&
    NAME.test(name.slice(0, -suffix.length)) &&
    fallback === "other" &&
    each === 1 &&
    (location.mode === "memo") === hasPermanentRound(params) &&
    (params.encoding !== "one_hot" || grid.domain(location.level).size === params.num_bits);
  if (!fits) throw new MetricsFileError(`${name}: its name, fallback, mode or encoding does not go with a location`);
};

const partsOf = (recorder: Recorder, name: string): Metric[] => {
  const parts = [...recorder.metrics.metrics.values()].filter((metric) => metric.line === name && metric.definition.location);
  if (!parts.length) throw new UnknownMetricError(`no metric of kind 'location' is declared as '${name}'`);
  return parts;
};

/** Whether the metric is declared for this platform: all its parts are, or none. */
const runsHere = ({ recorder, name }: PlaceAct): boolean => recorder.runsHere(partsOf(recorder, name)[0]!);

/** Load the visits of a metric, act on them, and keep them. */
const visit = <T>({ store, recorder, name }: PlaceAct, act: (visits: Visits) => T): T => {
  const device = store.get<DeviceState>(DEVICE);
  if (!device?.secret) throw new StateError("the person does not consent", "no_consent");
  const parts = partsOf(recorder, name);
  const refused: string[] = [];
  const send = (part: string, value: string, day: number): void => {
    const outcome = recorder.record(store, part, value, day);
    if (!outcome.startsWith("queued")) refused.push(`${outcome.split(":")[0]}:${part}`);
  };
  const visits = new Visits(parts, fromHex(device.secret), send, store.get<LineState>(LINE + name)?.note ?? null);
  const result = act(visits);
  const line = store.get<LineState>(LINE + name) ?? newLine(parts[0]!);
  store.put(LINE + name, { ...line, note: visits.toJson() });
  const after = store.get<DeviceState>(DEVICE)!;
  for (const reason of refused) count(after, reason);
  store.put(DEVICE, after);
  return result;
};

/** Grids (quadkey, geohash, square), slots, dwell and modes. */
export const places = (): Places => ({
  check,
  domain: (place) => new Grid(place.grid).domain(place.level),
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
});
