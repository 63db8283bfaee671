/** The digest of compiled metrics: what `rappor metrics compile` checked is known again by it. */

import { toHex, utf8 } from "./bytes.js";
import { shake256 } from "./shake.js";
import type { Compiled } from "./metrics.js";

const double = (value: number): string => toHex(new Uint8Array(new Float64Array([value]).buffer));

/** Half of SHAKE-256 over what is declared as JSON; numbers are texts of their 8 bytes, lowest first. */
export const digestOf = ({ budget, metrics }: Partial<Compiled>): string => {
  const text = JSON.stringify([budget, metrics], (_, value: unknown) => (typeof value === "number" ? double(value) : value));
  return toHex(shake256(utf8(text), 16));
};
