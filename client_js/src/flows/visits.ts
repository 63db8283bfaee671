/** From fixes to one answer about two usual cells of a drawn period (docs/porting.md, "Flows"). */

import { addRun } from "../core/counts.js";
import { lastDay } from "../core/days.js";
import { bigEndian } from "../core/bytes.js";
import { draw } from "../core/derive.js";
import { NO_DATA, type Metric } from "../core/metrics.js";
import type { H3 } from "../places/h3.js";
import { Visits, type Answer, type Send } from "../places/visits.js";
import { flowOf, type FlowDetails } from "./classes.js";

const slotName = (slot: string): string => slot.split(" ", 1)[0]!;

/** One metric of flows on one device. `known` has the first cells whose second ones are to come. */
export class FlowVisits extends Visits {
  private readonly flow: FlowDetails;
  private readonly drawn = new Map<number, number>();

  /** saved: of `toJson`, or null. */
  constructor(
    private readonly metric: Metric,
    private readonly secret: Uint8Array,
    send: Send,
    saved: string | null,
    h3?: H3,
  ) {
    const flow = flowOf(metric.definition);
    const { grid, from, to, lag, max_gap_minutes } = flow;
    const level = grid.levels.at(-1)!;
    const asks = { grid, slots: lag ? [from] : [from, to], pairs: false, max_gap_minutes };
    super([metric], secret, send, saved, h3, asks, { level, every: 1, phase: 0, due: () => [], answersFrom: () => [] });
    this.flow = flow;
  }

  protected override begin(period: number): void {
    this.saved.since = Math.min(this.saved.since ?? period, period);
    super.begin(period);
  }

  /** Of all blocks of periods which one is answered for, from 0. */
  private turn(block: number): number {
    const { mode, spread, window } = this.flow;
    if (mode === "once") block = -1;
    let turn = this.drawn.get(block);
    if (turn === undefined) {
      turn = mode === "once" ? draw(this.secret, "phase", this.metric.name, spread) : draw(this.secret, "turn", this.metric.name, window, bigEndian(block, 8));
      this.drawn.set(block, turn);
    }
    return turn;
  }

  private get isDone(): boolean {
    const answers = this.saved.used.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    return answers >= this.metric.definition.max_reports!;
  }

  /** Whether the pair that begins in a period is reported, as it looks in `present`: of mode `once` the first one. */
  private isFirst(period: number, present: number): boolean {
    const { mode, spread, window, lag } = this.flow;
    const every = window || spread;
    const earliest = Math.max(this.saved.since ?? 0, present - lag);
    if (period < earliest || period % every !== this.turn(Math.floor(period / every))) return false;
    return mode !== "once" || period - earliest < every;
  }

  protected override toCome(seen: number): Answer[] {
    const { period: present } = this.saved;
    const { from, to, lag } = this.flow;
    if (present === null || this.isDone) return [];
    const sides = [[seen, from], [seen - lag, to]] as const;
    return sides
      .filter(([first]) => this.isFirst(first, present) && first + lag >= present && !this.isReported(first + lag))
      .map(([first, slot]) => ({ turn: first + lag, slot: slotName(slot) }));
  }

  private isFirstOfLater(period: number): boolean {
    const { lag } = this.flow;
    return lag > 0 && this.toCome(period).some(({ turn }) => turn === period + lag);
  }

  protected override keepKnown(period: number): void {
    this.saved.known = this.saved.known.filter(([, seen]) => seen < period && this.isFirstOfLater(seen));
  }

  protected override learn(period: number, usual: ReadonlyMap<string, string>): void {
    const place = usual.get(slotName(this.flow.from));
    if (place === undefined || !this.isFirstOfLater(period)) return;
    this.saved.known = [...this.saved.known.filter(([, seen]) => seen !== period), [String(period), period, place]];
  }

  protected override report(period: number, usual: ReadonlyMap<string, string>): void {
    const { from, to, lag } = this.flow;
    const first = period - lag;
    if (this.isReported(period) || this.isDone || !this.isFirst(first, period)) return;
    const origin = lag ? this.saved.known.find(([, seen]) => seen === first)?.[2] : usual.get(slotName(from));
    const destination = usual.get(slotName(to));
    this.send(this.metric.name, `${origin ?? NO_DATA}>${destination ?? NO_DATA}`, lastDay(this.metric.definition.period, period));
    addRun(this.saved, period, period);
  }
}
