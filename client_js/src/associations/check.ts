/** Checking associations of compiled metrics, strictly: what docs/metrics.md asks of them. */

import { toHex, utf8 } from "../core/bytes.js";
import { fieldsOf, isText, NAME, refuse } from "../core/check.js";
import { dayOf } from "../core/days.js";
import type { Association, Compiled, Metric } from "../core/metrics.js";
import { canonicalJson } from "../core/params_id.js";
import { sha256 } from "../core/sha256.js";

const KEYS = ["name", "description", "owner", "expires", "of", "params_ids"];
const MOST_ASSOCIATIONS = 64;
const MOST_PAIRS_OF_BITS = 1 << 14;
const MOST_COUNTERS = 1 << 20;

/** Every rule of a file's associations. Throws MetricsFileError. */
export const checkAssociations = ({ associations: rows }: Compiled, metrics: ReadonlyMap<string, Metric>): void => {
  if (!Array.isArray(rows) || !rows.length || rows.length > MOST_ASSOCIATIONS) {
    return refuse("associations", `is not a list of 1 to ${MOST_ASSOCIATIONS}`);
  }
  const taken = new Set<string>();
  const shared = new Set<string>();
  for (const row of rows) {
    const { params_id: stated, definition } = fieldsOf("an association", row, ["params_id", "definition"]);
    const { name, of, params_ids: ids } = checkFields(definition, metrics);
    for (const one of [name, ...of]) {
      if (taken.has(one) || (one === name && metrics.has(one))) refuse(name, `'${one}' stands twice, among associations and metrics`);
      taken.add(one);
    }
    const [first, second] = [metrics.get(of[0])!, metrics.get(of[1])!];
    checkTogether(name, first, second);
    if (second.definition.cohort_with !== undefined) shared.add(second.name);
    const meaning = { meaning_version: 1, association: of.map((metric, side) => [metric, ids[side]]) };
    if (toHex(sha256(utf8(canonicalJson(meaning)))).slice(0, 32) !== stated) refuse(name, "params_id is not that of its definition");
  }
  for (const { name, definition } of metrics.values()) {
    if (definition.cohort_with !== undefined && !shared.has(name)) refuse(name, "cohort_with, and no association links the two");
  }
};

/** Each key alone; of: two metrics that are declared. */
const checkFields = (definition: unknown, metrics: ReadonlyMap<string, Metric>): Association => {
  const fields = fieldsOf("an association", definition, KEYS, ["keep_raw_days"]) as unknown as Association;
  const { name, description, owner, expires, of, params_ids: ids, keep_raw_days: kept = 0 } = fields;
  if (!isText(name) || !NAME.test(name)) refuse("an association", "a name is a lower-case letter, then up to 63 of a-z 0-9 _.-");
  if (![description, owner].every((text) => isText(text) && text.trim())) refuse(name, "description or owner is empty");
  if (!isText(expires) || Number.isNaN(dayOf(expires))) refuse(name, "expires is not a date");
  if (!Number.isInteger(kept) || kept < 0) refuse(name, "keep_raw_days is not a number of days");
  for (const list of [of, ids]) {
    if (!Array.isArray(list) || list.length !== 2) refuse(name, "of and params_ids are not lists of two");
  }
  of.forEach((metric, side) => {
    if (metrics.get(metric)?.paramsId !== ids[side]) refuse(name, "of and params_ids do not name metrics of the file");
  });
  return fields;
};

/** What two linked metrics must have in common. */
const checkTogether = (name: string, first: Metric, second: Metric): void => {
  const [{ definition: one }, { definition: other }] = [first, second];
  const cohorts = [one.params.num_cohorts, other.params.num_cohorts];
  const alone = cohorts.includes(1);
  for (const { location, details, max_reports_per_period: each, platforms } of [one, other]) {
    if (location || details !== undefined) refuse(name, "of names a metric of a kind whose reports are not linked");
    if (each !== 1) refuse(name, "of names a metric with more than one report a period");
    if (platforms) refuse(name, "of names a metric that is for platforms other than 'app'");
  }
  if (!alone && cohorts[0] !== cohorts[1]) refuse(name, "of names metrics with different num_cohorts");
  if (one.period !== other.period) refuse(name, "of names metrics with different periods");
  if (one.cohort_with !== undefined || other.cohort_with !== (alone ? undefined : one.name)) refuse(name, "cohort_with is not that of the second metric");
  const [a, b] = [one.params.num_bits, other.params.num_bits];
  if (a * b > MOST_PAIRS_OF_BITS || Math.max(...cohorts) * (a * b + a + b) > MOST_COUNTERS) refuse(name, "of needs more counters than are kept");
};
