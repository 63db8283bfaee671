/**
 * In the production build: metrics are those that `rappor metrics compile` wrote, which held every
 * rule, and are known by their digest. (Who builds an app can write any; a digest is no signature.)
 */

import { MetricsFileError } from "./errors.js";
import { partOf, type Compiled, type Kind, type PlaceRules } from "./metrics.js";
import { digestOf } from "./seal.js";

const KINDS = ["string", "category", "boolean", "location"];

/** As in check.ts, by the digest. Throws MetricsFileError. */
export const checkDocument = (document: unknown, rules: PlaceRules | undefined, kinds: readonly Kind[]): Compiled => {
  const compiled = document as Compiled | null;
  if (compiled?.version !== 1 || compiled.digest !== digestOf(compiled)) throw new MetricsFileError("not_sealed");
  for (const { definition } of compiled.metrics) {
    const { name, kind, location } = definition;
    const part = partOf(kinds, definition);
    if (!part && !KINDS.includes(kind)) throw new MetricsFileError("metric_kind", name);
    part?.check(definition);
    if (location && !rules) throw new MetricsFileError("places_missing", name);
    if (location) rules!.check({ ...definition, location });
  }
  return compiled;
};
