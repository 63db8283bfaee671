/**
 * The part for metrics of kind `discover`: pass `discover({ domains })` to `open`, in `kinds`.
 *
 * `domains` is the public code table of the package (entry `/domains`), which a metric needs
 * only if it declares no table.
 */

import { oneBit } from "./core/coins.js";
import { MetricsFileError } from "./core/errors.js";
import { mmh3Positions, normalize } from "./core/hashing.js";
import type { Definition, Kind } from "./core/metrics.js";
import { textOf } from "./core/values.js";
import { checkDiscover } from "./discover/check.js";
import { coderOf, type DiscoverDetails } from "./discover/code.js";

/** A code table that comes with the package. text: its canonical JSON. sha256: of that. */
export interface PackagedTable {
  readonly sha256: string;
  readonly text: string;
}

/** Strings that no list holds, by coded prefixes. domains: of the entry `/domains`. */
export const discover = ({ domains }: { readonly domains?: PackagedTable } = {}): Kind => {
  const tableOf = ({ name, details }: Definition): string => {
    const { code, code_sha256: digest, code_table: own } = details as DiscoverDetails;
    if (own !== null) return own;
    if (code !== "domains" || domains?.sha256 !== digest) throw new MetricsFileError("code_missing", name);
    return domains.text;
  };
  return {
    kind: "discover",
    check: (definition) => checkDiscover(definition, tableOf),
    encoder: (metric, cohort) => {
      const { num_cohorts: cohorts, num_bits: k } = metric.definition.params;
      const { num_levels: levels, bits_per_level: each } = metric.definition.details as DiscoverDetails;
      const coder = coderOf(tableOf(metric.definition));
      const numBits = each * Math.min(Math.floor((cohort * (levels + 1)) / cohorts) + 1, levels);
      return (value) => {
        const key = coder(normalize(textOf(metric, value)), numBits);
        return oneBit(mmh3Positions(key, cohort, k, 1)[0]!, (k + 7) >> 3);
      };
    },
    values: () => [], // there is no list of them: a fallback is declared
  };
};
