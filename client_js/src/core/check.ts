/** Checking compiled metrics, strictly: every rule of docs/metrics.md, and `params_id` recomputed. */

import { own } from "./bytes.js";
import { dayOf } from "./days.js";
import { MetricsFileError } from "./errors.js";
import { canonical } from "./hashing.js";
import { prepared, type Compiled, type Definition, type Kind, type KindRules, type Metric, type Place, type PlaceRules, type Platform } from "./metrics.js";
import { paramsId } from "./params_id.js";
import { hasPermanentRound, hasSymbols, type Params } from "./privacy.js";
import { digestOf } from "./seal.js";

type Fields = Record<string, unknown>;

const PARAMS = ["encoding", "hash", "num_bits", "num_hashes", "num_cohorts", "p1", "q1", "p2", "q2"];
const REQUIRED = [
  "name", "kind", "description", "owner", "expires", "params", "max_memoized_values", "categories",
  "fallback", "max_reports", "period", "max_reports_per_period", "min_reports", "accept_days",
  "keep_raw_days",
];
const OPTIONAL = ["min_reports_per_cohort", "no_data", "platforms", "lives"];
const PLATFORMS: readonly Platform[] = ["app", "web"];
const RULES: Record<string, KindRules> = {
  string: { encodings: ["bloom"], takesNoData: true, numValues: Infinity },
  category: { encodings: ["one_hot"], takesNoData: true, numValues: 0 }, // as many as categories
  boolean: { encodings: ["boolean"], takesNoData: false, numValues: 2 },
  location: { encodings: ["bloom", "one_hot", "symbol"], takesNoData: true, numValues: Infinity },
};
export const NAME = /^[a-z][a-z0-9_.-]{0,63}$/;

export const refuse = (where: string, why: string): never => {
  throw new MetricsFileError("metrics_file", `${where}: ${why}`);
};

/** An object with exactly these keys, and some of the optional ones. */
export const fieldsOf = (
  where: string,
  value: unknown,
  required: readonly string[],
  optional: readonly string[] = [],
): Fields => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return refuse(where, "is not an object");
  }
  const wrong = [
    ...required.filter((key) => !Object.hasOwn(value, key)),
    ...Object.keys(value).filter((key) => !required.includes(key) && !optional.includes(key)),
  ];
  return wrong.length ? refuse(where, `lacks or has unknown keys: ${wrong.join(", ")}`) : (value as Fields);
};

/** A whole number in a range. */
export const whole = (where: string, fields: Fields, key: string, lowest: number, highest: number): number => {
  const value = fields[key];
  if (!Number.isInteger(value) || (value as number) < lowest || (value as number) > highest) {
    refuse(where, `${key} is not a whole number from ${lowest} to ${highest}`);
  }
  return value as number;
};

export const isText = (value: unknown): value is string => typeof value === "string";

/**
 * Check a whole document. Throws MetricsFileError that names the metric and the key, or the digest
 * where it has one that is not its own.
 */
export const checkDocument = (document: unknown, rules: PlaceRules | undefined, kinds: readonly Kind[] = []): Compiled => {
  const top = fieldsOf("compiled metrics", document, ["version", "budget", "metrics"], ["digest"]);
  if (top["version"] !== 1) refuse("compiled metrics", "version is not 1, the one known here");
  const rows = top["metrics"];
  if (!Array.isArray(rows) || !rows.length) return refuse("compiled metrics", "no metrics");
  const metrics = new Map<string, Metric>();
  for (const row of rows) {
    const metric = checkMetric(row, rules, kinds);
    if (metrics.has(metric.name)) refuse(metric.name, "stands twice");
    metrics.set(metric.name, metric);
  }
  checkBudget(top["budget"], [...metrics.values()]);
  const compiled = top as unknown as Compiled;
  if ("digest" in top && top["digest"] !== digestOf(compiled)) throw new MetricsFileError("not_sealed");
  return compiled;
};

/** Nats above 0, and no less than the metrics may cost a device of either platform; or null. */
const checkBudget = (nats: unknown, metrics: readonly Metric[]): void => {
  if (nats !== null && !(typeof nats === "number" && nats > 0)) refuse("budget", "is no number above 0");
  for (const platform of PLATFORMS) {
    const lines = new Map<string, number>();
    for (const { line, lifetimeEpsilon, platforms, definition } of metrics) {
      if (lines.has(line) || !platforms.includes(platform)) continue;
      lines.set(line, lifetimeEpsilon * (platform === "web" ? definition.lives! : 1));
    }
    const declared = [...lines.values()].reduce((sum, cost) => sum + cost, 0);
    if (nats !== null && declared > (nats as number) * (1 + 1e-9)) refuse("budget", "is below what the metrics may cost a device");
  }
};

/** A metric that holds every rule; its `params_id` is computed again. */
const checkMetric = (row: unknown, rules: PlaceRules | undefined, kinds: readonly Kind[]): Metric => {
  const { params_id: stated, definition: given } = fieldsOf("a metric", row, ["params_id", "definition"]);
  const kind = (given as Fields | null)?.["kind"];
  const part = kinds.find((one) => one.kind === kind);
  const required = kind === "location" ? [...REQUIRED, "location"] : part ? [...REQUIRED, "details"] : REQUIRED;
  const name = (given as Fields | null)?.["name"];
  if (!isText(name)) return refuse("a metric", "its name is not text");
  if (!part && isText(kind) && !Object.hasOwn(RULES, kind)) throw new MetricsFileError("metric_kind", name);
  const fields = fieldsOf("a definition", given, required, OPTIONAL);
  checkParams(name, fieldsOf(`${name}: params`, fields["params"], PARAMS));
  const definition = fields as unknown as Definition;
  const kindRules = part?.check(definition) ?? own(RULES, definition.kind) ?? refuse(name, "kind is not text");
  checkChoices(name, fields, kindRules);
  checkNumbers(name, fields);
  checkPlatforms(name, fields);
  checkValues(name, definition, kindRules);
  if (kind === "location") {
    if (!rules) throw new MetricsFileError("places_missing", name);
    rules.check(definition as Definition & { location: Place });
  } else if (!NAME.test(name)) {
    refuse(name, "a name is a lower-case letter, then up to 63 of a-z 0-9 _.-");
  }
  const id = paramsId(definition);
  return id === stated ? prepared(definition, id, rules, kinds) : refuse(name, "params_id is not that of its definition");
};

const checkParams = (name: string, fields: Fields): void => {
  const where = `${name}: params`;
  for (const key of ["num_bits", "num_cohorts"]) whole(where, fields, key, 1, 65536);
  whole(where, fields, "num_hashes", 1, 64);
  for (const key of ["p1", "q1", "p2", "q2"]) whole(where, fields, key, 0, 65536);
  const { encoding, hash, num_bits: k, num_hashes: h, p1, q1, p2, q2 } = fields as unknown as Params;
  const symbol = hasSymbols(fields as unknown as Params);
  if (hash !== "mmh3" && (hash !== "md5" || k > 256 || h > 16 || symbol)) {
    refuse(where, "hash is not 'mmh3', nor 'md5' with num_bits <= 256 and num_hashes <= 16");
  }
  if (p1 <= q1 || p2 === q2) refuse(where, "a response keeps nothing: p1 <= q1, or p2 = q2");
  if (encoding !== "bloom" && h !== 1) refuse(where, "num_hashes is not 1");
  if (encoding === "boolean" ? k !== 1 : (symbol || encoding === "bloom") && k < 2) {
    refuse(where, "num_bits does not go with the encoding");
  }
  if (symbol && (p1 + (k - 1) * q1 !== 65536 || p2 + (k - 1) * q2 !== 65536)) {
    refuse(where, "the chances of the symbols do not add up to 1");
  }
};

const checkChoices = (name: string, fields: Fields, { encodings, takesNoData }: KindRules): void => {
  const { period, description, owner, expires, fallback, params } = fields;
  if (!encodings.includes((params as Params).encoding)) refuse(name, "kind does not go with its encoding");
  if (!["day", "week", "month"].includes(period as string)) refuse(name, "period is not day, week or month");
  for (const text of [description, owner]) {
    if (!isText(text) || !text.trim()) refuse(name, "description or owner is empty");
  }
  if (!isText(expires) || Number.isNaN(dayOf(expires))) refuse(name, "expires is not a date");
  if (fallback !== null && !isText(fallback)) refuse(name, "fallback is not text");
  if ("no_data" in fields && (!isText(fields["no_data"]) || !takesNoData)) {
    refuse(name, "no_data is not text, or its kind does not take it");
  }
  const { categories } = fields;
  if (!Array.isArray(categories) || !categories.every(isText)) refuse(name, "categories is not a list of text");
};

const checkNumbers = (name: string, fields: Fields): void => {
  whole(name, fields, "max_memoized_values", 1, 1e6);
  whole(name, fields, "max_reports_per_period", 1, 1e4);
  const floor = whole(name, fields, "min_reports", 1, 1e9);
  whole(name, fields, "accept_days", 0, 90);
  whole(name, fields, "keep_raw_days", 0, 3650);
  if (fields["max_reports"] !== null) whole(name, fields, "max_reports", 1, 1e9);
  if ("min_reports_per_cohort" in fields) whole(name, fields, "min_reports_per_cohort", 1, floor);
};

/** The web profile: where the ledger may be deleted only a bound by reports holds, in each life. */
const checkPlatforms = (name: string, fields: Fields): void => {
  const given = "platforms" in fields ? fields["platforms"] : ["app"];
  if (!Array.isArray(given) || !given.length || new Set(given).size < given.length || !given.every((one) => PLATFORMS.includes(one as Platform))) {
    refuse(name, `platforms is not a list of ${PLATFORMS.join(", ")}, each once`);
  }
  if ("platforms" in fields && String(given) === "app") refuse(name, "platforms says the default");
  if (!(given as unknown[]).includes("web")) return void ("lives" in fields && refuse(name, "lives goes with platform web"));
  whole(name, fields, "lives", 1, 1e4);
  if (fields["max_reports"] === null) refuse(name, "max_reports is missing, which platform web needs");
};

const checkValues = (name: string, definition: Definition, { numValues }: KindRules): void => {
  const { kind, categories, params, fallback, max_memoized_values: cap } = definition;
  if (kind === "category") {
    const different = new Set(categories.map(canonical)).size;
    if (different < 2 || different !== categories.length || different !== params.num_bits) {
      refuse(name, "categories are not two or more different strings, or do not fit num_bits");
    }
  } else if (categories.length) refuse(name, "categories go with kind 'category'");
  const permanent = hasPermanentRound(params);
  if (!permanent && definition.max_reports === null) {
    refuse(name, "max_reports is missing: nothing else bounds what a device reveals");
  }
  if (kind === "boolean" ? fallback !== null || cap !== 2 : false) {
    refuse(name, "a boolean has no fallback, and max_memoized_values = 2");
  }
  if (fallback === null && (numValues || categories.length) > cap) {
    refuse(name, "fallback is missing: what is sent past max_memoized_values");
  }
  const taken = [fallback, definition.no_data].filter(isText).map(canonical);
  if (kind === "category" && taken.some((text) => !categories.map(canonical).includes(text))) {
    refuse(name, "fallback or no_data is not one of the categories");
  }
  const allFit = params.encoding === "symbol" && cap >= params.num_bits; // no symbol is past the cap
  if (permanent && cap <= new Set(taken).size && !allFit) {
    refuse(name, "max_memoized_values leaves no place beside fallback and no_data");
  }
};

