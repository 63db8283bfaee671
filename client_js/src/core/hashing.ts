/** From a value to the positions of its bits (docs/protocol.md, "From a value to Bloom bits"). */

import { ValueRefusedError } from "./errors.js";
import { bigEndian, concat, utf8 } from "./bytes.js";
import { md5 } from "./md5.js";

const MASK = (1n << 64n) - 1n;
const C1 = 0x87c37b91114253d5n;
const C2 = 0x4cf5ad432745937fn;

/** Unicode NFC: composed and decomposed letters are one string. */
export const canonical = (text: string): string => text.normalize("NFC");

/** NFC, then UTF-8. Throws ValueRefusedError for a lone surrogate, which UTF-8 cannot express. */
export const normalise = (text: string): Uint8Array => {
  if (/\p{Surrogate}/u.test(text)) {
    throw new ValueRefusedError("the string holds a lone surrogate; clean it first");
  }
  return utf8(canonical(text));
};

const multiply = (a: bigint, b: bigint): bigint => (a * b) & MASK;
const rotate = (word: bigint, by: bigint): bigint => ((word << by) | (word >> (64n - by))) & MASK;

const finish = (word: bigint): bigint => {
  word = multiply(word ^ (word >> 33n), 0xff51afd7ed558ccdn);
  word = multiply(word ^ (word >> 33n), 0xc4ceb9fe1a85ec53n);
  return word ^ (word >> 33n);
};

const word64 = (data: Uint8Array, at: number, end: number): bigint => {
  let low = 0;
  let high = 0;
  for (let i = Math.min(end, at + 8) - 1; i >= at + 4; i--) high = high * 256 + data[i]!;
  for (let i = Math.min(end, at + 4) - 1; i >= at; i--) low = low * 256 + data[i]!;
  return (BigInt(high) << 32n) | BigInt(low);
};

const first = (word: bigint): bigint => multiply(rotate(multiply(word, C1), 31n), C2);
const second = (word: bigint): bigint => multiply(rotate(multiply(word, C2), 33n), C1);

/** MurmurHash3, x64, 128 bits, seed 0: two unsigned halves, h1 first. */
export const murmur3 = (data: Uint8Array): [bigint, bigint] => {
  let h1 = 0n;
  let h2 = 0n;
  const size = data.length;
  const body = size & ~15;
  for (let at = 0; at < body; at += 16) {
    h1 ^= first(word64(data, at, size));
    h1 = ((rotate(h1, 27n) + h2) * 5n + 0x52dce729n) & MASK;
    h2 ^= second(word64(data, at + 8, size));
    h2 = ((rotate(h2, 31n) + h1) * 5n + 0x38495ab5n) & MASK;
  }
  h2 ^= second(word64(data, body + 8, size));
  h1 ^= first(word64(data, body, size));
  h1 ^= BigInt(size);
  h2 ^= BigInt(size);
  h1 = (h1 + h2) & MASK;
  h2 = (h2 + h1) & MASK;
  h1 = finish(h1);
  h2 = finish(h2);
  h1 = (h1 + h2) & MASK;
  return [h1, (h2 + h1) & MASK];
};

/** The finaliser of SplitMix64. */
const mix64 = (word: bigint): bigint => {
  word = multiply(word ^ (word >> 30n), 0xbf58476d1ce4e5b9n);
  word = multiply(word ^ (word >> 27n), 0x94d049bb133111ebn);
  return word ^ (word >> 31n);
};

/** Positions of a value (its normalised bytes) in one cohort, each in [0, numBits). */
export const mmh3Positions = (
  data: Uint8Array,
  cohort: number,
  numBits: number,
  numHashes: number,
): number[] => {
  const [low, high] = murmur3(data);
  const words = (numHashes + 1) >> 1;
  const k = BigInt(numBits);
  const positions: number[] = [];
  for (let i = 0; i < words; i++) {
    const word = mix64((low + BigInt(cohort * words + i + 1) * (high | 1n)) & MASK);
    positions.push(Number(((word >> 32n) * k) >> 32n), Number(((word & 0xffffffffn) * k) >> 32n));
  }
  return positions.slice(0, numHashes);
};

/** As google/rappor's clients: byte i of MD5(cohort in 4 bytes, then the value), modulo numBits. */
export const md5Positions = (
  data: Uint8Array,
  cohort: number,
  numBits: number,
  numHashes: number,
): number[] =>
  Array.from(md5(concat([bigEndian(cohort, 4), data])).subarray(0, numHashes), (b) => b % numBits);
