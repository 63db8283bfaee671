/** What a report means, as the digest that travels with it (docs/protocol.md, "params_id"). */

import { toHex, utf8 } from "./bytes.js";
import { canonical } from "./hashing.js";
import type { Definition } from "./metrics.js";
import { sha256 } from "./sha256.js";

/** 32 hexadecimal digits: half of SHA-256 over the meaning as canonical JSON. */
export const paramsId = (definition: Definition): string => {
  const { kind, categories, params, location, period, details, no_data: noData } = definition;
  const meaning = {
    meaning_version: 1,
    kind,
    categories: categories.map(canonical),
    ...params,
    details,
    location: location && { ...location, slot: undefined },
    period: location || kind === "number" || kind === "flow" ? period : undefined,
    no_data: location && noData, // without it `other` represents it, too
  };
  return toHex(sha256(utf8(canonicalJson(meaning)))).slice(0, 32);
};

/** Keys sorted, none that is undefined, no spaces, ASCII with escapes; the numbers under `box`, `edges` and `bands_km` are doubles. */
export const canonicalJson = (value: unknown, doubles = false): string => {
  if (typeof value === "number") return doubles ? double(value) : String(value);
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item, doubles)).join()}]`;
  if (typeof value === "object" && value !== null) {
    const rows = Object.entries(value).filter(([, item]) => item !== undefined).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${rows.map(([key, item]) => `"${key}":${canonicalJson(item, ["box", "edges", "bands_km"].includes(key))}`).join()}}`;
  }
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"),
  );
};

/** The shortest text of a double as Python writes it: `40.0`, `1e-05`, `-0.0`. */
const double = (value: number): string => {
  const text = Object.is(value, -0) ? "-0" : String(value);
  if (value !== 0 && Math.abs(value) < 1e-4) {
    return value.toExponential().replace(/e-(\d)$/, "e-0$1");
  }
  return /[.e]/.test(text) ? text : `${text}.0`;
};
