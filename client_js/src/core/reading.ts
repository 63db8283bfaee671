/** From compiled metrics to those that a device uses. */

import { checkDocument } from "./check.js";
import { MetricsFileError } from "./errors.js";
import { prepared, type Kind, type Metrics, type PlaceRules } from "./metrics.js";

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    throw new MetricsFileError("not_json");
  }
};

/**
 * Read a compiled metrics file: its text, or what JSON.parse made of it.
 *
 * rules: of places; a file with metrics of kind `location` is refused without them. kinds:
 * as `Options.kinds`.
 * Throws MetricsFileError that names the metric and, in the development build, the key.
 */
export const readMetrics = (compiled: unknown, rules?: PlaceRules, kinds: readonly Kind[] = []): Metrics => {
  const document = checkDocument(typeof compiled === "string" ? parsed(compiled) : compiled, rules, kinds);
  const metrics = new Map(
    document.metrics.map(({ definition, params_id: id }) => [definition.name, prepared(definition, id, rules, kinds)]),
  );
  return { metrics, budget: document.budget ?? Infinity };
};
