/** SHAKE-256 (FIPS 202), of a library that is audited. */

import { Keccak } from "@noble/hashes/sha3.js";

/**
 * The first `length` bytes of SHAKE-256 of some data: Keccak at a rate of 136 bytes with SHAKE's
 * suffix. (`shake256` of the library is this, with options that weigh 0.4 kB.)
 */
export const shake256 = (data: Uint8Array, length: number): Uint8Array => new Keccak(136, 0x1f, length, true).update(data).digest();
