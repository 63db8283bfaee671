/** What `Client.open` takes, and what a client reports. */

import type { Randomness } from "./core/device.js";
import type { PrivacyLevel } from "./core/ledger.js";
import type { Kind, Places } from "./core/metrics.js";
import type { Delivery } from "./core/outbox.js";
import type { Storage } from "./ports/storage.js";
import type { Transport } from "./ports/transport.js";

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
  | "state_corrupt" | "state_in_use" | "state_missing" | "state_unavailable";

/** Whether values are recorded, and if not, why. */
export interface Status {
  readonly condition: Condition;
  readonly sentence: string;
}
