/** Sending: when, in which pauses, and one batch after the other. */

import { readResponse } from "./core/answers.js";
import type { Randomness } from "./core/device.js";
import type { Link } from "./core/kinds.js";
import { bodyOf, compose, settle, shuffled, split, trim, type Delivery } from "./core/outbox.js";
import { BATCH, DEVICE, QUEUE, type DeviceState, type StoredBatch } from "./core/state.js";
import type { Storage } from "./ports/storage.js";
import type { Transport } from "./ports/transport.js";

const LONGEST_DELAY = 10; // times the mean
const FLUSH_PAUSE = 2;
const BUSY_PAUSE = 0.1;

/** A number in [0, 1). */
export const uniform = (randomness: Randomness): number =>
  randomness(6).reduce((sum, byte) => (sum + byte) / 256, 0);

/** Seconds, geometric: how long a report has waited says nothing about how long it will. */
export const geometricDelay = (mean: number, randomness: Randomness): number => {
  const ticks = Math.ceil(Math.log(1 - uniform(randomness)) / Math.log(1 - 1 / 100));
  return Math.min((Math.max(1, ticks) * mean) / 100, LONGEST_DELAY * mean);
};

/** What the sender works with. clock: seconds since 1970. */
export interface Parts {
  readonly storage: Storage;
  readonly transport: Transport;
  readonly delivery: Delivery;
  readonly randomness: Randomness;
  readonly clock: () => number;
  readonly link: Link | undefined;
}

/** Sends what waits. Only one tab or process does at a time. */
export class Sender {
  lastError = "";
  keyIsRefused = false;
  private failures = 0;
  private until = 0;
  private untilHurried = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ended = false;

  constructor(private readonly parts: Parts) {}

  /** See that something is sent at a time: seconds since 1970, by the clock. */
  wakeAt(at: number): void {
    if (this.ended || this.timer !== undefined) return;
    const wait = Math.max(at, this.until) - this.parts.clock();
    this.timer = setTimeout(() => void this.due(), Math.min(Math.max(wait, 0), 86_400) * 1000);
    (this.timer as { unref?: () => void }).unref?.();
  }

  /** Send all that waits, without the random delay. Whether all was delivered in time. */
  async flush(timeout: number): Promise<boolean> {
    const end = Date.now() + timeout * 1000;
    for (;;) {
      const left = await this.round(false).catch(() => undefined);
      if (left === 0) return true;
      const pause = left === undefined ? Math.max(BUSY_PAUSE, this.untilHurried - this.parts.clock()) : 0;
      if (this.ended || Date.now() + pause * 1000 >= end) return false;
      await new Promise((resolve) => setTimeout(resolve, pause * 1000));
    }
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }

  private async due(): Promise<void> {
    this.timer = undefined;
    const { delivery, clock, randomness } = this.parts;
    const mean = delivery.meanDelay;
    const left = await this.round(mean > 0).catch(() => undefined);
    if (this.ended || left === 0) return;
    const next = left === undefined ? this.until || clock() + 5 : clock() + geometricDelay(mean / left, randomness);
    if (left !== undefined) await this.putDue(next).catch(() => undefined);
    this.wakeAt(next);
  }

  private putDue(at: number): Promise<void> {
    return this.parts.storage.transaction({ keys: [DEVICE] }, (store) => {
      const device = store.get<DeviceState>(DEVICE);
      if (device?.secret) store.put(DEVICE, { ...device, sendAt: at });
    });
  }

  /** Send one batch, or all. How many are left; undefined where it failed or another is at it. */
  private round(onlyOne: boolean): Promise<number | undefined> {
    return this.parts.storage.exclusive("send", async () => {
      const batches = await this.stored();
      for (const [at, batch] of batches.entries()) {
        if (this.ended || !(await this.send(batch))) return undefined;
        if (onlyOne && at + 1 < batches.length) return batches.length - at - 1;
      }
      return (await this.stored()).length; // what was recorded or split meanwhile
    });
  }

  /** All that waits, as batches in random order. */
  private async stored(): Promise<StoredBatch[]> {
    const { storage, delivery, randomness, link, clock } = this.parts;
    await storage.transaction({ keys: [DEVICE], prefix: QUEUE }, (store) => compose(store, delivery, randomness, link, clock()));
    await storage.transaction({ keys: [DEVICE], prefix: BATCH }, (store) => trim(store, delivery.maxQueued));
    return storage.transaction({ keys: [DEVICE], prefix: BATCH }, (store) => {
      const batches = store.list<StoredBatch>().map(([, batch]) => batch);
      const device = store.get<DeviceState>(DEVICE);
      if (device && !batches.length && device.sendAt !== null) store.put(DEVICE, { ...device, sendAt: null });
      return shuffled(batches, randomness);
    });
  }

  /** False where it must be tried again. */
  private async send(batch: StoredBatch): Promise<boolean> {
    const { storage, transport, delivery, randomness, clock } = this.parts;
    const { id, contentType, encoding, metrics } = batch;
    let response;
    try {
      response = await transport({ body: bodyOf(batch), contentType, encoding, timeout: delivery.timeout });
    } catch (error) {
      return this.failed(batch, `no_connection: ${String(error)}`, 0);
    }
    const verdict = readResponse(response, id, metrics.length, clock());
    this.keyIsRefused = response.status === 401 || response.status === 403;
    if (verdict.kind === "again") return this.failed(batch, verdict.reason, verdict.wait);
    this.failures = this.until = this.untilHurried = 0;
    this.lastError = "";
    await storage.transaction({ keys: [DEVICE, BATCH + id] }, (store) => {
      if (verdict.kind === "answered") {
        const word = (metric: string, at: number): string =>
          verdict.results[at] ? `refused:${metric}:${verdict.results[at]}` : `accepted:${metric}`;
        settle(store, id, word);
      } else if (verdict.reason !== "http_413" || !split(store, id, delivery, randomness)) {
        settle(store, id, () => `dropped:${verdict.reason}`);
      }
    });
    return true;
  }

  /** Uniform in [0, firstPause * 2^failures], bounded; a Retry-After comes before it. */
  private async failed(batch: StoredBatch, reason: string, wait: number): Promise<false> {
    const { delivery, randomness, clock, storage } = this.parts;
    this.lastError = reason;
    this.failures += 1;
    const longest = Math.min(delivery.longestPause, delivery.firstPause * 2 ** Math.min(this.failures, 40));
    const jitter = uniform(randomness) * longest;
    const start = clock() + Math.min(wait, delivery.longestRetryAfter);
    this.until = start + jitter;
    this.untilHurried = start + Math.min(jitter, FLUSH_PAUSE);
    if (batch.lastDay < clock() / 86_400 - delivery.maxAgeDays) {
      await storage.transaction({ keys: [DEVICE, BATCH + batch.id] }, (store) =>
        settle(store, batch.id, () => "dropped:too_old"),
      );
    }
    return false;
  }
}

