/** `Client`: what an app embeds. Record a value in one call; the rest happens by itself. */

import { accountOf, localTime, sentence, wantsNoTracking, withdraw } from "./account.js";
import { checkOptions } from "./check_options.js";
import { toHex, own } from "./core/bytes.js";
import { secretCheck, SECRET_BYTES } from "./core/derive.js";
import type { Randomness } from "./core/device.js";
import { ParameterError, say, StateError, UnknownMetricError, ValueRefusedError } from "./core/errors.js";
import { budgetOf, LEVELS, pinBudget, type PrivacyLevel } from "./core/ledger.js";
import type { Metrics } from "./core/metrics.js";
import { DELIVERY, type Delivery } from "./core/outbox.js";
import { readMetrics } from "./core/reading.js";
import { dayAt, Recorder, secretIsWhole } from "./core/recorder.js";
import { BATCH, boundOf, count, DEVICE, LINE, newDevice, QUEUE, type DeviceState, type LineState, type Transaction } from "./core/state.js";
import type { Condition, LocalTime, Options, Status } from "./options.js";
import { checked, systemRandomness } from "./ports/randomness.js";
import { platformHere, type Scope } from "./ports/storage.js";
import { batchUrl, fetchTransport } from "./ports/transport.js";
import { geometricDelay, Sender } from "./sender.js";

/** Records values of declared metrics, under the ledger, and delivers reports exactly once. */
export class Client {
  /** Why the last `record` that returned false did; "" if none has yet. No value is in it. */
  lastRefusal = "";
  private readonly recorder: Recorder;
  private readonly sender: Sender;
  private readonly delivery: Delivery;
  private readonly randomness: Randomness;
  private readonly clock: () => number;
  private condition: Condition = "no_consent";
  private trouble = "";
  private hadSecret = false;
  private unwiped = false;
  private filled = 0;
  private readonly uncounted: Record<string, number> = {};

  private constructor(private readonly options: Options) {
    const { metrics, places, kinds, associations, privacyLevel = "standard", collector, key, development = false } = options;
    if (typeof options.consent !== "boolean") throw new ParameterError("consent_unsaid");
    const level = typeof privacyLevel === "string" ? own<PrivacyLevel>(LEVELS, privacyLevel) : privacyLevel;
    if (!level || !Object.values(level).every((bound) => bound > 0)) throw new ParameterError("privacy_level");
    this.delivery = { ...DELIVERY, ...options.delivery };
    checkOptions(this.delivery);
    const url = batchUrl(collector, key, development);
    this.randomness = checked(options.randomness ?? systemRandomness());
    this.clock = options.clock ?? (() => Date.now() / 1000);
    const read: Metrics = readMetrics(metrics, places, kinds, associations);
    this.recorder = new Recorder(read, level, this.randomness, options.storage.platform ?? platformHere());
    this.sender = new Sender({
      storage: options.storage,
      transport: options.transport ?? fetchTransport(url, key),
      delivery: this.delivery,
      randomness: this.randomness,
      clock: this.clock,
      link: read.link,
    });
  }

  /**
   * Open the state. Rejects with MetricsFileError and ParameterError for mistakes of the app;
   * trouble with the state does not reject: the client stays quiet, and `status` says why.
   */
  static async open(options: Options): Promise<Client> {
    const client = new Client(options);
    await client.setConsent(options.consent);
    return client;
  }

  get status(): Status {
    const { keyIsRefused } = this.sender;
    const condition = this.condition === "active" && keyIsRefused ? "key_refused" : this.condition;
    const code = condition.startsWith("state_") ? "trouble" : this.unwiped && "unwiped";
    return { condition, sentence: code ? say(code, this.trouble) : say(condition) };
  }

  /** Why the last try to send failed; "" when it did not. */
  get lastError(): string {
    return this.sender.lastError;
  }

  /**
   * Record a value. True when a report was queued, durably; false: `lastRefusal` says why. It
   * rejects in development mode only, for an unknown metric or a value that cannot be encoded. A
   * number is kept, and reported when its period is over.
   */
  record(name: string, value: unknown): Promise<boolean> {
    return this.take(name, value, false);
  }

  /** Add to the sum of this period, of a metric of kind `number` that has `of_period = "sum"`. */
  add(name: string, amount = 1): Promise<boolean> {
    return this.take(name, amount, true);
  }

  /** Take a raw fix, degrees, of a metric of kind `location`: it stays on the device. */
  recordLocation(name: string, latitude: number, longitude: number, at?: LocalTime): Promise<boolean> {
    return this.place(name, [[latitude, longitude]], at);
  }

  /** Take a trip that ended at a time; each end is latitude and longitude. */
  recordTrip(
    name: string,
    origin: readonly [number, number],
    destination: readonly [number, number],
    at?: LocalTime,
  ): Promise<boolean> {
    return this.place(name, [origin, destination], at);
  }

  /** Send what waits now. True when all was delivered within so many seconds. */
  async flush(timeout: number): Promise<boolean> {
    if (this.unwiped) await this.wipe();
    if (this.condition === "no_consent" || this.condition === "do_not_track") return true;
    await this.fill();
    return this.sender.flush(timeout);
  }

  /** Nothing is lost: what was not delivered is sent after the next `open`. */
  async close(): Promise<void> {
    this.sender.end();
    this.condition = "closed";
    await this.options.storage.close();
  }

  /**
   * What the person decided now. Withdrawn: queue, values and secret are wiped at once; numbers
   * stay. Where they could not be, `status` says so, and each call tries again.
   * budget: nats that the person agreed to, up to the declared ones.
   */
  async setConsent(consent: boolean, budget?: number): Promise<void> {
    if (this.condition === "closed") return;
    const declared = this.recorder.metrics.budget;
    if (budget !== undefined && !(consent && budget > 0 && budget <= declared)) {
      throw new ParameterError("budget", declared);
    }
    const mayRecord = !(this.options.doNotTrack ?? wantsNoTracking)();
    this.condition = consent ? (mayRecord ? "active" : "do_not_track") : "no_consent";
    if (consent && !mayRecord) return;
    this.hadSecret = false;
    this.unwiped = !consent;
    if (!consent) return this.wipe();
    await this.act({ keys: [DEVICE], prefix: QUEUE }, (store) => this.begin(store, budget));
    if (this.condition === "active") await this.fill();
  }

  /**
   * Start anew with a new secret, where `status` says that the state cannot be used. It spends the
   * privacy budget again: never call it automatically. wipe: removes what the storage holds.
   */
  async reset(wipe: () => Promise<void> = async () => undefined): Promise<void> {
    if (!this.condition.startsWith("state_")) throw new ParameterError("nothing_to_reset");
    await this.options.storage.close().catch(() => undefined);
    await wipe();
    await this.options.storage.reset?.();
    await this.setConsent(true);
  }

  /** What is queued, what was sent and what it can cost, in plain values for JSON. */
  async inspect(): Promise<Record<string, unknown>> {
    const account = await this.act({ keys: [DEVICE], prefix: "" }, (store) => {
      const device = store.get<DeviceState>(DEVICE);
      if (!device) return {};
      const { metrics, level } = this.recorder;
      const lines = store.list<LineState>().filter(([key]) => key.startsWith(LINE));
      return {
        budget: boundOf(budgetOf(device, metrics.budget, level)),
        waiting: device.waiting,
        batches: store.list().filter(([key]) => key.startsWith(BATCH)).length,
        counters: device.counters,
        metrics: Object.fromEntries(lines.map(([key, line]) => [key.slice(LINE.length), accountOf(line)])),
      };
    });
    return { status: this.status, lastError: this.lastError, lastRefusal: this.lastRefusal, ...account, notRecorded: this.uncounted };
  }

  private take(name: string, value: unknown, isAmount: boolean): Promise<boolean> {
    return this.guarded(
      () => ({ keys: this.recorder.keys(name) }),
      (store) => this.recorder.take(store, name, value, dayAt(this.clock()), isAmount),
      name,
    );
  }

  private place(name: string, points: readonly (readonly [number, number])[], at?: LocalTime): Promise<boolean> {
    const { places } = this.options;
    return this.guarded(
      () => {
        if (!places) throw new UnknownMetricError("places_missing", name);
        return places.scope(this.recorder, name);
      },
      (store) => {
        const now = localTime(this.clock());
        return places!.take({ store, recorder: this.recorder, name, at: at ?? now, now }, points) || "queued";
      },
      name,
    );
  }

  /** End the secret; with all of a state that cannot be read or written, unless another has it. */
  private async wipe(): Promise<void> {
    const { storage } = this.options;
    try {
      await storage.transaction({ keys: [DEVICE], prefix: "" }, withdraw).then(
        () => storage.scrub(),
        (error: unknown) => {
          if (!storage.erase || (error as StateError).condition === "state_in_use") throw error;
          return storage.erase();
        },
      );
      this.unwiped = false;
    } catch (error) {
      this.failed(error);
    }
  }

  /** Do what an app asked for; no trouble with it reaches the app. */
  private async guarded(
    scope: () => Scope,
    act: (store: Transaction) => string,
    name: string,
  ): Promise<boolean> {
    if (this.unwiped) await this.wipe();
    if (this.condition !== "active" && !this.condition.startsWith("state_")) return this.refused("", this.status.sentence);
    let outcome: string | undefined;
    let dueAt: number | undefined;
    try {
      if (this.condition === "active" && this.filled !== dayAt(this.clock())) await this.fill();
      outcome = await this.act(scope(), (store) => {
        if (this.condition !== "active") this.begin(store);
        const said = act(store);
        dueAt = this.schedule(store, name, said);
        return said;
      });
    } catch (error) {
      if (this.options.development) throw error;
      const { name: kind, message } = error as Error;
      const ours = error instanceof ValueRefusedError || error instanceof UnknownMetricError;
      return this.refused(`mistake:${kind}`, say("wrong_call", ours ? message : kind));
    }
    if (outcome === undefined) return this.refused("not_recorded", this.status.sentence);
    if (!outcome.startsWith("queued")) return this.refused("", sentence(name, outcome));
    this.condition = "active";
    if (dueAt !== undefined) this.sender.wakeAt(dueAt);
    return true;
  }

  /** In the transaction of a record: count a refusal, and draw when the next batch leaves. */
  private schedule(store: Transaction, name: string, outcome: string): number | undefined {
    const device = store.get<DeviceState>(DEVICE);
    if (!device) return undefined;
    const queued = outcome.startsWith("queued");
    if (!queued && !outcome.endsWith("nothing_left")) count(device, `${outcome.split(":")[0]}:${name}`);
    if (queued && device.sendAt === null && device.waiting) {
      device.sendAt = this.clock() + this.delay();
    } else if (queued) return device.sendAt ?? undefined;
    store.put(DEVICE, device);
    return device.sendAt ?? undefined;
  }

  private delay(): number {
    const mean = this.delivery.meanDelay;
    return mean && geometricDelay(mean, this.randomness);
  }

  /** First look at the state: the secret is made once, and the budget entered. */
  private begin(store: Transaction, budget?: number): void {
    const device = store.get<DeviceState>(DEVICE) ?? newDevice();
    if (device.version !== 1 || !secretIsWhole(device)) {
      throw new StateError("state_corrupt", "state_damaged");
    }
    let changed = pinBudget(device, this.recorder.metrics.budget);
    if (budget !== undefined) {
      device.budget = boundOf(budget);
      changed = true;
    }
    if (device.secret === null) {
      if (this.hadSecret) throw new StateError("no_consent", "secret_gone");
      const secret = this.randomness(SECRET_BYTES);
      device.secret = toHex(secret);
      device.check = toHex(secretCheck(secret));
      changed = true;
    }
    this.hadSecret = true;
    if (device.waiting) {
      if (device.sendAt === null || device.sendAt < this.clock()) {
        device.sendAt = this.clock() + this.delay(); // sending must not follow a start
        changed = true;
      }
      this.sender.wakeAt(device.sendAt);
    }
    if (!changed) return;
    store.put(DEVICE, device);
    store.through();
  }

  /** What is due by itself: `no_data`, and periods of places and numbers that are over. */
  private async fill(): Promise<void> {
    const { places } = this.options;
    const rolled = new Set<string>();
    const { recorder } = this;
    const day = (this.filled = dayAt(this.clock()));
    for (const { name, line, definition, part } of recorder.metrics.metrics.values()) {
      if (places && definition.location) {
        if (rolled.has(line)) continue;
        rolled.add(line);
        const at = localTime(this.clock());
        await this.act(places.scope(recorder, line), (store) => places.roll({ store, recorder, name: line, at, now: at }));
      } else if (definition.no_data !== undefined || part?.roll) {
        await this.act({ keys: recorder.keys(name) }, (store) => void recorder.fillPeriods(store, name, day));
      }
    }
    const at = await this.act({ keys: [DEVICE] }, (store) => this.schedule(store, "", "queued"));
    if (at !== undefined) this.sender.wakeAt(at);
  }

  /** A transaction; undefined where the state cannot be used, which then shows in `status`. */
  private async act<T>(scope: Scope, act: (store: Transaction) => T): Promise<T | undefined> {
    try {
      return await this.options.storage.transaction(scope, act);
    } catch (error) {
      this.failed(error);
      return undefined;
    }
  }

  /** Trouble with the state shows in `status`; anything else is thrown. */
  private failed(error: unknown): void {
    if (!(error instanceof StateError)) throw error;
    this.trouble = error.message;
    if (this.condition !== "closed" && this.condition !== "no_consent") this.condition = error.condition;
  }

  private refused(reason: string, why: string): false {
    this.lastRefusal = why;
    if (reason) this.uncounted[reason] = (own(this.uncounted, reason) ?? 0) + 1;
    return false;
  }
}
