/** Public cuts of the number line, and where a number lies between those of a device. */

import { ValueRefusedError } from "../core/errors.js";
import type { Definition, Metric } from "../core/metrics.js";
import { wrongType } from "../core/values.js";

/** What a metric of kind `number` asks for, as its definition says it. */
export interface NumberDetails {
  readonly unit: string;
  readonly of_period: "sum" | "count" | "mean" | "median" | "max" | "last";
  readonly edges: readonly number[];
  readonly scale: "linear" | "log" | "list";
  readonly whole: boolean;
  readonly ask: "edges" | "mean";
  readonly none: "apart" | "zero";
  readonly mode: "memo" | "once";
  readonly spread: number;
}

/** Rising; -Infinity is the question "is there any data?". */
export type Cuts = readonly number[];

export const detailsOf = (definition: Definition): NumberDetails => definition.details as NumberDetails;

/** What all devices are asked: an edge that every number is at or above is no question. */
export const questionsOf = ({ edges, ask, none }: NumberDetails): number[] => {
  const asked = ask === "edges" && edges[0] === 0 ? edges.slice(1) : [...edges];
  return none === "apart" ? [-Infinity, ...asked] : asked;
};

/** How many different sets of cuts the cohorts have. */
export const strideOf = (details: NumberDetails, numSymbols: number): number =>
  Math.ceil(questionsOf(details).length / (numSymbols - 1));

/** What a device of a cohort compares with. jitter: its constant, in [0, 1), of `ask = "mean"`. */
export const cutsOf = (details: NumberDetails, cohort: number, numSymbols: number, jitter: number): Cuts => {
  const stride = strideOf(details, numSymbols);
  const cuts = questionsOf(details).filter((_, i) => i % stride === cohort % stride);
  return details.ask === "edges" ? cuts : cuts.map((cut) => moved(details, cut, jitter));
};

/** A stratum's lower end, moved by a part of its width; of logarithms on their own scale. */
const moved = ({ edges, scale }: NumberDetails, cut: number, jitter: number): number => {
  const after = edges[edges.indexOf(cut) + 1];
  if (cut === -Infinity || after === undefined) return cut;
  if (scale !== "log") return cut + jitter * (after - cut);
  const [low, high] = [Math.log(cut), Math.log(after)];
  return Math.exp(low + jitter * (high - low));
};

/** A number that the metric takes. Throws ValueRefusedError, without the number. */
export const numberOf = (metric: Metric, value: unknown): number => {
  const { edges, whole } = detailsOf(metric.definition);
  if (typeof value !== "number" || !Number.isFinite(value)) throw wrongType(metric, "finite number");
  if (value < 0 && !(edges[0]! < 0)) throw new ValueRefusedError("value_negative", metric.name);
  if (whole && !Number.isInteger(value)) throw new ValueRefusedError("value_fraction", metric.name);
  return value;
};

/** A symbol that was found while a period ran (`Collected.number`), in place of its number. */
export class MedianSymbol {
  constructor(readonly index: number) {}
}

/** How many of the cuts are at or below a value: a number, null for no data, or its symbol. */
export const symbolOf = (metric: Metric, cuts: Cuts, value: unknown): number => {
  if (value instanceof MedianSymbol) return value.index;
  if (value === null && detailsOf(metric.definition).none === "apart") return 0;
  const number = value === null ? 0 : numberOf(metric, value);
  return cuts.filter((cut) => cut <= number).length;
};
