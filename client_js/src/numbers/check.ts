/** Checking definitions of numbers, strictly: what docs/metrics.md asks of them. */

import { fieldsOf, isText, refuse, whole } from "../core/check.js";
import type { Definition, KindRules } from "../core/metrics.js";
import { hasPermanentRound } from "../core/privacy.js";
import { questionsOf, strideOf, type NumberDetails } from "./cuts.js";

const CHOICES = {
  of_period: ["sum", "count", "mean", "median", "max", "last"],
  scale: ["linear", "log", "list"],
  ask: ["edges", "mean"],
  none: ["apart", "zero"],
  mode: ["memo", "once"],
} as const;
const KEYS = ["unit", "edges", "whole", "spread", ...Object.keys(CHOICES)];
const MAX_EDGES = 1000;
const LARGEST = 2 ** 53;
const MAX_SPREAD = 1000;

/** Every rule of a definition of kind `number`. Throws MetricsFileError. */
export const checkNumber = (definition: Definition): KindRules => {
  const { name, params, fallback, max_reports_per_period: each, max_reports: ever, max_memoized_values: cap } = definition;
  const where = `${name}: details`;
  const fields = fieldsOf(where, definition.details, KEYS);
  for (const [key, choices] of Object.entries(CHOICES)) {
    if (!(choices as readonly unknown[]).includes(fields[key])) refuse(where, `${key} is not one of ${choices.join(", ")}`);
  }
  const details = fields as unknown as NumberDetails;
  const memo = details.mode === "memo";
  if (!isText(details.unit) || !details.unit.trim() || details.unit.length > 40) refuse(where, "unit is not a text of 1 to 40 characters");
  if (typeof details.whole !== "boolean") refuse(where, "whole is not true or false");
  whole(where, fields, "spread", 1, memo ? 1 : MAX_SPREAD);
  checkEdges(where, details);
  checkTogether(where, details);
  const { num_bits: symbols, num_cohorts: cohorts } = params;
  if (each !== 1) refuse(name, "max_reports_per_period is not 1: one number a period");
  if (fallback !== null) refuse(name, "fallback has no use: the cap is never reached");
  if (cap !== symbols) refuse(name, "max_memoized_values is not the number of symbols");
  if (memo !== hasPermanentRound(params)) refuse(name, "params do not go with the mode: only 'memo' has a permanent response");
  if (memo ? symbols !== 2 : ever !== 1) refuse(name, "mode 'memo' needs two symbols, mode 'once' max_reports = 1");
  if (symbols - 1 > questionsOf(details).length) refuse(name, "params have more symbols than the questions have answers");
  if (cohorts % strideOf(details, symbols)) refuse(name, "num_cohorts is not a multiple of the sets of cuts");
  return { encodings: ["ordered"], takesNoData: false, numValues: symbols };
};

const checkEdges = (where: string, { edges, whole: isWhole, ask }: NumberDetails): void => {
  if (!Array.isArray(edges) || !edges.length || edges.length > MAX_EDGES || !edges.every((edge) => Math.abs(edge) <= LARGEST && typeof edge === "number")) {
    refuse(where, `edges are not 1 to ${MAX_EDGES} numbers of at most 2^53`);
  }
  edges.forEach((edge, i) => {
    if (i && !(edges[i - 1]! < edge)) refuse(where, "edges do not rise");
    if (isWhole && ask === "edges" && !Number.isInteger(edge)) refuse(where, "an edge is not whole, and whole is true");
  });
};

const checkTogether = (where: string, details: NumberDetails): void => {
  const { edges, of_period: asked, whole: isWhole, ask, scale } = details;
  if (!questionsOf(details).length) refuse(where, "edges ask nothing: all numbers are 0 or more");
  if (isWhole ? asked === "mean" : asked === "count") refuse(where, "whole does not go with of_period");
  if (ask === "mean" && (scale === "list" || edges.length < 2)) refuse(where, "ask = 'mean' needs strata: a scale linear or log");
  if (scale === "log" && edges[0]! <= 0) refuse(where, "a scale of logarithms begins above 0");
};
