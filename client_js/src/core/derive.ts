/** What a device derives from its secret (docs/porting.md, part 1). The secret never leaves. */

import { bigEndian, concat, utf8 } from "./bytes.js";
import { shake256 } from "./shake.js";

export const SECRET_BYTES = 32;
const DOMAIN = utf8("rappor-telemetry v1");

/** The bytes that are hashed: each field after its length in 4 bytes, big-endian. */
export const keyedInput = (
  secret: Uint8Array,
  purpose: string,
  fields: readonly Uint8Array[],
): Uint8Array =>
  concat(
    [DOMAIN, utf8(purpose), secret, ...fields].flatMap((part) => [bigEndian(part.length, 4), part]),
  );

/** `length` pseudo-random bytes for a purpose and its fields. Private unless said otherwise. */
export const derive = (
  secret: Uint8Array,
  purpose: string,
  fields: readonly Uint8Array[],
  length: number,
): Uint8Array => shake256(keyedInput(secret, purpose, fields), length);

/** As `derive`; input: of `keyedInput`, with all fields but the last. */
export const deriveFrom = (input: Uint8Array, last: Uint8Array, length: number): Uint8Array =>
  shake256(concat([input, bigEndian(last.length, 4), last]), length);

/** A number in [0, choices), uniform but for choices / 2^64. fields: what else it hangs on. */
export const draw = (
  secret: Uint8Array,
  purpose: string,
  name: string,
  choices: number,
  ...fields: readonly Uint8Array[]
): number => {
  const bytes = derive(secret, purpose, [utf8(name), ...fields], 8);
  const word = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return Number((word * BigInt(choices)) >> 64n);
};

/** The cohort of a device for a metric (its name up to the first `/`). Public. */
export const cohortOf = (secret: Uint8Array, metric: string, numCohorts: number): number =>
  draw(secret, "cohort", metric, numCohorts);

/** 8 bytes that tell a damaged secret; they do not help to find it. */
export const secretCheck = (secret: Uint8Array): Uint8Array => derive(secret, "check", [], 8);
