/** Mistakes that development finds: of what an app chose, and of values. The production build trusts them. */

import { ParameterError, say } from "./core/errors.js";
import type { Metric, Metrics } from "./core/metrics.js";
import type { Delivery } from "./core/outbox.js";
import type { Options } from "./options.js";

const RANGES: Record<keyof Delivery, readonly [number, number]> = {
  meanDelay: [0, 604_800],
  batchReports: [1, 200],
  padTo: [0, 32_768],
  timeout: [0.01, 600],
  maxQueued: [1, 10_000_000],
  maxQueuedBytes: [1000, 1e9],
  maxAgeDays: [1, 36_500],
  firstPause: [0.001, 3600],
  longestPause: [0.001, 86_400],
  longestRetryAfter: [0, 604_800],
};

const OPTIONS: Record<keyof Options, true> = {
  metrics: true, storage: true, collector: true, consent: true, key: true, privacyLevel: true, delivery: true, development: true, places: true,
  kinds: true, randomness: true, transport: true, clock: true, whenHidden: true, doNotTrack: true,
}; // prettier-ignore

declare const process: { readonly env: { readonly NODE_ENV?: string }; readonly versions?: { readonly node?: string } };

const MAX_SHOWN = 100; // characters of a value, and different warnings

/** Warns of an option that there is not, with the one that may have been meant. own: names that this way of opening adds. */
export const checkNames = (options: Partial<Options>, own: readonly string[]): void => {
  const names = { "": [options, [...own, ...Object.keys(OPTIONS)]], "delivery.": [options.delivery, Object.keys(RANGES)] } as const;
  for (const [prefix, [given, known]] of Object.entries(names)) {
    for (const name of Object.keys(given ?? {}).filter((one) => !known.includes(one))) {
      warnOnce(say("option_unknown", prefix + name, meant(name, known)), prefix + name);
    }
  }
};

/** Throws ParameterError for a choice that is out of its range. */
export const checkOptions = (delivery: Delivery): void => {
  for (const [name, [low, high]] of Object.entries(RANGES)) {
    const value = delivery[name as keyof Delivery];
    if (!(value >= low && value <= high)) throw new ParameterError("delivery_range", name, `${low} to ${high}`);
  }
};

/** The name that takes the fewest changes of a letter; all of them, where none is near. */
const meant = (name: string, known: readonly string[]): string => {
  const cost = (other: string): number => changes(name.toLowerCase(), other.toLowerCase());
  const [first] = [...known].sort((a, b) => cost(a) - cost(b));
  return first !== undefined && cost(first) <= name.length / 2 ? `did you mean ${first}?` : `there are ${known.join(", ")}`;
};

const changes = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) next.push(Math.min(next[j]! + 1, row[j + 1]! + 1, row[j]! + (letter === b[j] ? 0 : 1)));
    row = next;
  }
  return row.at(-1)!;
};

/** By the bundler's NODE_ENV. In Node, where most apps never set it, it must say so: a value is the person's. */
const isDevelopment = (options: Options): boolean => {
  const isNode = typeof process !== "undefined" && process.versions?.node;
  let mode: string | undefined;
  try {
    mode = process.env.NODE_ENV;
  } catch {
    // a page without a bundler
  }
  return !!options.development || (isNode ? mode === "development" : mode !== "production");
};

const warned = new Set<string>();
const warnOnce = (text: string, about = text): void => {
  if (warned.has(about) || warned.size >= MAX_SHOWN) return;
  warned.add(about);
  console.warn(`rappor-telemetry: ${text}`);
};

/** Warn once of a value that was not recorded: the value, why, and what the metric takes. */
export const warnOfRefusal = (options: Options, { metrics }: Metrics, name: string, given: unknown, why: string): void => {
  if (!isDevelopment(options)) return;
  let shown = String(given);
  try {
    shown = JSON.stringify(given).slice(0, MAX_SHOWN);
  } catch {
    // nothing that JSON has
  }
  const metric = [...metrics.values()].find(({ line }) => line === name);
  const hint = metric ? `it takes ${taken(metric)}` : meant(name, [...metrics.keys()]);
  warnOnce(`not recorded: ${name}, ${shown}: ${why}; ${hint}`);
};

const taken = ({ definition, part }: Metric): string => {
  const { kind, categories, location } = definition;
  const listed = (values: readonly unknown[]): string => values.map((one) => JSON.stringify(one)).join(", ").slice(0, 5 * MAX_SHOWN);
  if (kind === "category") return listed(categories);
  if (kind === "pair") return `a list of two: ${listed(part!.values(definition))}`;
  if (kind === "location" || kind === "flow") return location?.pairs ? "trips, by recordTrip" : "fixes, by recordLocation";
  return { boolean: "true or false", number: "a number" }[kind as string] ?? "a string";
};
