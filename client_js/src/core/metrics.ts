/** Metrics as a device uses them, and what a part does for a kind of metric that the core does not have. */

import { dayOf, type Period } from "./days.js";
import { UnknownMetricError } from "./errors.js";
import { epsilonInfinity, epsilonPerReport, hasSymbols, type Params } from "./privacy.js";
import type { Scope, Transaction } from "./state.js";

export const OTHER = "other";
/** Of places, where a metric declares it: a slot and period without a fix. */
export const NO_DATA = "no_data";

/** What a metric of kind `location` asks for, as its definition says it. */
export interface Place {
  readonly grid: {
    readonly kind: "quadkey" | "geohash" | "square" | "h3";
    readonly box: readonly [number, number, number, number];
    readonly levels: readonly number[];
    readonly rows: number;
    readonly columns: number;
  };
  readonly level: number;
  readonly slots: readonly string[];
  readonly slot: string;
  readonly mode: "memo" | "window" | "once";
  readonly window: number;
  readonly pairs: boolean;
  readonly max_gap_minutes: number;
  /** Of mode `window`: the turn is redrawn in each block of `window` periods, not once for life. */
  readonly turn?: "fresh";
  /** A slot and period without a fix answers with the last known cell, at most so many periods old. */
  readonly hold?: number;
}

/** Where a metric may run: `app`, whose storage lasts; `web`, a browser, which may delete it. */
export type Platform = "app" | "web";

/** A metric as `Metric.to_dict` of the Python package writes it. */
export interface Definition {
  readonly name: string;
  readonly kind: "string" | "category" | "boolean" | "location" | "number" | "pair" | "discover" | "flow";
  readonly description: string;
  readonly owner: string;
  readonly expires: string;
  readonly params: Params;
  readonly max_memoized_values: number;
  readonly categories: readonly string[];
  readonly fallback: string | null;
  readonly max_reports: number | null;
  readonly period: Period;
  readonly max_reports_per_period: number;
  readonly min_reports: number;
  readonly accept_days: number;
  readonly keep_raw_days: number;
  readonly min_reports_per_cohort?: number;
  readonly no_data?: string;
  readonly platforms?: readonly Platform[];
  readonly lives?: number;
  readonly location?: Place;
  /** Public tables of a kind that has some. */
  readonly details?: unknown;
}

/** What the part for places (`places()`) does for the core, which does not load it. */
export interface PlaceRules {
  /** Throws MetricsFileError where a definition of places breaks a rule. */
  check(definition: Definition & { readonly location: Place }): void;
  /** Every value of a one-hot metric with its bit. noData: of its definition. */
  domain(place: Place, noData: string | undefined): ReadonlyMap<string, number>;
}

/** A declared metric, checked. */
export interface Metric {
  readonly definition: Definition;
  readonly name: string;
  /** The name up to the first `/`: of the ledger, the cohort and the permanent response. */
  readonly line: string;
  readonly paramsId: string;
  readonly expires: number;
  readonly epsilonInfinity: number;
  /** By which each report of a life counts; of bits, and without `max_reports`, of one report. */
  readonly epsilonPerReport: number;
  readonly maxResponses: number;
  /** Nats; in a browser, of one life of its storage. */
  readonly lifetimeEpsilon: number;
  readonly platforms: readonly Platform[];
  readonly domain: ReadonlyMap<string, number> | undefined;
  /** Of a kind that the core does not have. */
  readonly part: Kind | undefined;
}

/** What `rappor metrics compile` writes. digest: of `digestOf`. */
export interface Compiled {
  readonly version: 1;
  readonly budget: number | null;
  readonly metrics: readonly { readonly params_id: string; readonly definition: Definition }[];
  readonly digest?: string;
}

/** All metrics of an app by name, and the budget of a device: nats, or infinite. */
export interface Metrics {
  readonly metrics: ReadonlyMap<string, Metric>;
  readonly budget: number;
}

/** What a part asks of the recorder. */
export interface RecorderOfParts {
  readonly metrics: Metrics;
  /** Queue a report of a value for a day, or say why not. */
  record(store: Transaction, name: string, value: unknown, day: number): string;
  /** Whether a metric is declared for this platform. */
  runsHere(metric: Metric): boolean;
  /** This device's part in a metric. secret: as stored, hexadecimal. */
  device(metric: Metric, secret: string | null | undefined): { readonly cohort: number };
}

/** What the development build asks of a definition, in addition to the rules that all kinds share. */
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
  readonly recorder: RecorderOfParts;
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

/** Fixes and trips of metrics of kind `location`: the part for places, `places()`. */
export interface Places extends PlaceRules {
  /** Documents that an act about a metric reads. */
  scope(recorder: RecorderOfParts, name: string): Scope;
  /** Take points (one: a fix; two: a trip) at a time; a reason where nothing of them is kept. */
  take(act: PlaceAct, points: readonly (readonly [number, number])[]): string;
  /** Close the periods that are over, of one metric. */
  roll(act: Omit<PlaceAct, "at">): void;
}

/** One act about a metric of places. at: of the fix. now: of the clock, milliseconds since 1970. */
export interface PlaceAct {
  readonly store: Transaction;
  readonly recorder: RecorderOfParts;
  readonly name: string;
  readonly at: LocalTime;
  readonly now: LocalTime;
}

/** A time where the device is. ms: since 1970, UTC. offset: minutes east of UTC. */
export interface LocalTime {
  readonly ms: number;
  readonly offset: number;
}

/** What does for a metric what the core does not; undefined for the kinds of the core. */
export const partOf = (kinds: readonly Kind[], { kind }: Definition): Kind | undefined => kinds.find((part) => part.kind === kind);

/** A metric of a definition that was checked. id: its `params_id`. */
export const prepared = (definition: Definition, id: string, rules: PlaceRules | undefined, kinds: readonly Kind[]): Metric => {
  const { name, params, location, max_reports: most } = definition;
  const [infinity, one] = [epsilonInfinity(params), epsilonPerReport(params, most ?? 1)];
  const cap = definition.max_memoized_values;
  const maxResponses = hasSymbols(params) ? Math.min(cap, params.num_bits) : cap;
  const oneHotPlaces = location && params.encoding === "one_hot" ? location : undefined;
  return {
    definition,
    name,
    line: name.split("/", 1)[0]!,
    paramsId: id,
    expires: dayOf(definition.expires),
    epsilonInfinity: infinity,
    epsilonPerReport: one,
    maxResponses,
    lifetimeEpsilon: Math.min(maxResponses * infinity, most === null ? Infinity : most * one),
    platforms: definition.platforms ?? ["app"],
    domain: oneHotPlaces && rules?.domain(oneHotPlaces, definition.no_data),
    part: partOf(kinds, definition),
  };
};

/** The metric of a name. Throws UnknownMetricError. */
export const metricOf = (metrics: Metrics, name: string): Metric => {
  const metric = metrics.metrics.get(name);
  if (!metric) {
    const known = [...metrics.metrics.keys()].join(", ");
    throw new UnknownMetricError("metric_unknown", name, known);
  }
  return metric;
};
