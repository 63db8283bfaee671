/**
 * In the production build: metrics are those that `rappor metrics compile` wrote, which held every
 * rule, and are known by their digest. (Who builds an app can write any; a digest is no signature.)
 */

import { MetricsFileError } from "./errors.js";
import type { Compiled, PlaceRules } from "./metrics.js";
import { digestOf } from "./seal.js";

const KINDS = ["string", "category", "boolean", "location"];

/** As in check.ts, by the digest. Throws MetricsFileError. */
export const checkDocument = (document: unknown, rules: PlaceRules | undefined): Compiled => {
  const compiled = document as Compiled | null;
  if (compiled?.version !== 1 || compiled.digest !== digestOf(compiled)) throw new MetricsFileError("not_sealed");
  for (const { definition } of compiled.metrics) {
    if (!KINDS.includes(definition.kind)) throw new MetricsFileError("metric_kind", definition.name);
    const { location } = definition;
    if (!location) continue;
    if (!rules) throw new MetricsFileError("places_missing", definition.name);
    rules.check({ ...definition, location });
  }
  return compiled;
};
