/** What a device keeps of a metric of numbers while a period runs. Private, and forgotten then. */

import type { Metric } from "../core/metrics.js";
import { detailsOf, MedianSymbol, type Cuts, type NumberDetails } from "./cuts.js";

const MAX_SUM = 1e300; // of a sum; far above every edge, and no infinity follows from it

/**
 * Empty while nothing was recorded. Of `sum`, `count`, `max`, `last` one number; of `mean` how many
 * and their sum; of `median` how many, and how many are at or above each of the device's cuts.
 */
type Kept = readonly number[];

const bounded = (total: number): number => Math.min(Math.max(total, -MAX_SUM), MAX_SUM);

const TAKE: Record<NumberDetails["of_period"], (kept: Kept, number: number, cuts: Cuts) => Kept> = {
  sum: ([total = 0], number) => [bounded(total + number)],
  count: ([many = 0]) => [many + 1],
  mean: ([many = 0, total = 0], number) => [many + 1, bounded(total + number)],
  median: ([many = 0, ...above], number, cuts) => [many + 1, ...cuts.map((cut, i) => (above[i] ?? 0) + (number >= cut ? 1 : 0))],
  max: (kept, number) => [Math.max(...kept, number)],
  last: (_, number) => [number],
};

/** The period that runs, and as little of its numbers as its one report needs. */
export class Collected {
  period: number | null = null;
  private kept: Kept = [];

  /** saved: of `toJson`, or null; of another meaning, or damaged, it is left out. */
  constructor(
    private readonly metric: Metric,
    private readonly cuts: Cuts,
    saved: string | null,
  ) {
    try {
      const { of, period, kept } = JSON.parse(saved ?? "{}") as { of: unknown[]; period: number | null; kept: Kept };
      if (of.join() === this.meaning.join()) Object.assign(this, { period, kept });
    } catch {
      // nothing is kept, or what is cannot be read: the period starts over
    }
  }

  toJson(): string {
    return JSON.stringify({ of: this.meaning, period: this.period, kept: this.kept });
  }

  /** Forget what was kept, and start over. */
  begin(period: number): void {
    this.period = period;
    this.kept = [];
  }

  take(number: number): void {
    this.kept = TAKE[detailsOf(this.metric.definition).of_period](this.kept, number, this.cuts);
  }

  /** The number of the period, or its symbol; null for no data. */
  number(): number | MedianSymbol | null {
    const { of_period: asked } = detailsOf(this.metric.definition);
    const [first, ...others] = this.kept;
    if (first === undefined) return null;
    if (asked === "mean") return others[0]! / first;
    // the upper of two middle numbers is at a cut or above where half of all numbers are
    return asked === "median" ? new MedianSymbol(others.filter((above) => 2 * above >= first).length) : first;
  }

  private get meaning(): readonly unknown[] {
    return [this.metric.definition.period, this.metric.paramsId];
  }
}
