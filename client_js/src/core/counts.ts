/** Limits on the number of reports, by period and for life (docs/porting.md, part 6). */

import { own } from "./bytes.js";
import { daysOfOneReport, periodNumber, touched, type Period } from "./days.js";
import type { Metric } from "./metrics.js";
import type { Counts, LineState } from "./state.js";

const KEPT = 64;
const SPARE = 32;
const MAX_RUNS = 256;

/** The name and the unit of time by which reports of a metric are counted. */
export const countedBy = (metric: Metric): [string, Period] =>
  metric.definition.location?.mode === "window"
    ? [metric.line, "day"]
    : [metric.name, metric.definition.period];

/** The counts of a name in a unit; what another unit counted is carried over. */
export const countsOf = (line: LineState, name: string, unit: Period): Counts => {
  const known = own(line.counts, name);
  if (known?.unit === unit) return known;
  const counts: Counts = { unit, periods: {}, used: [] };
  for (const [number, reports] of Object.entries(known?.periods ?? {})) {
    const [first, last] = touched(known!.unit, Number(number), unit);
    for (let period = first; period <= last; period++) {
      counts.periods[period] = (counts.periods[period] ?? 0) + reports;
    }
  }
  for (const [first, last] of known?.used ?? []) {
    addRun(counts, touched(known!.unit, first, unit)[0], touched(known!.unit, last, unit)[1]);
  }
  line.counts[name] = counts;
  return counts;
};

/** Whether a report of a metric may still be made on a day. most: of its period. */
export const isFull = (metric: Metric, line: LineState, day: number, most: number): boolean => {
  const { max_reports: ever, location, period: unit } = metric.definition;
  if (ever !== null && line.life >= ever) return true;
  const [name, by] = countedBy(metric);
  const counts = countsOf(line, name, by);
  const period = periodNumber(by, day);
  const alone = location?.mode === "window" && daysOfOneReport(day, unit, location.window, location.turn === "fresh");
  const [low, high] = alone || [period, period];
  if (counts.used.some(([first, last]) => first <= high && low <= last)) return true;
  if (alone) return Object.keys(counts.periods).some((other) => low <= Number(other) && Number(other) <= high);
  return (counts.periods[period] ?? 0) >= most;
};

/** Count a report. Past 96 periods those far from its own are marked as used up. */
export const countReport = (metric: Metric, line: LineState, day: number): void => {
  const counts = countsOf(line, ...countedBy(metric));
  const period = periodNumber(counts.unit, day);
  counts.periods[period] = (counts.periods[period] ?? 0) + 1;
  line.life += 1;
  const numbers = Object.keys(counts.periods).map(Number);
  if (numbers.length <= KEPT + SPARE) return;
  numbers.sort((a, b) => Math.abs(a - period) - Math.abs(b - period));
  for (const far of numbers.slice(KEPT)) {
    addRun(counts, far, far);
    delete counts.periods[far];
  }
};

/** The last period up to `latest` in which a report of a name was counted. */
export const lastPeriod = (counts: Counts | undefined, latest: number): number | undefined => {
  const counted = Object.keys(counts?.periods ?? {}).map(Number);
  const ended = (counts?.used ?? []).map(([first, last]) => (first <= latest ? Math.min(last, latest) : NaN));
  const found = [...counted, ...ended].filter((period) => period <= latest);
  return found.length ? Math.max(...found) : undefined;
};

/** Mark periods as full. Past 256 runs the narrowest gap is closed: rather silent than twice. */
export const addRun = (counts: { used: [number, number][] }, first: number, last: number): void => {
  const merged: [number, number][] = [];
  for (const [low, high] of [...counts.used, [first, last] as const].sort((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before && low <= before[1] + 1) before[1] = Math.max(before[1], high);
    else merged.push([low, high]);
  }
  if (merged.length > MAX_RUNS) {
    const gaps = merged.slice(1).map((run, i) => run[0] - merged[i]![1]);
    const at = gaps.indexOf(Math.min(...gaps));
    merged.splice(at, 2, [merged[at]![0], merged[at + 1]![1]]);
  }
  counts.used = merged;
};
