/** Bytes from the system's secure generator, or none at all. */

import type { Randomness } from "../core/device.js";
import { ParameterError } from "../core/errors.js";

const MOST = 65_536; // of one call, by the Web Crypto API

/** The platform's generator. Throws ParameterError where there is no secure one. */
export const systemRandomness = (): Randomness => {
  const source = globalThis.crypto;
  if (typeof source?.getRandomValues !== "function") {
    throw new ParameterError("no secure generator here: pass `randomness`, from the platform's own");
  }
  return (numBytes) => {
    const bytes = new Uint8Array(numBytes);
    for (let at = 0; at < numBytes; at += MOST) source.getRandomValues(bytes.subarray(at, at + MOST));
    return bytes;
  };
};

/** Refuses a generator that is plainly none: too few bytes, or the same ones again. */
export const checked = (randomness: Randomness): Randomness => {
  const [one, two] = [randomness(32), randomness(32)];
  if (one.length !== 32 || two.length !== 32 || one.join() === two.join()) {
    throw new ParameterError("`randomness` does not give random bytes");
  }
  return randomness;
};
