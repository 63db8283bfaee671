/** From fixes to the usual place of each slot and period. Private, all of it, and forgotten then. */

import { addRun } from "../core/counts.js";
import { DAY_SECONDS, lastDay, periodNumber } from "../core/days.js";
import { ValueRefusedError } from "../core/errors.js";
import { OTHER, type LocalTime, type Metric, type Place } from "../core/metrics.js";
import { covers, dutyOf, parseSlot, type Duty, type Slot } from "./duty.js";
import { Grid } from "./grid.js";
import type { H3 } from "./h3.js";

const SHORTEST = 1; // seconds that a fix counts at least
const MAX_AHEAD = 86_400;
const MAX_PLACES = 512;

/** at: seconds since 1970. day: of the local date. left: seconds until the local hour ends. */
export interface Moment {
  readonly at: number;
  readonly day: number;
  readonly hour: number;
  readonly left: number;
}

export const momentOf = ({ ms, offset }: LocalTime): Moment => {
  if (!Number.isFinite(ms) || !Number.isFinite(offset)) throw new ValueRefusedError("no_time");
  const local = ms / 1000 + offset * 60;
  const day = Math.floor(local / DAY_SECONDS);
  const inDay = local - day * DAY_SECONDS;
  const hour = Math.floor(inDay / 3600);
  return { at: ms / 1000, day, hour, left: 3600 - (inDay - hour * 3600) };
};

export const isWeekend = (day: number): boolean => (day + 3) % 7 >= 5; // 1970-01-01 was a Thursday

/** What is kept between two looks, for the state. place: a value at the device's level. */
interface Saved {
  of: [string, string];
  period: number | null;
  dwell: [string, string, number][];
  used: [number, number][];
  /** By slot its last known place, and the period that it is of. */
  known: [string, number, string][];
  last: [Moment, string, number] | null;
  /** Of flows: the first period that was seen. */
  since?: number;
}

/** What is asked of fixes. */
export type Asked = Pick<Place, "grid" | "slots" | "pairs" | "max_gap_minutes">;

/** An answer to come: the period that it is given for, and the slot that it is made from. */
export interface Answer {
  readonly turn: number;
  readonly slot: string;
}

/** Queues the report of a sub-metric's value for a day. */
export type Send = (name: string, value: string, day: number) => void;

/** One metric of places on one device. */
export class Visits {
  private readonly grid: Grid;
  private readonly slots: readonly Slot[];
  protected readonly saved: Saved;
  private wanted: ReadonlySet<string> | undefined;

  /** parts: the sub-metrics of one declared name. saved: of `toJson`, or null. */
  constructor(
    private readonly parts: readonly Metric[],
    secret: Uint8Array,
    protected readonly send: Send,
    saved: string | null,
    h3?: H3,
    private readonly asks: Asked = parts[0]!.definition.location!,
    readonly duty: Duty = dutyOf(secret, parts),
  ) {
    const { period } = this.definition;
    this.grid = new Grid(asks.grid, h3);
    this.slots = asks.slots.map(parseSlot);
    const of: [string, string] = [period, parts[0]!.paramsId];
    this.saved = { of, period: null, dwell: [], used: [], known: [], last: null };
    const before = saved === null ? undefined : (JSON.parse(saved) as Saved);
    if (before?.of[0] !== period) return;
    this.saved.used = before.used;
    this.saved.period = before.period;
    if (before.since !== undefined) this.saved.since = before.since;
    if (before.of[1] === of[1]) Object.assign(this.saved, { dwell: before.dwell, known: before.known, last: before.last });
  }

  toJson(): string {
    return JSON.stringify(this.saved);
  }

  /** Take one point, or the two of a trip. Throws ValueRefusedError. */
  take(points: readonly (readonly [number, number])[], moment: Moment): void {
    const { pairs, max_gap_minutes: gap } = this.asks;
    if (pairs !== points.length > 1) {
      throw new ValueRefusedError("wrong_points", this.parts[0]!.line, pairs ? "trips" : "fixes");
    }
    const cells = points.map(([latitude, longitude]) => this.grid.value(this.grid.locate(latitude, longitude), this.duty.level));
    const place = cells.includes(OTHER) ? OTHER : cells.join(">");
    this.roll(moment);
    const slot = this.asked(moment.day, moment.hour);
    if (pairs) {
      if (slot !== undefined) this.add(slot, place, 1);
      return;
    }
    if (slot !== undefined && !this.find(slot, place)) this.add(slot, place, SHORTEST);
    this.saved.last = [moment, this.wantedSlots.size ? place : OTHER, gap * 60]; // where nothing is asked, only when
  }

  /** Why nothing of a fix is kept: `ahead`, `expired`, `late`; "" where it is. */
  refuses(moment: Moment, clock: Moment): string {
    if (moment.at > clock.at + MAX_AHEAD) return "ahead";
    if (moment.day > this.parts[0]!.expires) return "expired";
    const unit = this.definition.period;
    const begun = this.saved.period;
    const period = periodNumber(unit, moment.day);
    if (begun !== null && period < begun && this.isReported(period)) return "late";
    const present = periodNumber(unit, clock.day);
    return period < Math.min(present, begun ?? present) ? "late" : "";
  }

  /** As `roll`, without a fix: an earlier date is no clock that went back, unless before the fix.
   *  Within the period nothing is credited: fixes of the time since the last one may still come. */
  look(clock: Moment): void {
    const { last, period } = this.saved;
    const present = periodNumber(this.definition.period, clock.day);
    if (present === period || (period !== null && present < period && last && last[0].at <= clock.at)) return;
    this.roll(clock);
  }

  /** Credit the time since the last fix, and close the period where it is over. */
  roll(moment: Moment): void {
    this.credit(moment);
    const { period: before } = this.saved;
    const period = periodNumber(this.definition.period, moment.day);
    if (period === before) return;
    if (before !== null && before < period) this.close(before, period, moment.day);
    Object.assign(this.saved, { dwell: [], last: null });
    this.begin(period);
  }

  private get definition(): Metric["definition"] {
    return this.parts[0]!.definition;
  }

  protected isReported(period: number): boolean {
    return this.saved.used.some(([first, last]) => first <= period && period <= last);
  }

  /** A period starts; what no answer to come is made from is not kept. */
  protected begin(period: number): void {
    this.saved.period = period;
    this.wanted = undefined;
    this.keepKnown(period);
  }

  /** Keep of the last known places those that an answer from this period on may repeat. */
  protected keepKnown(period: number): void {
    this.saved.known = this.saved.known.filter(([slot, seen]) => seen < period && this.toCome(seen).some((answer) => answer.slot === slot));
  }

  /** Answers that are still to be given and may be the usual place of a period. */
  protected toCome(seen: number): Answer[] {
    const { period, used } = this.saved;
    if (period === null || (this.duty.every === 0 && used.length)) return [];
    return this.duty.answersFrom(seen).filter(({ turn }) => turn >= period && !this.isReported(turn));
  }

  /** Slots of which fixes of the present period are kept. */
  private get wantedSlots(): ReadonlySet<string> {
    const { period } = this.saved;
    return (this.wanted ??= new Set(period === null ? [] : this.toCome(period).map(({ slot }) => slot)));
  }

  /** The slot that an hour belongs to, where an answer to come may be made from it. */
  private asked(day: number, hour: number): string | undefined {
    const slot = this.slots.find((other) => covers(other, hour, isWeekend(day)))?.name;
    return slot !== undefined && this.wantedSlots.has(slot) ? slot : undefined;
  }

  private find(slot: string, place: string): [string, string, number] | undefined {
    return this.saved.dwell.find((row) => row[0] === slot && row[1] === place);
  }

  private add(slot: string, place: string, amount: number): void {
    const row = this.find(slot, place);
    if (row) row[2] += amount;
    else this.saved.dwell.push([slot, place, amount]);
    const here = this.saved.dwell.filter((other) => other[0] === slot);
    if (here.length <= MAX_PLACES) return;
    const kept = here.sort((a, b) => b[2] - a[2]).slice(0, MAX_PLACES / 2);
    this.saved.dwell = [...this.saved.dwell.filter((other) => other[0] !== slot), ...kept];
  }

  /** Give the last fix the time until now, hour by hour, as far as it may speak for it. */
  private credit(moment: Moment): void {
    if (!this.saved.last) return;
    const [start, place, left] = this.saved.last;
    const take = Math.min(moment.at - start.at, left);
    if (take <= 0) return;
    let { day, hour, left: inHour } = start;
    for (let remaining = take; remaining > 0; ) {
      const chunk = Math.min(remaining, inHour);
      const slot = this.asked(day, hour);
      if (slot !== undefined && periodNumber(this.definition.period, day) === this.saved.period) this.add(slot, place, chunk);
      remaining -= chunk;
      inHour -= chunk;
      if (inHour <= 0) [day, hour, inHour] = [day + (hour === 23 ? 1 : 0), (hour + 1) % 24, 3600];
    }
    this.saved.last = [{ at: start.at + take, day, hour, left: inHour }, place, left - take];
  }

  /** Report the periods from `first`, which alone has data, to before `end`, as far as is taken. */
  private close(first: number, end: number, today: number): void {
    const { period: unit, accept_days: accepted } = this.definition;
    const most = new Map<string, [string, string, number]>();
    for (const row of this.saved.dwell) if (row[2] > (most.get(row[0])?.[2] ?? -1)) most.set(row[0], row);
    const usual = new Map([...most.values()].map(([slot, place]) => [slot, place]));
    this.learn(first, usual);
    const oldest = periodNumber(unit, today - accepted - 1);
    for (let period = Math.max(first, oldest); period < end; period++) this.report(period, period === first ? usual : new Map());
  }

  /** Make the usual place of each slot of a period that is over its last known one. */
  protected learn(period: number, usual: ReadonlyMap<string, string>): void {
    const before = this.saved.known.filter(([slot]) => !usual.has(slot));
    this.saved.known = [...before, ...[...usual].map(([slot, place]): Saved["known"][number] => [slot, period, place])];
  }

  /** usual: the usual places of that very period, by slot. */
  protected report(period: number, usual: ReadonlyMap<string, string>): void {
    void usual;
    if (this.isReported(period) || (this.duty.every === 0 && this.saved.used.length)) return;
    for (const { slot, name } of this.duty.due(period)) {
      const [, seen, place] = this.saved.known.find((row) => row[0] === slot) ?? [];
      const isHeld = seen !== undefined && this.duty.answersFrom(seen).some((answer) => answer.turn === period && answer.slot === slot);
      this.send(name, isHeld ? place! : (this.definition.no_data ?? OTHER), lastDay(this.definition.period, period));
    }
    addRun(this.saved, period, period);
  }
}
