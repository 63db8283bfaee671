/** Which sub-metrics a device answers, and when: drawn once from its secret, whatever the place. */

import { bigEndian } from "../core/bytes.js";
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
 * In period p the slot of index s is answered where (p * slots + s) % every is the phase, which is
 * drawn once for life, or with fresh turns for each block of `every`;
 * every = 0: only the slot of index `phase`, once for life.
 */
export interface Duty {
  readonly level: number;
  readonly every: number;
  readonly phase: number;
  due(period: number): { slot: string; name: string }[];
  /** Periods and slots whose answer may be the usual cell of this period: its own, and the `hold` after it. */
  answersFrom(period: number): { turn: number; slot: string }[];
}

/** A device's duty. parts: all sub-metrics of one declared name. */
export const dutyOf = (secret: Uint8Array, parts: readonly Metric[]): Duty => {
  const place = parts[0]!.definition.location!;
  const { window, turn, hold = 0 } = place;
  const base = parts[0]!.line;
  const { levels } = place.grid;
  const level = levels[draw(secret, "level", base, levels.length)]!;
  const slots = place.slots.map((text) => parseSlot(text).name);
  const every = { memo: 1, window: window * slots.length, once: 0 }[place.mode];
  const phase = turn ? 0 : draw(secret, "phase", base, every || slots.length);
  const fresh = new Map<number, number>();
  const phaseOf = (period: number): number => {
    if (!turn) return phase;
    const block = Math.floor(period / window);
    if (!fresh.has(block)) fresh.set(block, draw(secret, "turn", base, every, bigEndian(block, 8)));
    return fresh.get(block)!;
  };
  const pairs = slots.map((slot) => ({ slot, name: `${base}/${slot}/${level}` }));
  const due: Duty["due"] = (period) =>
    every === 0 ? [pairs[phase]!] : pairs.filter((_, i) => (period * slots.length + i) % every === phaseOf(period));
  return {
    level,
    every,
    phase,
    due,
    answersFrom: (period) => {
      // no block answers with what another one saw: its epsilon covers all that happened in it
      const end = Math.min(period + hold + 1, turn ? (Math.floor(period / window) + 1) * window : Infinity);
      const turns = Array.from({ length: end - period }, (_, i) => period + i);
      return turns.flatMap((at) => due(at).map(({ slot }) => ({ turn: at, slot })));
    },
  };
};
