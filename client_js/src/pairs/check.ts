/** Checking definitions of pairs, strictly: what docs/metrics.md asks of them. */

import { fieldsOf, isText, refuse } from "../core/check.js";
import { canonical } from "../core/hashing.js";
import type { Definition, KindRules } from "../core/metrics.js";
import { textsOf, type PairDetails } from "./details.js";

const MAX_PAIRS = 65_536;
const LONGEST = 2048;

/** Every rule of a definition of kind `pair`. Throws MetricsFileError. */
export const checkPair = (definition: Definition): KindRules => {
  const { name, params, fallback, no_data: noData } = definition;
  const where = `${name}: details`;
  const { of, values } = fieldsOf(where, definition.details, ["of", "values"]);
  if (!isTwo(of) || !of.every((side) => isText(side) && side.trim()) || of[0] === of[1]) refuse(where, "of is not two different names");
  if (!isTwo(values)) return refuse(where, "values is not a list of two lists");
  values.forEach((list) => checkList(where, list));
  const texts = textsOf(definition.details as PairDetails);
  if (texts.length > MAX_PAIRS) refuse(where, `there are more than ${MAX_PAIRS} pairs`);
  if (params.encoding === "one_hot" && params.num_bits !== texts.length) refuse(name, "params do not have one bit for each pair");
  if (params.num_hashes !== 1 || params.hash !== "mmh3") refuse(name, "params need one hash, of family mmh3");
  for (const text of [fallback, noData].filter(isText)) {
    if (!texts.includes(canonical(text))) refuse(name, "fallback or no_data is not one of the pairs");
  }
  return { encodings: ["one_hot", "bloom"], takesNoData: true, numValues: texts.length };
};

const isTwo = (value: unknown): value is unknown[] => Array.isArray(value) && value.length === 2;

/** Two or more different values: text in NFC without `|`, or false and true. */
const checkList = (where: string, list: unknown): void => {
  if (!Array.isArray(list) || list.length < 2 || new Set(list).size !== list.length) refuse(where, "a list needs two or more different values");
  for (const value of list as unknown[]) {
    const fits = isText(value)
      ? value === canonical(value) && value.trim() && !value.includes("|") && [...value].length <= LONGEST
      : typeof value === "boolean";
    if (!fits || typeof value !== typeof (list as unknown[])[0]) refuse(where, "a value is neither text without '|' nor one of false and true");
  }
};
