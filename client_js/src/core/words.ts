/** Words of 64 bits as two numbers of 32, without BigInt: what MurmurHash3 and SplitMix64 need. */

/** A word: its low and its high half, each as a signed number of 32 bits. */
export interface Word {
  low: number;
  high: number;
}

export const word = (high: number, low: number): Word => ({ low: low | 0, high: high | 0 });

export const add = (to: Word, low: number, high: number): void => {
  const sum = (to.low >>> 0) + (low >>> 0);
  to.high = (to.high + high + (sum > 0xffffffff ? 1 : 0)) | 0;
  to.low = sum | 0;
};

/** The high half of the product of two unsigned numbers of 32 bits. */
export const highProduct = (a: number, b: number): number => {
  const [a1, a0, b1, b0] = [a >>> 16, a & 0xffff, b >>> 16, b & 0xffff];
  const low = Math.imul(a0, b0) >>> 0;
  const middle = (Math.imul(a1, b0) >>> 0) + (low >>> 16);
  const other = (Math.imul(a0, b1) >>> 0) + (middle & 0xffff);
  return (Math.imul(a1, b1) + Math.floor(middle / 65536) + Math.floor(other / 65536)) | 0;
};

export const multiply = (by: Word, high: number, low: number): void => {
  by.high = (highProduct(by.low, low) + Math.imul(by.high, low) + Math.imul(by.low, high)) | 0;
  by.low = Math.imul(by.low, low);
};

/** To the left, by 1 to 63 but 32. */
export const rotate = (a: Word, by: number): void => {
  const [high, low] = by < 32 ? [a.high, a.low] : [a.low, a.high];
  by &= 31;
  a.high = (high << by) | (low >>> (32 - by));
  a.low = (low << by) | (high >>> (32 - by));
};

/** a ^= a >> by, by 1 to 63 but 32. */
export const xorShift = (a: Word, by: number): void => {
  if (by < 32) {
    a.low ^= (a.low >>> by) | (a.high << (32 - by));
    a.high ^= a.high >>> by;
  } else a.low ^= a.high >>> (by - 32);
};
