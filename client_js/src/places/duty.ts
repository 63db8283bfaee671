/** Which sub-metrics a device answers, and when: drawn once from its secret, whatever the place. */

import { draw } from "../core/derive.js";
import { MetricsFileError } from "../core/errors.js";
import type { Metric } from "../core/metrics.js";

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
  if (!match || first > 23 || last < 1 || last > 24 || first === last) throw new MetricsFileError("metrics_file", `slot '${text}'`);
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
