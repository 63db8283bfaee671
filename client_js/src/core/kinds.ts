/** What a part does for the core: a kind of metric. Types alone, no code. */

import type { Places } from "../options.js";
import type { Definition, Metric } from "./metrics.js";
import type { Recorder } from "./recorder.js";
import type { Transaction } from "./state.js";

/** What the development build asks of a definition, beside the rules that all kinds share. */
export interface KindRules {
  readonly encodings: readonly string[];
  /** Whether it may declare `no_data`. */
  readonly takesNoData: boolean;
  /** Values that it can take: with a cap below this it needs a fallback. */
  readonly numValues: number;
}

/** One act about a metric. day: of the clock, since 1970-01-01, UTC. */
export interface KindAct {
  readonly store: Transaction;
  readonly recorder: Recorder;
  readonly name: string;
  readonly day: number;
}

/** A kind of metric that the core does not have: an app passes its part to `open`, in `kinds`. */
export interface Kind {
  readonly kind: Definition["kind"];
  /** Throws MetricsFileError. The rules are of the development build. */
  check(definition: Definition): KindRules | undefined;
  /** B of a value, on one device. The function that it gives throws ValueRefusedError. */
  encoder(metric: Metric, cohort: number, secret: Uint8Array): (value: unknown) => Uint8Array;
  /** Values that between them have every response, of a metric without a fallback. */
  values(definition: Definition): readonly unknown[];
  /** In place of a report at once: keep a value; why not, or "". isAmount: of `add`. */
  take?(act: KindAct, value: unknown, isAmount: boolean): string;
  /** Report what is over. */
  roll?(act: KindAct): void;
  /**
   * Of a kind that takes fixes, not values: what becomes of them. Its answers are fresh alone, so they
   * share one entry of the ledger, which does not tell which was sent.
   */
  readonly places?: Pick<Places, "scope" | "take" | "roll">;
}
