/** Checking definitions of coded prefixes and their tables, strictly. */

import { fromHex, toHex, utf8 } from "../core/bytes.js";
import { fieldsOf, refuse, whole } from "../core/check.js";
import type { Definition, KindRules } from "../core/metrics.js";
import { canonicalJson } from "../core/params_id.js";
import { sha256 } from "../core/sha256.js";
import type { CodeTable, DiscoverDetails } from "./code.js";

const KEYS = ["code", "code_sha256", "code_table", "num_levels", "bits_per_level"];
const TABLE_KEYS = ["version", "name", "order", "lower_case", "symbols", "contexts"];
const MAX_CODE_BITS = 64;
const MAX_TABLE_CHARACTERS = 200_000;
const MAX_SYMBOLS = 200;
const MIN_BITS = 16;
const PAIRS = /^([0-9a-f]{2})*$/;
const LENGTHS = /^[1-9a-z]+$/;

/** Every rule of a definition of kind `discover`. tableOf: its code table. Throws MetricsFileError. */
export const checkDiscover = (definition: Definition, tableOf: (definition: Definition) => string): KindRules => {
  const { name, params, max_reports: ever } = definition;
  const where = `${name}: details`;
  const fields = fieldsOf(where, definition.details, KEYS);
  const levels = whole(where, fields, "num_levels", 2, 8);
  const each = whole(where, fields, "bits_per_level", 4, 16);
  if (levels * each > MAX_CODE_BITS) refuse(where, `num_levels of bits_per_level are more than ${MAX_CODE_BITS} bits`);
  const { code, code_sha256: digest, code_table: own } = fields as unknown as DiscoverDetails;
  if (own !== null && typeof own !== "string") refuse(where, "code_table is not text");
  const text = tableOf(definition);
  const table = checkTable(where, text);
  if (table.name !== code || toHex(sha256(utf8(text))) !== digest) refuse(where, "code_table is not the one of code and code_sha256");
  if (params.num_bits < MIN_BITS || params.hash !== "mmh3") refuse(name, `num_bits is below ${MIN_BITS}, or hash is not mmh3`);
  if (params.num_cohorts % (levels + 1)) refuse(name, "num_cohorts is not a multiple of num_levels + 1");
  if (params.p2 === 65536 && params.q2 === 0 && ever !== 1) refuse(name, "max_reports is not 1: a second report would repeat the first");
  return { encodings: ["coded_prefix"], takesNoData: true, numValues: Infinity };
};

/** A table in its canonical JSON, in which every context is a complete prefix code. */
const checkTable = (where: string, text: string): CodeTable => {
  let parsed: unknown;
  try {
    parsed = text.length <= MAX_TABLE_CHARACTERS ? JSON.parse(text) : undefined;
  } catch {
    // no JSON: refused below
  }
  const fields = fieldsOf(`${where}: code_table`, parsed ?? null, TABLE_KEYS);
  const table = fields as unknown as CodeTable;
  const { name, version, order, lower_case: folded, symbols, contexts } = table;
  if (version !== 1) refuse(where, "code_table has another version than 1");
  if (typeof name !== "string" || !/^[A-Za-z_]\w{0,39}$/.test(name)) refuse(where, "code_table has no name of up to 40 letters, digits and _");
  whole(where, fields, "order", 0, 3);
  if (typeof folded !== "boolean") refuse(where, "lower_case is not true or false");
  if (typeof symbols !== "string" || !symbols || !PAIRS.test(symbols)) refuse(where, "symbols are not bytes in hexadecimal");
  const bytes = [...fromHex(symbols)];
  if (bytes.length > MAX_SYMBOLS || bytes.some((byte, i) => i && byte <= bytes[i - 1]!)) refuse(where, `symbols are not up to ${MAX_SYMBOLS}, increasing`);
  if (folded && bytes.some((byte) => byte >= 65 && byte <= 90)) refuse(where, "a table with lower_case has no symbol A to Z");
  if (typeof contexts !== "object" || contexts === null || !Object.hasOwn(contexts, "")) return refuse(where, "there is no code for the empty context");
  for (const [context, lengths] of Object.entries(contexts)) {
    const fits = PAIRS.test(context) && context.length <= 2 * order && isComplete(lengths, bytes.length + 2);
    if (!fits) refuse(where, `context '${context}' is no complete prefix code`);
  }
  if (canonicalJson(parsed) !== text) refuse(where, "code_table is not in its canonical form");
  return table;
};

/** Whether lengths are those of a complete prefix code: the sum of 2^-length is 1, exactly. */
const isComplete = (lengths: unknown, size: number): boolean =>
  typeof lengths === "string" &&
  lengths.length === size &&
  LENGTHS.test(lengths) &&
  [...lengths].reduce((sum, digit) => sum + 2 ** -parseInt(digit, 36), 0) === 1;
