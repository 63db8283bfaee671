/** SHAKE-256 (FIPS 202), of a library that is audited. */

import { shake256 as shake } from "@noble/hashes/sha3.js";

/** The first `length` bytes of SHAKE-256 of some data. */
export const shake256 = (data: Uint8Array, length: number): Uint8Array => shake(data, { dkLen: length });
