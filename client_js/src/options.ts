/** What `Client.open` takes, what a client tells, and what the part for places does for it. */

import type { Randomness } from "./core/device.js";
import type { Kind } from "./core/kinds.js";
import type { PrivacyLevel } from "./core/ledger.js";
import type { PlaceRules } from "./core/metrics.js";
import type { Delivery } from "./core/outbox.js";
import type { Recorder } from "./core/recorder.js";
import type { Transaction } from "./core/state.js";
import type { Scope, Storage } from "./ports/storage.js";
import type { Transport } from "./ports/transport.js";

/** Fixes and trips of metrics of kind `location`: the part for places, `places()`. */
export interface Places extends PlaceRules {
  /** Documents that an act about a metric reads. */
  scope(recorder: Recorder, name: string): Scope;
  /** Take points (one: a fix; two: a trip) at a time; a reason where nothing of them is kept. */
  take(act: PlaceAct, points: readonly (readonly [number, number])[]): string;
  /** Close the periods that are over, of one metric. */
  roll(act: Omit<PlaceAct, "at">): void;
}

/** One act about a metric of places. at: of the fix. now: of the clock, milliseconds since 1970. */
export interface PlaceAct {
  readonly store: Transaction;
  readonly recorder: Recorder;
  readonly name: string;
  readonly at: LocalTime;
  readonly now: LocalTime;
}

/** A time where the device is. ms: since 1970, UTC. offset: minutes east of UTC. */
export interface LocalTime {
  readonly ms: number;
  readonly offset: number;
}

/** What `Client.open` takes. */
export interface Options {
  /** Compiled metrics: the text or the value of `rappor metrics compile`. */
  readonly metrics: unknown;
  readonly storage: Storage;
  /** The collector's address. */
  readonly collector: string;
  /** What the person answered; there is no default. */
  readonly consent: boolean;
  readonly key?: string;
  /** The person's choice. */
  readonly privacyLevel?: "standard" | "strict" | PrivacyLevel;
  readonly delivery?: Partial<Delivery>;
  /** Mistakes in `record` reject; a key may travel over plain http. */
  readonly development?: boolean;
  readonly places?: Places;
  /** Parts for further kinds of metric: `numbers()`, `pairs()`, `discover()`. */
  readonly kinds?: readonly Kind[];
  readonly randomness?: Randomness;
  readonly transport?: Transport;
  /** Seconds since 1970, UTC. */
  readonly clock?: () => number;
  /** Calls `flush` when what shows the app is hidden, until what it gives is called. */
  readonly whenHidden?: (flush: () => void) => () => void;
  /** Whether the platform says that the person wants no tracking; it wins over consent. */
  readonly doNotTrack?: () => boolean;
}

export type Condition =
  | "active" | "not_delivered" | "key_refused" | "no_consent" | "do_not_track" | "closed"
  | "state_corrupt" | "state_in_use" | "state_rolled_back" | "state_unavailable";

/** Whether values are recorded, and if not, why. */
export interface Status {
  readonly condition: Condition;
  readonly sentence: string;
}
