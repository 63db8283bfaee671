/** From a value to a queued report, under the ledger: synchronous, inside one transaction. */

import { fromHex, own, toHex } from "./bytes.js";
import { countReport, countedBy, countsOf, isFull, lastPeriod } from "./counts.js";
import { DAY_SECONDS, lastDay, periodNumber } from "./days.js";
import { secretCheck } from "./derive.js";
import { MetricEncoder, type Randomness } from "./device.js";
import { StateError } from "./errors.js";
import { admit, budgetOf, lineOf, promiseOf, weakerThan, type PrivacyLevel } from "./ledger.js";
import { metricOf, type Metric, type Metrics, type Platform } from "./metrics.js";
import { isStopped } from "./stops.js";
import { count, DEVICE, LINE, lineIsWhole, QUEUE, type DeviceState, type LineState, type Transaction } from "./state.js";

/** closed: with the reason after a colon. */
export type Outcome = "elsewhere" | "stopped" | "queued" | "queued_fallback" | "full" | "expired" | `closed:${string}`;

/** Records values of one device. It holds no state but derivations. */
export class Recorder {
  private readonly devices = new Map<string, MetricEncoder>();
  private secret = "";

  constructor(
    readonly metrics: Metrics,
    readonly level: PrivacyLevel,
    private readonly randomness: Randomness,
    private readonly platform: Platform = "app",
  ) {}

  /** The documents that a transaction about a metric must read. Throws UnknownMetricError. */
  keys(name: string): string[] {
    return [DEVICE, LINE + metricOf(this.metrics, name).line];
  }

  /** What `Client.record` does: "queued" where the value was kept, or as `record`. isAmount: of `add`. */
  take(store: Transaction, name: string, value: unknown, day: number, isAmount: boolean): string {
    const { part } = metricOf(this.metrics, name);
    return part?.take
      ? part.take({ store, recorder: this, name, day }, value, isAmount) || "queued"
      : this.record(store, name, value, day);
  }

  /**
   * Queue a report of a value for a day, or say why not. Throws ValueRefusedError,
   * UnknownMetricError, and StateError where there is no secret: the person does not consent.
   */
  record(store: Transaction, name: string, value: unknown, day: number): Outcome {
    const metric = metricOf(this.metrics, name);
    if (!this.runsHere(metric)) return "elsewhere";
    const device = store.get<DeviceState>(DEVICE);
    const of = this.device(metric, device?.secret);
    const bits = of.valueBits(value);
    const line = lineOf(store, metric);
    if (!lineIsWhole(line)) return "closed:damaged";
    if (isStopped(device!, name, metric.paramsId, day)) return "stopped";
    const outcome = this.queue(store, device!, line, of, bits, Math.max(0, day));
    store.put(LINE + metric.line, line);
    store.put(DEVICE, device!);
    return outcome;
  }

  /** Whether a metric is declared for this platform. */
  runsHere(metric: Metric): boolean {
    return metric.platforms.includes(this.platform);
  }

  /** Close what is over of a collected kind; send `no_data` for each period that took nothing. */
  fillPeriods(store: Transaction, name: string, today: number): number {
    const metric = metricOf(this.metrics, name);
    const { definition, line, part } = metric;
    part?.roll?.({ store, recorder: this, name, day: today });
    const { no_data: noData, period: unit, accept_days: accepted } = definition;
    const used = store.get<LineState>(LINE + line);
    if (noData === undefined || !this.runsHere(metric) || !used || !lineIsWhole(used) || !own(used.counts, name)) return 0;
    const present = periodNumber(unit, Math.max(0, today));
    const last = lastPeriod(countsOf(used, name, unit), present);
    if (last === undefined) return 0;
    const first = Math.max(last + 1, periodNumber(unit, Math.max(0, today - accepted)));
    let filled = 0;
    for (let period = first; period < present; period++) {
      if (this.record(store, name, noData, lastDay(unit, period)).startsWith("queued")) filled++;
    }
    return filled;
  }

  /** This device's part in a metric. secret: as stored, hexadecimal. */
  device(metric: Metric, secret: string | null | undefined): MetricEncoder {
    if (!secret) throw new StateError("no_consent", "secret_gone");
    if (secret !== this.secret) {
      this.devices.clear();
      this.secret = secret;
    }
    let found = this.devices.get(metric.name);
    if (!found) {
      found = new MetricEncoder(metric, fromHex(secret), this.randomness);
      this.devices.set(metric.name, found);
    }
    return found;
  }

  private queue(
    store: Transaction,
    device: DeviceState,
    line: LineState,
    of: MetricEncoder,
    bits: Uint8Array,
    day: number,
  ): Outcome {
    const { metric } = of;
    if (day > metric.expires) return "expired";
    const weaker = weakerThan(promiseOf(metric), line.agreed);
    if (weaker) return `closed:weaker_than_agreed:${weaker}`;
    countsOf(line, ...countedBy(metric));
    const { definition } = metric;
    const most = Math.min(definition.max_reports_per_period, this.level.maxReportsPerPeriod);
    if (isFull(metric, line, day, most)) return "full";
    let sent: Uint8Array | undefined = bits;
    if (!own(line.entries, of.digest(bits))) {
      const budget = budgetOf(device, this.metrics.budget, this.level);
      sent = admit({ device, line, budget, level: this.level }, of, bits);
      store.through();
    }
    if (definition.location?.mode === "window") store.through();
    if (!sent) {
      count(device, `closed:${metric.name}:nothing_left`);
      return "closed:nothing_left";
    }
    line.entries[of.digest(sent)]!.reports += 1;
    countReport(metric, line, day);
    store.put(queueKey(device.next++), of.report(sent, day));
    device.waiting += 1;
    return sent === bits || toHex(sent) === toHex(bits) ? "queued" : "queued_fallback";
  }
}

/** Keys of queued reports are in the order of recording. */
export const queueKey = (number: number): string => QUEUE + String(number).padStart(15, "0");

export const dayAt = (seconds: number): number => Math.floor(seconds / DAY_SECONDS);

/** Whether a stored secret is whole. */
export const secretIsWhole = (device: DeviceState): boolean =>
  device.secret === null ||
  (/^[0-9a-f]{64}$/.test(device.secret) && toHex(secretCheck(fromHex(device.secret))) === device.check);
