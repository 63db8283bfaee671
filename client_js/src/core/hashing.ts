/** From a value to the positions of its bits (docs/protocol.md, "From a value to Bloom bits"). */

import { ValueRefusedError } from "./errors.js";
import { bigEndian, concat, utf8 } from "./bytes.js";
import { md5 } from "./md5.js";
import { add, highProduct, multiply, rotate, word, xorShift, type Word } from "./words.js";

type Constant = readonly [high: number, low: number];
const C1: Constant = [0x87c37b91, 0x114253d5];
const C2: Constant = [0x4cf5ad43, 0x2745937f];
const F1: Constant = [0xff51afd7, 0xed558ccd];
const F2: Constant = [0xc4ceb9fe, 0x1a85ec53];
const M1: Constant = [0xbf58476d, 0x1ce4e5b9]; // of SplitMix64
const M2: Constant = [0x94d049bb, 0x133111eb];

/** Unicode NFC: composed and decomposed letters are one string. */
export const canonical = (text: string): string => text.normalize("NFC");

/** NFC, then UTF-8. Throws ValueRefusedError for a lone surrogate, which UTF-8 cannot express. */
export const normalize = (text: string): Uint8Array => {
  if (/[\ud800-\udfff]/u.test(text)) {
    throw new ValueRefusedError("value_surrogate");
  }
  return utf8(canonical(text));
};

/** The bytes from `at` on, up to 8 and no further than `end`, the least significant first. */
const load = (data: Uint8Array, at: number, end: number): Word => {
  let low = 0;
  let high = 0;
  for (let i = 0; i < 4 && at + i < end; i++) low |= data[at + i]! << (8 * i);
  for (let i = 4; i < 8 && at + i < end; i++) high |= data[at + i]! << (8 * i - 32);
  return { low, high };
};

/** Mix the bytes of one half of a block into its state. */
const absorb = (state: Word, bytes: Word, [high, low]: Constant, by: number, [then, lower]: Constant): void => {
  multiply(bytes, high, low);
  rotate(bytes, by);
  multiply(bytes, then, lower);
  state.low ^= bytes.low;
  state.high ^= bytes.high;
};

/** Rotate, add the other half, times 5, and a constant. */
const stir = (state: Word, by: number, other: Word, constant: number): void => {
  rotate(state, by);
  add(state, other.low, other.high);
  multiply(state, 0, 5);
  add(state, constant, 0);
};

const finish = (a: Word, shifts: readonly number[], [high, low]: Constant, [then, lower]: Constant): void => {
  xorShift(a, shifts[0]!);
  multiply(a, high, low);
  xorShift(a, shifts[1]!);
  multiply(a, then, lower);
  xorShift(a, shifts[2]!);
};

/** MurmurHash3, x64, 128 bits, seed 0: two halves, h1 first. */
export const murmur3 = (data: Uint8Array): [Word, Word] => {
  const [h1, h2] = [word(0, 0), word(0, 0)];
  const size = data.length;
  const body = size & ~15;
  for (let at = 0; at < body; at += 16) {
    absorb(h1, load(data, at, size), C1, 31, C2);
    stir(h1, 27, h2, 0x52dce729);
    absorb(h2, load(data, at + 8, size), C2, 33, C1);
    stir(h2, 31, h1, 0x38495ab5);
  }
  absorb(h2, load(data, body + 8, size), C2, 33, C1);
  absorb(h1, load(data, body, size), C1, 31, C2);
  h1.low ^= size;
  h2.low ^= size;
  for (const last of [false, true]) {
    add(h1, h2.low, h2.high);
    add(h2, h1.low, h1.high);
    if (last) break;
    finish(h1, [33, 33, 33], F1, F2);
    finish(h2, [33, 33, 33], F1, F2);
  }
  return [h1, h2];
};

/** Positions of a value (its normalized bytes) in one cohort, each in [0, numBits). */
export const mmh3Positions = (
  data: Uint8Array,
  cohort: number,
  numBits: number,
  numHashes: number,
): number[] => {
  const [base, step] = murmur3(data);
  const words = (numHashes + 1) >> 1;
  const positions: number[] = [];
  for (let i = 0; i < words; i++) {
    const mixed = word(step.high, step.low | 1);
    multiply(mixed, 0, cohort * words + i + 1);
    add(mixed, base.low, base.high);
    finish(mixed, [30, 27, 31], M1, M2);
    positions.push(highProduct(mixed.high, numBits), highProduct(mixed.low, numBits));
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
