/** What an app recorded, and what of it has left: for the tests of an app, with vitest, jest or any other runner. */

import { Client } from "./client.js";
import { readMetrics } from "./core/reading.js";
import type { Options } from "./options.js";
import { MemoryStorage } from "./ports/storage.js";
import { MemoryCollector } from "./testing.js";

export * from "./testing.js";

/** A value as the app gave it, and why it was not recorded; "" where it was. */
export interface Recorded {
  readonly metric: string;
  readonly value: unknown;
  readonly refusal: string;
}

const RECORDING = ["record", "add", "recordLocation", "recordTrip"] as const;

/** Same for JSON: what apps record is strings, numbers, booleans and lists of them. */
const shown = (value: unknown): string => JSON.stringify(value);

/** A client that consents, with its state and its collector in memory, and what the app recorded in clear. */
export class ObservedApp {
  readonly recorded: Recorded[] = [];

  private constructor(readonly client: Client, readonly collector: MemoryCollector) {
    for (const name of RECORDING) this.observe(name);
  }

  /** options: compiled metrics, and the parts that they need: `{ ...parts(), metrics }`. */
  static async open(options: Pick<Options, "metrics"> & Partial<Options>): Promise<ObservedApp> {
    const { metrics, places, kinds } = options;
    const collector = new MemoryCollector(readMetrics(metrics, places, kinds));
    const client = await Client.open({
      storage: new MemoryStorage(), collector: "http://127.0.0.1:1", transport: collector.transport, consent: true,
      development: true, doNotTrack: () => false, delivery: { meanDelay: 0, padTo: 0 }, ...options, // jsdom unpacks nothing
    }); // prettier-ignore
    return new ObservedApp(client, collector);
  }

  /**
   * Why not exactly these values of a metric were recorded, in this order, or a report of each has not left; ""
   * where all is so. What a device sends is noise: the collector sees that there is a report, not its value.
   */
  async whyNotSent(metric: string, ...values: readonly unknown[]): Promise<string> {
    const mine = this.recorded.filter((one) => one.metric === metric);
    const refused = mine.find((one) => one.refusal);
    if (refused) return `not recorded: ${metric}, ${shown(refused.value)}: ${refused.refusal}`;
    const found = shown(mine.map((one) => one.value));
    if (found !== shown(values)) return `of ${metric} ${found} was recorded, not ${shown(values)}`;
    const delivered = await this.client.flush(10);
    const sent = this.collector.counted()[metric] ?? 0;
    return delivered && sent === values.length ? "" : `${sent} reports of ${metric} left, not ${values.length}; ${this.client.lastError}`;
  }

  /** Close the client. */
  close(): Promise<void> {
    return this.client.close();
  }

  private observe(name: (typeof RECORDING)[number]): void {
    const call = (this.client[name] as (...given: unknown[]) => Promise<boolean>).bind(this.client);
    const noted = async (metric: string, ...given: readonly unknown[]): Promise<boolean> => {
      const taken = await call(metric, ...given);
      this.recorded.push({ metric, value: given.length === 1 ? given[0] : given, refusal: taken ? "" : this.client.lastRefusal });
      return taken;
    };
    Object.defineProperty(this.client, name, { value: noted });
  }
}

/** The types of `matchers`, for `interface Matchers` of vitest, or `namespace jest` of jest. */
export interface AppMatchers<R = Promise<void>> {
  toHaveSent(metric: string, ...values: readonly unknown[]): R;
  toHaveSentNothing(): R;
}

/** For `expect.extend` of vitest and jest: `await expect(app).toHaveSent("homepage", "https://example.org/")`. */
export const matchers = {
  async toHaveSent(app: ObservedApp, metric: string, ...values: readonly unknown[]) {
    const why = await app.whyNotSent(metric, ...values);
    return { pass: !why, message: () => why || `${metric}: ${shown(values)} was sent` };
  },
  async toHaveSentNothing(app: ObservedApp) {
    await app.client.flush(10);
    const sent = app.collector.counted();
    return { pass: !app.collector.reports.length, message: () => `reports left: ${shown(sent)}` };
  },
};
