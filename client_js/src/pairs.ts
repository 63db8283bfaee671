/** The part for metrics of kind `pair`: pass `pairs()` to `open`, in `kinds`. */

import { oneBit } from "./core/coins.js";
import { ValueRefusedError } from "./core/errors.js";
import { canonical, mmh3Positions, normalize } from "./core/hashing.js";
import type { Definition, Kind, Metric } from "./core/metrics.js";
import { wrongType } from "./core/values.js";
import { checkPair } from "./pairs/check.js";
import { SEPARATOR, textsOf, type PairDetails } from "./pairs/details.js";

const LONGEST = 2048; // characters of a value that is compared with a list

const detailsOf = (definition: Definition): PairDetails => definition.details as PairDetails;

/** The place of a value in the list of a side, by type and NFC. Throws ValueRefusedError. */
const placeOf = (metric: Metric, side: 0 | 1, value: unknown): number => {
  const { of, values } = detailsOf(metric.definition);
  const text = typeof value === "string" && value.length <= 2 * LONGEST && [...value].length <= LONGEST ? canonical(value) : value;
  const place = values[side].findIndex((listed) => listed === text);
  if (place < 0) throw new ValueRefusedError("value_pair", metric.name, of[side]);
  return place;
};

/** The place of a pair: two values, or the text `first | second`. Throws ValueRefusedError. */
const pairOf = (metric: Metric, value: unknown, texts: readonly string[]): number => {
  const { of, values } = detailsOf(metric.definition);
  if (typeof value === "string") {
    const place = value.length > 4 * LONGEST ? -1 : texts.indexOf(canonical(value));
    if (place < 0) throw new ValueRefusedError("value_pair", metric.name, of.join(SEPARATOR));
    return place;
  }
  if (!Array.isArray(value) || value.length !== 2) throw wrongType(metric, `pair (${of.join(", ")})`);
  return placeOf(metric, 0, value[0]) * values[1].length + placeOf(metric, 1, value[1]);
};

/** A value from each of two lists, encoded as one. */
export const pairs = (): Kind => ({
  kind: "pair",
  check: checkPair,
  encoder: (metric, cohort) => {
    const { encoding, num_bits: k } = metric.definition.params;
    const texts = textsOf(detailsOf(metric.definition)).map(canonical);
    return (value) => {
      const place = pairOf(metric, value, texts);
      const bit = encoding === "one_hot" ? place : mmh3Positions(normalize(texts[place]!), cohort, k, 1)[0]!;
      return oneBit(bit, (k + 7) >> 3);
    };
  },
  values: (definition) => textsOf(detailsOf(definition)),
});
