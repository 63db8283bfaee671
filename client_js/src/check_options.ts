/** What an app may choose, checked: mistakes that development finds. The production build trusts it. */

import { ParameterError } from "./core/errors.js";
import type { Delivery } from "./core/outbox.js";

const RANGES: Record<keyof Delivery, readonly [number, number]> = {
  meanDelay: [0, 604_800],
  batchReports: [1, 10_000],
  padTo: [0, 32_768],
  timeout: [0.01, 600],
  maxQueued: [1, 10_000_000],
  maxQueuedBytes: [1000, 1e9],
  maxAgeDays: [1, 36_500],
  firstPause: [0.001, 3600],
  longestPause: [0.001, 86_400],
  longestRetryAfter: [0, 604_800],
};

/** Throws ParameterError. */
export const checkOptions = (delivery: Delivery): void => {
  for (const [name, [low, high]] of Object.entries(RANGES)) {
    const value = delivery[name as keyof Delivery];
    if (!(value >= low && value <= high)) throw new ParameterError("delivery_range", name, `${low} to ${high}`);
  }
};
