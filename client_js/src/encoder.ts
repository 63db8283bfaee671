/** Values to reports without a state: fleets of light devices, tests, apps with their own ledger. */

import { dayOf, dateText } from "./core/days.js";
import { SECRET_BYTES } from "./core/derive.js";
import { MetricEncoder, type Randomness } from "./core/device.js";
import { ParameterError } from "./core/errors.js";
import { metricOf, type Metrics } from "./core/metrics.js";
import { systemRandomness } from "./ports/randomness.js";

/** As in a batch of JSON (docs/protocol.md). day: YYYY-MM-DD. bits: base64. */
export interface Report {
  readonly metric: string;
  readonly params_id: string;
  readonly cohort: number;
  readonly day: string;
  readonly bits: string;
}

/** A new secret of a device, to be made once for it: 32 bytes, private. */
export const newSecret = (randomness: Randomness = systemRandomness()): Uint8Array => randomness(SECRET_BYTES);

/** One device's way from values to reports. secret: of `newSecret`. */
export class Encoder {
  private readonly devices = new Map<string, MetricEncoder>();

  /** Throws ParameterError for a secret that has not 32 bytes. */
  constructor(
    private readonly metrics: Metrics,
    private readonly secret: Uint8Array,
    private readonly randomness: Randomness = systemRandomness(),
  ) {
    if (secret.length !== SECRET_BYTES) throw new ParameterError("secret", SECRET_BYTES, secret.length);
  }

  /**
   * A fresh report of a value for a day, YYYY-MM-DD: the whole mechanism. No ledger is here:
   * bound the number of distinct values and of reports yourself, as `Client` does.
   * Throws UnknownMetricError, ValueRefusedError, and ParameterError for an invalid day.
   */
  encode(name: string, value: unknown, day: string): Report {
    const number = dayOf(day);
    if (Number.isNaN(number)) throw new ParameterError("day", day);
    let device = this.devices.get(name);
    if (!device) this.devices.set(name, (device = new MetricEncoder(metricOf(this.metrics, name), this.secret, this.randomness)));
    return { ...device.report(device.valueBits(value), number), day: dateText(number) };
  }
}
