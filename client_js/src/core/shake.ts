/** SHAKE-256 (FIPS 202): the sponge around Keccak's permutation, which is of an audited library. */

import { keccakP } from "@noble/hashes/sha3.js";

const RATE = 136; // bytes
const SWAP = new Uint8Array(Uint32Array.of(1).buffer)[0] ? 0 : 3; // of the bytes of a word, on big-endian machines

/**
 * The first `length` bytes of SHAKE-256 of some data. (The library's own sponge, with options and
 * other hash functions, weighs 0.9 kB gzipped.)
 */
export const shake256 = (data: Uint8Array, length: number): Uint8Array => {
  const words = new Uint32Array(50);
  const state = new Uint8Array(words.buffer);
  let at = 0;
  const absorb = (byte: number): void => {
    state[at++ ^ SWAP]! ^= byte;
  };
  for (const byte of data) {
    absorb(byte);
    if (at < RATE) continue;
    keccakP(words);
    at = 0;
  }
  absorb(0x1f);
  at = RATE - 1;
  absorb(0x80);
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    if (i % RATE === 0) keccakP(words);
    out[i] = state[(i % RATE) ^ SWAP]!;
  }
  words.fill(0); // it holds what follows from the secret
  return out;
};
