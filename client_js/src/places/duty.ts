/** Which sub-metrics a device answers, and when: drawn once from its secret, whatever the place. */

import { draw } from "../core/derive.js";
import { MetricsFileError } from "../core/errors.js";
import type { Metric, Place } from "../core/metrics.js";

/** Hours of the local day, over midnight where last <= first. */
export interface Slot {
  readonly name: string;
  readonly first: number;
  readonly last: number;
  readonly days: "all" | "weekdays" | "weekends";
}

/** Read "night 22-6" or "work 9-17 weekdays". Throws MetricsFileError. */
export const parseSlot = (text: string): Slot => {
  const match = /^([a-z][a-z0-9_-]{0,31}) (\d{1,2})-(\d{1,2})(?: (weekdays|weekends))?$/.exec(text);
  const [first, last] = [Number(match?.[2]), Number(match?.[3])];
  if (!match || first > 23 || last < 1 || last > 24 || first === last) throw new MetricsFileError(`slot '${text}'`);
  return { name: match[1]!, first, last, days: (match[4] as Slot["days"] | undefined) ?? "all" };
};

/** Whether an hour (0 to 23) of such a day belongs to a slot. */
export const covers = ({ first, last, days }: Slot, hour: number, weekend: boolean): boolean => {
  if (days !== "all" && weekend !== (days === "weekends")) return false;
  return first < last ? first <= hour && hour < last : hour >= first || hour < last;
};

/**
 * In period p the slot of index s is answered where (p * slots + s) % every is the phase;
 * every = 0: only the slot of index `phase`, once for life.
 */
export interface Duty {
  readonly level: number;
  readonly every: number;
  readonly phase: number;
  due(period: number): { slot: string; name: string }[];
}

/** A device's duty. parts: all sub-metrics of one declared name. */
export const dutyOf = (secret: Uint8Array, parts: readonly Metric[]): Duty => {
  const place = parts[0]!.definition.location!;
  const base = parts[0]!.line;
  const { levels } = place.grid;
  const level = levels[draw(secret, "level", base, levels.length)]!;
  const slots = place.slots.map((text) => parseSlot(text).name);
  const every = { memo: 1, window: place.window * slots.length, once: 0 }[place.mode];
  const phase = draw(secret, "phase", base, every || slots.length);
  const pairs = slots.map((slot) => ({ slot, name: `${base}/${slot}/${level}` }));
  return {
    level,
    every,
    phase,
    due: (period) =>
      every === 0 ? [pairs[phase]!] : pairs.filter((_, i) => (period * slots.length + i) % every === phase),
  };
};

/** Every rule of a definition's `location` but those of its grid. Throws MetricsFileError. */
export const checkPlace = (place: Place): void => {
  const refuse = (why: string): never => {
    throw new MetricsFileError(`location: ${why}`);
  };
  const { level, grid, mode, window, max_gap_minutes: gap, slots } = place;
  if (!grid.levels.includes(level)) refuse("level is not one of the grid's");
  if (!["memo", "window", "once"].includes(mode)) refuse("mode is unknown");
  const read = slots.map(parseSlot);
  const names = read.map((slot) => slot.name);
  if (!names.includes(place.slot) || new Set(names).size !== names.length || names.length > 24) refuse("slots");
  for (let hour = 0; hour < 48; hour++) {
    const both = read.filter((slot) => covers(slot, hour % 24, hour >= 24));
    if (both.length > 1) refuse("slots overlap");
  }
  const fits = mode === "window" ? window >= 2 && window <= 1000 : window === 0;
  if (!Number.isInteger(window) || !fits) refuse("window does not go with the mode");
  if (!Number.isInteger(gap) || gap < 1 || gap > 1440) refuse("max_gap_minutes");
  if (typeof place.pairs !== "boolean") refuse("pairs");
};
