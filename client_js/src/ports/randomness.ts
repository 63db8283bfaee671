/** Bytes from the system's secure generator, or none at all. */

import type { Randomness } from "../core/device.js";
import { ParameterError } from "../core/errors.js";

const AHEAD = 1024; // bytes drawn at once: a call of the generator costs as much as a report

/** The platform's generator. Throws ParameterError where there is no secure one. */
export const systemRandomness = (): Randomness => {
  const source = globalThis.crypto;
  if (typeof source?.getRandomValues !== "function") {
    throw new ParameterError("no_randomness");
  }
  const drawn = new Uint8Array(AHEAD);
  let at = AHEAD;
  return (numBytes) => {
    const bytes = new Uint8Array(numBytes);
    for (let done = 0; done < numBytes; ) {
      if (at === AHEAD) {
        source.getRandomValues(drawn);
        at = 0;
      }
      const take = Math.min(numBytes - done, AHEAD - at);
      bytes.set(drawn.subarray(at, at + take), done);
      drawn.fill(0, at, at + take); // what was given is given once, and not kept
      at += take;
      done += take;
    }
    return bytes;
  };
};

/** Refuses a generator that is plainly none: too few bytes, or the same ones again. */
export const checked = (randomness: Randomness): Randomness => {
  const [one, two] = [randomness(32), randomness(32)];
  if (one.length !== 32 || two.length !== 32 || one.join() === two.join()) {
    throw new ParameterError("bad_randomness");
  }
  return randomness;
};
