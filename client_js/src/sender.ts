/** Sending: when, in which pauses, and one batch after the other. */

import { readResponse, type Response } from "./core/answers.js";
import type { Randomness } from "./core/device.js";
import { say, StateError } from "./core/errors.js";
import { bodyOf, compose, outstanding, removeBatch, shuffled, split, type Delivery } from "./core/outbox.js";
import { dayAt } from "./core/recorder.js";
import { noteAnswer } from "./core/stops.js";
import { BATCH, DEVICE, QUEUE, type DeviceState, type Failing, type StoredBatch } from "./core/state.js";
import { monotonic, within, type Storage } from "./ports/storage.js";
import type { Transport } from "./ports/transport.js";

export const MAX_DELAY = 10; // times the mean
const FLUSH_PAUSE = 2;
const BUSY_PAUSE = 0.1;
const BUSY_PAUSE_UNHURRIED = 5;
export const PATIENCE = 1; // seconds for an exchange to end once it was asked to

/** A number in [0, 1). */
export const uniform = (randomness: Randomness): number =>
  randomness(6).reduce((sum, byte) => (sum + byte) / 256, 0);

/** Seconds, geometric: how long a report has waited says nothing about how long it will. */
export const geometricDelay = (mean: number, randomness: Randomness): number => {
  const ticks = Math.ceil(Math.log(1 - uniform(randomness)) / Math.log(1 - 1 / 100));
  return Math.min((Math.max(1, ticks) * mean) / 100, MAX_DELAY * mean);
};

/** Where nothing is delivered: since when, and why; also where what is stored of it is damaged. */
export const sentenceOf = ({ since, why }: Failing): string =>
  say("not_delivered", `${new Date(Math.max(0, Math.min(since * 1000 || 0, 8e15))).toISOString().slice(0, 19)}Z`, why);

/** What the sender works with. clock: seconds since 1970. */
export interface Parts {
  readonly storage: Storage;
  readonly transport: Transport;
  readonly delivery: Delivery;
  readonly randomness: Randomness;
  readonly clock: () => number;
}

/** A request that was begun, and the batch that it carries. */
interface Exchange {
  readonly batch: StoredBatch;
  readonly answer: Promise<Response>;
}

/** Sends what waits. Only one tab or process does at a time. */
export class Sender {
  lastError = "";
  /** Since when nothing could be delivered, by whichever tab; undefined where the last try did not fail. */
  failing: Failing | undefined;
  private failures = 0;
  private until = 0;
  private untilHurried = 0;
  private lost = 0;
  private isWarned = false;
  /** Batches that may have been counted though no answer came: the halves of one would have new ids. */
  private tried: Set<string> | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private consent = new AbortController();
  private current: Promise<unknown> = Promise.resolve();

  constructor(private readonly parts: Parts) {}

  /** Send, from now on: the person consents. */
  begin(): void {
    if (this.consent.signal.aborted) this.consent = new AbortController();
  }

  /**
   * Send nothing from now on. What is under way is aborted, and waited for, a second at most: its
   * batch is still stored, and whoever sends it again sends the same bytes.
   */
  async end(): Promise<void> {
    this.consent.abort();
    clearTimeout(this.timer);
    this.timer = undefined;
    await within(this.current, PATIENCE);
  }

  /** See that something is sent so many seconds from now. */
  wakeIn(seconds: number): void {
    if (this.consent.signal.aborted || this.timer !== undefined) return;
    const wait = Math.max(seconds, this.until - monotonic(), 0);
    this.timer = setTimeout(() => void this.due(), Math.min(wait, 86_400) * 1000);
    (this.timer as { unref?: () => void }).unref?.();
  }

  /** Send all that waits, without the random delay. Whether all was delivered in time, and taken. */
  async flush(timeout: number): Promise<boolean> {
    const { signal } = this.consent;
    const end = monotonic() + timeout;
    const { lost } = this;
    for (;;) {
      const left = await this.round(false, signal);
      if (left === 0) return this.lost === lost;
      const pause = left === undefined ? Math.max(BUSY_PAUSE, this.untilHurried - monotonic()) : 0;
      if (signal.aborted || monotonic() + pause >= end) return false;
      await new Promise((resolve) => setTimeout(resolve, pause * 1000));
    }
  }

  private async due(): Promise<void> {
    this.timer = undefined;
    const { signal } = this.consent;
    const { delivery, clock, randomness, storage } = this.parts;
    const mean = delivery.meanDelay;
    const left = await this.round(mean > 0, signal);
    if (signal.aborted || left === 0) return;
    if (left === undefined) return this.wakeIn(this.until ? 0 : BUSY_PAUSE_UNHURRIED);
    const delay = geometricDelay(mean / left, randomness);
    this.wakeIn(delay);
    await storage
      .transaction({ keys: [DEVICE] }, (store) => {
        const device = store.get<DeviceState>(DEVICE);
        if (device?.secret) store.put(DEVICE, { ...device, sendAt: clock() + delay });
      })
      .catch(() => undefined);
  }

  /** Send one batch, or all. How many are left; undefined where it failed or another is at it. */
  private round(onlyOne: boolean, signal: AbortSignal): Promise<number | undefined> {
    const round = this.parts.storage.exclusive("send", () => this.sendEach(onlyOne, signal));
    return (this.current = round).catch((error: unknown) => {
      this.lastError = `state: ${String(error)}`;
      return undefined;
    });
  }

  private async sendEach(onlyOne: boolean, signal: AbortSignal): Promise<number | undefined> {
    const ids = await this.stored(signal);
    for (const [at, id] of ids.entries()) {
      if (signal.aborted || !(await this.send(id, signal))) return undefined;
      if (onlyOne && at + 1 < ids.length) return ids.length - at - 1;
    }
    return signal.aborted ? undefined : (await this.stored(signal)).length; // what was recorded or split meanwhile
  }

  /** Ids of the batches into which all that waits is made, in random order. */
  private async stored(signal: AbortSignal): Promise<string[]> {
    const { storage, delivery, randomness } = this.parts;
    if (signal.aborted) return [];
    this.tried ??= await storage.transaction({ keys: [], prefix: BATCH }, (store) => new Set(store.list().map(([key]) => key.slice(BATCH.length))));
    this.lost += await storage.transaction({ keys: [DEVICE], prefix: QUEUE }, (store) => compose(store, delivery, randomness));
    if (signal.aborted) return [];
    const { ids, dropped } = await storage.transaction({ keys: [DEVICE], prefix: BATCH }, (store) => {
      const { ids, dropped } = outstanding(store, delivery);
      const device = store.get<DeviceState>(DEVICE);
      this.failing = ids.length ? device?.failing : undefined;
      if (device && !ids.length && (device.sendAt !== null || device.failing)) store.put(DEVICE, { ...device, sendAt: null, failing: undefined });
      return { ids: shuffled(ids, randomness), dropped };
    });
    this.lost += dropped;
    return ids;
  }

  /** Send a batch, if it is still there. False where it must be tried again. */
  private async send(id: string, signal: AbortSignal): Promise<boolean> {
    const begun = await this.request(id, signal);
    if (!begun) return !signal.aborted;
    const { storage, delivery, randomness, clock } = this.parts;
    const { batch } = begun;
    let response;
    try {
      response = await begun.answer;
    } catch (error) {
      this.tried?.add(id);
      return !signal.aborted && this.failed(batch, `no_connection: ${String(error)}`, 0);
    }
    if (signal.aborted) return false;
    const verdict = readResponse(response, id, batch.metrics.length, clock(), bodyOf(batch));
    const isNew = !this.tried?.has(id);
    this.tried?.add(id);
    if (verdict.kind === "large") {
      const isSplit = (isNew || verdict.final) && await storage.transaction({ keys: [DEVICE, BATCH + id] }, (store) => split(store, id, delivery, randomness));
      return isSplit || this.failed(batch, "too_large", 0);
    }
    if (verdict.kind === "again") return this.failed(batch, verdict.reason, verdict.wait);
    this.failures = this.until = this.untilHurried = 0;
    this.failing = undefined;
    this.lastError = "";
    await storage.transaction({ keys: [DEVICE, BATCH + id] }, (store) => {
      const outcome = (metric: string, at: number): string => {
        const reason = verdict.kind === "answered" ? verdict.results[at] : "";
        if (verdict.kind === "answered" && !reason) return `accepted:${metric}`;
        this.lost += 1;
        return (this.lastError = verdict.kind === "never" ? `dropped:${verdict.reason}` : `refused:${metric}:${reason}`);
      };
      const reports = store.get<StoredBatch>(BATCH + id)?.reports ?? [];
      removeBatch(store, id, outcome);
      const device = store.get<DeviceState>(DEVICE);
      if (!device) return;
      if (verdict.kind === "answered") reports.forEach((report, at) => noteAnswer(device, report, verdict.results[at]!, dayAt(clock())));
      store.put(DEVICE, { ...device, failing: undefined });
    });
    return true;
  }

  /**
   * Read a batch and begin its request in one transaction: a withdrawal, in whichever tab, comes
   * before it, and there is no batch, or after it, and aborts the request.
   */
  private request(id: string, signal: AbortSignal): Promise<Exchange | undefined> {
    const { storage, transport, delivery } = this.parts;
    let answer: Promise<Response> | undefined;
    return storage.transaction({ keys: [DEVICE, BATCH + id] }, (store) => {
      const batch = store.get<StoredBatch>(BATCH + id);
      if (answer) throw new StateError("state_unavailable", "storage_refused", "begun"); // once: its batch is sent again
      if (!batch || signal.aborted || !store.get<DeviceState>(DEVICE)?.secret) return undefined;
      const { contentType, encoding } = batch;
      answer = (async () => transport({ body: bodyOf(batch), contentType, encoding, timeout: delivery.timeout, signal }))();
      answer.catch(() => undefined); // whoever waits for it says so
      return { batch, answer };
    });
  }

  /** Uniform in [0, firstPause * 2^failures], bounded; a Retry-After comes before it. */
  private async failed({ id, lastDay }: StoredBatch, reason: string, wait: number): Promise<false> {
    const { delivery, randomness, clock, storage } = this.parts;
    this.lastError = reason;
    this.failures += 1;
    const longest = Math.min(delivery.longestPause, delivery.firstPause * 2 ** Math.min(this.failures, 40));
    const jitter = uniform(randomness) * longest;
    const start = monotonic() + Math.min(wait, delivery.longestRetryAfter);
    this.until = start + jitter;
    this.untilHurried = start + Math.min(jitter, FLUSH_PAUSE);
    await storage.transaction({ keys: [DEVICE, BATCH + id] }, (store) => {
      const device = store.get<DeviceState>(DEVICE);
      if (!device?.secret) return;
      this.failing = { since: device.failing?.since ?? clock(), why: reason };
      if (!this.isWarned) console.warn(`rappor-telemetry: ${sentenceOf(this.failing)}`);
      this.isWarned = true;
      store.put(DEVICE, { ...device, failing: this.failing });
      if (clock() / 86_400 < lastDay + delivery.maxAgeDays + 1) return;
      this.lost += 1;
      removeBatch(store, id, () => "dropped:too_old");
    });
    return false;
  }
}
