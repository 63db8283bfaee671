/** The part for metrics of kind `number`: pass `numbers()` to `open`, in `kinds`. */

import { fromHex, utf8 } from "./core/bytes.js";
import { oneBit } from "./core/coins.js";
import { lastDay, periodNumber } from "./core/days.js";
import { derive, draw } from "./core/derive.js";
import { StateError, ValueRefusedError } from "./core/errors.js";
import { metricOf, type Kind, type KindAct, type Metric } from "./core/metrics.js";
import { lineOf } from "./core/ledger.js";
import { count, DEVICE, LINE, type DeviceState, type LineState } from "./core/state.js";
import { checkNumber } from "./numbers/check.js";
import { Collected } from "./numbers/collected.js";
import { cutsOf, detailsOf, numberOf, symbolOf, type Cuts } from "./numbers/cuts.js";

const LOWEST = -1e300; // below every edge

/** A constant of the device in [0, 1), of a metric that asks for a mean; otherwise 0. Private. */
export const jitterOf = ({ definition, line, paramsId }: Metric, secret: Uint8Array): number => {
  if (detailsOf(definition).ask !== "mean") return 0;
  const bytes = derive(secret, "jitter", [utf8(line), fromHex(paramsId)], 8);
  return bytes.reduce((sum, byte, i) => sum + (i < 6 ? byte : i < 7 ? byte & 248 : 0) / 256 ** (i + 1), 0);
};

/** What a device compares its numbers with. Private where they are jittered. */
export const cutsOn = (metric: Metric, cohort: number, secret: Uint8Array): Cuts =>
  cutsOf(detailsOf(metric.definition), cohort, metric.definition.params.num_bits, jitterOf(metric, secret));

/** One metric of numbers in one transaction: what its period has so far, and its reports. */
class Keeper {
  readonly metric: Metric;
  private readonly collected: Collected;
  private readonly secret: Uint8Array;
  private readonly cuts: Cuts;

  constructor(private readonly act: KindAct) {
    const { store, recorder, name } = act;
    this.metric = metricOf(recorder.metrics, name);
    const device = store.get<DeviceState>(DEVICE);
    if (!device?.secret) throw new StateError("no_consent", "secret_gone");
    this.secret = fromHex(device.secret);
    this.cuts = cutsOn(this.metric, recorder.device(this.metric, device.secret).cohort, this.secret);
    this.collected = new Collected(this.metric, this.cuts, store.get<LineState>(LINE + name)?.note ?? null);
  }

  /** Bring the metric to the day, and take a number into its period. */
  update(number: number | undefined): void {
    const { store, name, day } = this.act;
    const period = periodNumber(this.metric.definition.period, day);
    const before = this.collected.period;
    if (before === period && number === undefined) return;
    if (before !== null && before < period) this.close(before, period);
    if (before !== period) this.collected.begin(period);
    if (number !== undefined && this.isDue(period)) this.collected.take(number);
    store.put(LINE + name, { ...lineOf(store, this.metric), note: this.collected.toJson() });
  }

  /** Report the period that is kept, then no data for the ones after it; as far back as is taken. */
  private close(first: number, end: number): void {
    const { store, recorder, name, day } = this.act;
    const { period: unit, accept_days: accepted } = this.metric.definition;
    const oldest = periodNumber(unit, Math.max(0, day - accepted));
    for (let period = Math.max(first, oldest); period < end; period++) {
      if (!this.isDue(period)) continue;
      const number = period === first ? this.collected.number() : null;
      const outcome = recorder.record(store, name, number, lastDay(unit, period));
      if (outcome.startsWith("queued") || outcome === "full" || outcome.endsWith("nothing_left")) continue;
      const device = store.get<DeviceState>(DEVICE)!;
      count(device, `${outcome.split(":")[0]}:${name}`);
      store.put(DEVICE, device);
    }
  }

  /** Of mode `once` one period in `spread`, drawn once from the secret. */
  private isDue(period: number): boolean {
    const { spread } = detailsOf(this.metric.definition);
    return period % spread === draw(this.secret, "phase", this.metric.name, spread);
  }
}

/** Numbers of a period: durations, counters, sizes. */
export const numbers = (): Kind => ({
  kind: "number",
  check: checkNumber,
  encoder: (metric, cohort, secret) => {
    const cuts = cutsOn(metric, cohort, secret);
    return (value) => oneBit(symbolOf(metric, cuts, value), (metric.definition.params.num_bits + 7) >> 3);
  },
  values: (definition) => {
    const { mode, edges } = detailsOf(definition);
    return mode === "once" ? [] : [null, edges[0]! < 0 ? LOWEST : 0, ...edges];
  },
  take: (act, value, isAmount) => {
    const metric = metricOf(act.recorder.metrics, act.name);
    if (isAmount && detailsOf(metric.definition).of_period !== "sum") throw new ValueRefusedError("no_sum", act.name);
    if (!act.recorder.runsHere(metric)) return "elsewhere";
    const number = numberOf(metric, value);
    if (act.day > metric.expires) return "expired";
    new Keeper(act).update(number);
    return "";
  },
  roll: (act) => {
    if (act.recorder.runsHere(metricOf(act.recorder.metrics, act.name))) new Keeper(act).update(undefined);
  },
});
