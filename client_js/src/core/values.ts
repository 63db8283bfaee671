/** From a value to its bits (docs/protocol.md, "From a value to Bloom bits"). */

import { oneBit } from "./coins.js";
import { ValueRefusedError } from "./errors.js";
import { canonical, md5Positions, mmh3Positions, normalize } from "./hashing.js";
import { OTHER, type Metric } from "./metrics.js";

const MAX_VALUE_CHARS = 2048;

/** A string that is not too long to be encoded. Throws ValueRefusedError. */
export const textOf = (metric: Metric, value: unknown): string => {
  if (typeof value !== "string") throw wrongType(metric, "string");
  if (value.length > MAX_VALUE_CHARS && [...value].length > MAX_VALUE_CHARS) {
    throw new ValueRefusedError("value_long", metric.name, MAX_VALUE_CHARS);
  }
  return value;
};

/** B of a value in a cohort, as on the wire. Private. Throws ValueRefusedError. */
export const valueBits = (metric: Metric, value: unknown, cohort: number): Uint8Array => {
  const { params, categories } = metric.definition;
  const { encoding, num_bits: k, num_hashes: h } = params;
  const size = (k + 7) >> 3;
  if (encoding === "boolean") {
    if (typeof value !== "boolean") throw wrongType(metric, "boolean");
    return Uint8Array.of(value ? 1 : 0);
  }
  const text = textOf(metric, value);
  if (encoding === "one_hot") {
    const { domain } = metric;
    const index = domain
      ? (domain.get(text) ?? domain.get(OTHER)!)
      : categories.map(canonical).indexOf(canonical(text));
    if (index < 0) {
      throw new ValueRefusedError("value_category", metric.name);
    }
    return oneBit(index, size);
  }
  const positions = params.hash === "mmh3" ? mmh3Positions : md5Positions;
  const bits = new Uint8Array(size);
  for (const at of positions(normalize(text), cohort, k, h)) bits[at >> 3]! |= 1 << (at & 7);
  return bits;
};

export const wrongType = (metric: Metric, wanted: string): ValueRefusedError =>
  new ValueRefusedError("value_type", metric.name, wanted);
