/** `Client`: what an app embeds. Record a value in one call; the rest happens automatically. */

import { accountOfDevice, localTime, sentence, wantsNoTracking, withdraw } from "./account.js";
import { checkNames, checkOptions, warnOfRefusal } from "./development.js";
import { toHex, own } from "./core/bytes.js";
import { secretCheck, SECRET_BYTES } from "./core/derive.js";
import type { Randomness } from "./core/device.js";
import { ParameterError, say, StateError, UnknownMetricError, ValueRefusedError } from "./core/errors.js";
import { budgetOf, LEVELS, pinBudget, type PrivacyLevel } from "./core/ledger.js";
import type { LocalTime, Metrics } from "./core/metrics.js";
import { DELIVERY, type Delivery } from "./core/outbox.js";
import { readMetrics } from "./core/reading.js";
import { dayAt, Recorder, secretIsWhole } from "./core/recorder.js";
import { boundOf, count, DEVICE, deviceIsWhole, newDevice, QUEUE, type DeviceState, type Scope, type Transaction } from "./core/state.js";
import type { Condition, Options, Status } from "./options.js";
import { checked, systemRandomness } from "./ports/randomness.js";
import { platformHere, unavailable, within, type Storage } from "./ports/storage.js";
import { batchUrl, fetchTransport } from "./ports/transport.js";
import { geometricDelay, MAX_DELAY, PATIENCE, Sender, sentenceOf } from "./sender.js";

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
  private wiping: Promise<void> | undefined;
  private readonly withdrawn = (): void => void this.stop("no_consent");
  private readonly endings: ((() => void) | void)[] = []; // what `close` undoes
  private decisions = 0; // what was begun under an earlier one is not finished
  private filled = 0;
  private readonly uncounted: Record<string, number> = {};

  protected constructor(private readonly options: Options) {
    checkNames(options, []);
    const { metrics, places, kinds, privacyLevel = "standard", collector, key, development = false } = options;
    if (typeof options.consent !== "boolean") throw new ParameterError("consent_unsaid");
    const level = typeof privacyLevel === "string" ? own<PrivacyLevel>(LEVELS, privacyLevel) : privacyLevel;
    if (!level || !Object.values(level).every((bound) => bound > 0)) throw new ParameterError("privacy_level");
    this.delivery = { ...DELIVERY, ...options.delivery };
    checkOptions(this.delivery);
    const url = batchUrl(collector, key, development);
    this.randomness = checked(options.randomness ?? systemRandomness());
    this.clock = options.clock ?? (() => Date.now() / 1000);
    const read: Metrics = readMetrics(metrics, places, kinds);
    this.recorder = new Recorder(read, level, this.randomness, options.storage.platform ?? platformHere());
    this.sender = new Sender({
      storage: options.storage,
      transport: options.transport ?? fetchTransport(url, key),
      delivery: this.delivery,
      randomness: this.randomness,
      clock: this.clock,
    });
    this.endings.push(options.storage.hear?.(this.withdrawn), options.whenHidden?.(() => void this.flush(5)));
  }

  /**
   * Open the state. Rejects with MetricsFileError and ParameterError for mistakes of the app;
   * trouble with the state does not reject: the client stays quiet, and `status` says why.
   */
  static async open(options: Options): Promise<Client> {
    const client = new this(options);
    await client.setConsent(options.consent);
    return client;
  }

  get status(): Status {
    const { failing } = this.sender;
    const { condition, trouble } = this;
    if (condition.startsWith("state_")) return { condition, sentence: say("trouble", trouble) };
    if (condition === "active" && failing) {
      const isKey = /^http_40[13]$/.test(failing.why);
      return { condition: isKey ? "key_refused" : "not_delivered", sentence: isKey ? say("key_refused") : sentenceOf(failing) };
    }
    return { condition, sentence: this.unwiped ? say("unwiped", trouble) : say(condition) };
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

  /** Send what waits now. True when all was delivered within so many seconds, or nothing may wait. */
  async flush(timeout: number): Promise<boolean> {
    if (this.unwiped) await this.wipe();
    const { condition } = this;
    if (condition === "no_consent" || condition === "do_not_track") return condition === "no_consent"; // then nothing waits
    await this.fill();
    return this.sender.flush(timeout);
  }

  /** Nothing is lost: what was not delivered is sent after the next `open`. */
  async close(): Promise<void> {
    const ended = this.stop("closed");
    for (const end of this.endings.splice(0)) end?.();
    if (this.wiping) await this.wiping;
    await this.options.storage.close().catch(() => undefined); // at once: whoever quits does not wait
    await ended;
  }

  /**
   * What the person decided now. Withdrawn: queue, values and secret are wiped at once, what is
   * being sent is aborted, in every tab, and nothing leaves once this has resolved; numbers stay.
   * Where they could not be wiped, `status` says so, and each call tries again.
   * budget: nats that the person agreed to, up to the declared ones.
   * Whether it holds now: all is wiped, or values are recorded. A withdrawal that finds no state
   * where one was open answers false.
   */
  async setConsent(consent: boolean, budget?: number): Promise<boolean> {
    if (this.condition === "closed") return false;
    const declared = this.recorder.metrics.budget;
    if (budget !== undefined && !(consent && budget > 0 && budget <= declared)) {
      throw new ParameterError("budget", declared);
    }
    const mayRecord = !(this.options.doNotTrack ?? wantsNoTracking)();
    if (!consent) {
      this.unwiped = true;
      void this.stop("no_consent");
      this.options.storage.tell?.(this.withdrawn);
      await this.wipe();
      return !this.unwiped;
    }
    if (!mayRecord) {
      await this.stop("do_not_track");
      return false;
    }
    this.condition = "active";
    this.hadSecret = false;
    const { decisions } = this;
    if (this.unwiped) await this.wipe();
    if (this.unwiped || decisions !== this.decisions) return false;
    if (await this.act({ keys: [DEVICE], prefix: QUEUE }, (store) => this.begin(store, budget), decisions)) {
      this.hadSecret = true;
      await this.fill(decisions);
    }
    return this.isActive;
  }

  /**
   * Start again with a new secret, where `status` says that the state cannot be used. It spends the
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
    const { metrics, level } = this.recorder;
    const account = await this.read({ keys: [DEVICE], prefix: "" }, (store) =>
      accountOfDevice(store, (device) => budgetOf(device, metrics.budget, level)),
    );
    return { status: this.status, lastError: this.lastError, lastRefusal: this.lastRefusal, ...account, notRecorded: this.uncounted };
  }

  private take(name: string, value: unknown, isAmount: boolean): Promise<boolean> {
    return this.guarded(
      () => ({ keys: this.recorder.keys(name) }),
      (store) => this.recorder.take(store, name, value, dayAt(this.clock()), isAmount),
      name,
      value,
    );
  }

  private place(name: string, points: readonly (readonly [number, number])[], at?: LocalTime): Promise<boolean> {
    const places = this.recorder.metrics.metrics.get(name)?.part?.places ?? this.options.places;
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
      points,
    );
  }

  private get isActive(): boolean {
    return this.condition === "active";
  }

  /** Nothing is recorded or sent from now on. Resolves when nothing is being sent any more. */
  private async stop(condition: "no_consent" | "do_not_track" | "closed"): Promise<void> {
    if (this.condition === "closed") return;
    this.condition = condition;
    this.decisions += 1;
    await this.sender.end();
  }

  private wipe(): Promise<void> {
    return (this.wiping ??= this.wipeNow().finally(() => (this.wiping = undefined)));
  }

  /**
   * End the secret; with all of a state that cannot be read or written, unless another has it. Then
   * wait for the tab that was sending, which gets a message.
   */
  private async wipeNow(): Promise<void> {
    const { storage } = this.options;
    try {
      await this.transaction({ keys: [DEVICE], prefix: "" }, (store) => {
        if (this.hadSecret && store.get(DEVICE) === undefined) throw new StateError("state_unavailable", "state_gone");
        withdraw(store);
      }).then(
        () => storage.scrub(),
        (error: unknown) => {
          const { condition, code } = error as StateError;
          if (!storage.erase || condition === "state_in_use" || code === "state_gone" || code === "closed") throw error;
          return storage.erase();
        },
      );
      const ended = storage.exclusive("send", async () => true, true);
      if (!(await within(ended, PATIENCE))) throw new StateError("state_in_use", "storage_busy");
      this.unwiped = this.hadSecret = false;
    } catch (error) {
      this.failed(error instanceof StateError ? error : new StateError("state_unavailable", "storage_refused", String(error)));
    }
  }

  /** Do what an app asked for; no trouble with it reaches the app. */
  private async guarded(
    scope: () => Scope,
    act: (store: Transaction) => string,
    name: string,
    given: unknown,
  ): Promise<boolean> {
    const refused = (reason: string, why: string): false => {
      warnOfRefusal(this.options, this.recorder.metrics, name, given, why);
      return this.refused(reason, why);
    };
    if (this.unwiped) await this.wipe();
    const { decisions } = this;
    if (this.unwiped || (!this.isActive && !this.condition.startsWith("state_"))) return refused("", this.status.sentence);
    let outcome: string | undefined;
    let dueAt: number | undefined;
    try {
      if (this.isActive && this.filled !== dayAt(this.clock())) await this.fill(decisions);
      outcome = await this.act(
        scope(),
        (store) => {
          if (!this.isActive) this.begin(store);
          const said = act(store);
          dueAt = this.schedule(store, name, said);
          return said;
        },
        decisions,
      );
    } catch (error) {
      const { name: kind, message } = error as Error;
      const ours = error instanceof ValueRefusedError || error instanceof UnknownMetricError;
      refused(`mistake:${kind}`, say("wrong_call", ours ? message : kind));
      if (this.options.development) throw error;
      return false;
    }
    if (outcome === undefined) return refused("not_recorded", this.status.sentence);
    this.hadSecret = true;
    if (decisions === this.decisions) this.condition = "active";
    if (!outcome.startsWith("queued")) return refused("", sentence(name, outcome));
    if (dueAt !== undefined) this.wakeAt(dueAt);
    return true;
  }

  /** In the transaction of a record: count a refusal, and draw when the next batch leaves. */
  private schedule(store: Transaction, name: string, outcome: string): number | undefined {
    const device = store.get<DeviceState>(DEVICE);
    if (!device) return undefined;
    this.sender.failing = device.failing;
    const queued = outcome.startsWith("queued");
    if (!queued && !outcome.endsWith("nothing_left")) count(device, `${outcome.split(":")[0]}:${name}`);
    if (!(queued && device.waiting ? this.drawDue(device) : !queued)) return device.sendAt ?? undefined;
    store.put(DEVICE, device);
    return device.sendAt ?? undefined;
  }

  /**
   * Draw when the next batch leaves, where that is not said, is over while the app was closed (sending
   * must not follow a start), or lies where no delay reaches: the clock was set.
   */
  private drawDue(device: DeviceState): boolean {
    const mean = this.delivery.meanDelay;
    const wait = (device.sendAt ?? NaN) - this.clock();
    if (wait >= 0 && wait <= MAX_DELAY * mean) return false;
    device.sendAt = this.clock() + geometricDelay(mean, this.randomness);
    return true;
  }

  private wakeAt(at: number): void {
    this.sender.wakeIn(at - this.clock());
  }

  /** First look at the state: the secret is made once, and the budget entered. */
  private begin(store: Transaction, budget?: number): true {
    const found = store.get<DeviceState>(DEVICE);
    const device = found === undefined ? newDevice() : found;
    if (!deviceIsWhole(device) || !secretIsWhole(device)) {
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
    this.sender.begin();
    if (device.waiting) {
      changed = this.drawDue(device) || changed;
      this.wakeAt(device.sendAt!);
    }
    if (changed) {
      store.put(DEVICE, device);
      store.through();
    }
    return true;
  }

  /** What is due without a call: `no_data`, and periods of places and numbers that are over. */
  private async fill(decisions = this.decisions): Promise<void> {
    let rolled = "";
    const { recorder } = this;
    const roll = (scope: Scope, act: (store: Transaction) => void): Promise<void> =>
      this.act(scope, act, decisions).catch(() => void this.refused(`damaged:${scope.keys.at(-1)}`, "")); // the others continue
    const day = (this.filled = dayAt(this.clock()));
    for (const { name, line, definition, part } of recorder.metrics.metrics.values()) {
      const places = definition.location ? this.options.places : part?.places;
      if (places) {
        if (rolled === line) continue; // parts of a name follow each other, and to look twice does no harm
        rolled = line;
        const now = localTime(this.clock());
        await roll(places.scope(recorder, line), (store) => places.roll({ store, recorder, name: line, now }));
      } else if (definition.no_data !== undefined || part?.roll) {
        await roll({ keys: recorder.keys(name) }, (store) => void recorder.fillPeriods(store, name, day));
      }
    }
    const at = await this.act({ keys: [DEVICE] }, (store) => this.schedule(store, "", "queued"), decisions);
    if (at !== undefined) this.wakeAt(at);
  }

  /** As `read`, unless the person has decided otherwise since: then undefined, and nothing is done. */
  private act<T>(scope: Scope, act: (store: Transaction) => T, decisions: number): Promise<T | undefined> {
    return this.read(scope, (store) => (decisions === this.decisions ? act(store) : undefined));
  }

  /** A transaction; undefined where the state cannot be used, which then shows in `status`. */
  private async read<T>(scope: Scope, act: (store: Transaction) => T): Promise<T | undefined> {
    let ours: unknown; // what `act` threw; anything else is the platform's
    try {
      return await this.transaction(scope, (store) => {
        try {
          return act(store);
        } catch (error) {
          throw (ours = error);
        }
      });
    } catch (error) {
      this.failed(error === ours || error instanceof StateError ? error : unavailable(error));
      return undefined;
    }
  }

  /** A closed client opens nothing again. */
  private transaction: Storage["transaction"] = async (scope, act) => {
    if (this.condition === "closed") throw new StateError("state_unavailable", "closed");
    return this.options.storage.transaction(scope, act);
  };

  /** Trouble with the state shows in `status`; anything else is thrown. */
  private failed(error: unknown): void {
    if (!(error instanceof StateError)) throw error;
    this.trouble = error.message;
    if (this.isActive || this.condition.startsWith("state_")) this.condition = error.condition;
  }

  private refused(reason: string, why: string): false {
    this.lastRefusal = why;
    if (reason) this.uncounted[reason] = (own(this.uncounted, reason) ?? 0) + 1;
    return false;
  }
}
