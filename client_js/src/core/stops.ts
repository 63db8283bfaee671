/**
 * Metrics that the collector has stopped, by its answer to a report: it can only narrow what a device sends.
 * metric_retired: nothing is recorded until the params_id changes; metric_paused: nothing until the next day (UTC), then
 * one report, and where the answer is the same nothing until the day after.
 */

import { own } from "./bytes.js";
import type { DeviceState, QueuedReport } from "./state.js";

const RETIRED = "metric_retired";
const REASONS = [RETIRED, "metric_paused"];

/** Remember what the answer to a report says of its metric. reason: "" for an accepted report. */
export const noteAnswer = (device: DeviceState, { metric, params_id }: QueuedReport, reason: string, today: number): void => {
  const stops = { ...device.stops };
  if (REASONS.includes(reason)) stops[metric] = `${reason} ${params_id} ${today + 1}`;
  else if (own(stops, metric)?.includes(` ${params_id} `)) delete stops[metric];
  device.stops = stops;
};

/** Whether a metric is stopped on a day; where one report of a paused metric is due, the next is a day later. */
export const isStopped = (device: DeviceState, metric: string, paramsId: string, day: number): boolean => {
  const [reason, of, until] = (own(device.stops ?? {}, metric) ?? "").split(" ");
  if (of !== paramsId) return false;
  if (reason === RETIRED || day < Number(until)) return true;
  device.stops = { ...device.stops, [metric]: `${reason} ${of} ${day + 1}` };
  return false;
};
