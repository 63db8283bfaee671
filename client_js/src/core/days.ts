/** Days since 1970-01-01 (UTC, or local as the caller has it), and the periods that they are in. */

export type Period = "day" | "week" | "month";

export const DAY_SECONDS = 86_400;
export const PERIOD_DAYS: Record<Period, number> = { day: 1, week: 7, month: 28 };
const MEAN_DAYS: Record<Period, number> = { day: 1, week: 7, month: 30.436875 };
const EPOCH_ORDINAL = 719_163; // days from 0001-01-01, which is 1, to 1970-01-01
const MILLISECONDS = DAY_SECONDS * 1000;

/** The day of `YYYY-MM-DD`, or NaN for anything else. */
export const dayOf = (text: string): number => {
  const day = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) / MILLISECONDS : NaN;
  return day === day && dateText(day) === text ? day : NaN;
};

export const dateText = (day: number): string => new Date(day * MILLISECONDS).toISOString().slice(0, 10);

/** Which period a day is in: days, weeks from Monday, or months, counted from a fixed start. */
export const periodNumber = (period: Period, day: number): number => {
  if (period === "day") return day;
  if (period === "week") return Math.floor((day + EPOCH_ORDINAL - 1) / 7);
  const date = new Date(day * MILLISECONDS);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
};

/** The last day of a period; the inverse of `periodNumber`. */
export const lastDay = (period: Period, number: number): number => {
  if (period === "day") return number;
  if (period === "week") return number * 7 + 7 - EPOCH_ORDINAL;
  return Date.UTC(Math.floor(number / 12), (number % 12) + 1, 1) / MILLISECONDS - 1;
};

/** How many periods of `then` one period of `first` can share days with, at most. */
export const MAX_TOUCHED: Record<Period, Record<Period, number>> = {
  day: { day: 1, week: 1, month: 1 },
  week: { day: 7, week: 1, month: 2 },
  month: { day: 31, week: 6, month: 1 },
};

/** First and last of the periods of unit `then` that share a day with a period of `unit`. */
export const touched = (unit: Period, number: number, then: Period): [number, number] => [
  periodNumber(then, Math.max(0, lastDay(unit, number - 1) + 1)),
  periodNumber(then, lastDay(unit, number)),
];

/**
 * First and last day among which a report of mode `window` is the only one of its metric: with
 * fresh turns those of its block, else as many as a window has before it and after it.
 */
export const daysOfOneReport = (day: number, unit: Period, window: number, isFresh: boolean): [number, number] => {
  if (isFresh) {
    const first = Math.floor(periodNumber(unit, day) / window) * window;
    return [lastDay(unit, first - 1) + 1, lastDay(unit, first + window - 1)];
  }
  const apart = Math.floor((window - 0.5) * MEAN_DAYS[unit]);
  return [day - apart, day + apart];
};
