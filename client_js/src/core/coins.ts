/** Coins that are exact over 2^16 (docs/porting.md, part 3), for words of bits and for symbols. */

const SCALE = 1 << 16;

/** What tosses a word, and how many uniform bytes one toss takes. */
export interface Coin {
  readonly numBytes: number;
  toss(bits: Uint8Array, random: Uint8Array): Uint8Array;
}

const trailingZeros = (threshold: number): number =>
  threshold === 0 || threshold === SCALE ? 16 : 31 - Math.clz32(threshold & -threshold);

/** One coin where a bit is 1 and another where it is 0; thresholds over 2^16. */
export const coinPair = (ifOne: number, ifZero: number, numBits: number): Coin => {
  const first = Math.min(trailingZeros(ifOne), trailingZeros(ifZero));
  const size = (numBits + 7) >> 3;
  const lastMask = numBits & 7 ? (1 << (numBits & 7)) - 1 : 255;
  return {
    numBytes: (16 - first) * size,
    toss(bits, random) {
      const result = new Uint8Array(size);
      for (let i = 0; i < size; i++) {
        let ones = 0;
        let zeros = 0;
        for (let digit = first, at = i; digit < 16; digit++, at += size) {
          const word = random[at]!;
          ones = (ifOne >> digit) & 1 ? ones | word : ones & word;
          zeros = (ifZero >> digit) & 1 ? zeros | word : zeros & word;
        }
        if (ifOne === SCALE) ones = 255;
        if (ifZero === SCALE) zeros = 255;
        result[i] = zeros ^ (bits[i]! & (ones ^ zeros));
      }
      result[size - 1]! &= lastMask;
      return result;
    },
  };
};

/** The index of the one set bit of a word. */
const symbolOf = (bits: Uint8Array): number => {
  const byte = bits.findIndex((value) => value > 0);
  return 8 * byte + 31 - Math.clz32(bits[byte]!);
};

/** A word of `size` bytes with one bit set. */
export const oneBit = (index: number, size: number): Uint8Array => {
  const bits = new Uint8Array(size);
  bits[index >> 3] = 1 << (index & 7);
  return bits;
};

/** One symbol of g, kept or exchanged for another; kept + (g - 1) * lie = 2^16. */
export const symbolCoin = (kept: number, lie: number): Coin => ({
  numBytes: 2,
  toss(bits, random) {
    const drawn = random[0]! + 256 * random[1]!;
    if (drawn < kept) return bits;
    const other = Math.floor((drawn - kept) / lie);
    return oneBit(other + (other >= symbolOf(bits) ? 1 : 0), bits.length);
  },
});
