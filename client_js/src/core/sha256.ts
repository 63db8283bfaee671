/** SHA-256 (FIPS 180-4), for digests of public definitions. No secret is ever hashed with it. */

/** The first 32 bits of the fraction of a root of the first primes. */
const constants = (count: number, power: number): number[] => {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) {
    let isPrime = true;
    for (let i = 2; i * i <= n; i++) if (n % i === 0) isPrime = false;
    if (isPrime) found.push(((n ** power % 1) * 2 ** 32) | 0);
  }
  return found;
};

const turn = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

/** The digest of some bytes, 32 bytes. */
export const sha256 = (data: Uint8Array): Uint8Array => {
  const [state, rounds] = [constants(8, 1 / 2), constants(64, 1 / 3)];
  const padded = new Uint8Array(((data.length + 72) >> 6) << 6);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(padded.length - 4, data.length << 3);
  const w = new Int32Array(64);
  for (let at = 0; at < padded.length; at += 64) {
    let [a, b, c, d, e, f, g, h] = state as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i++) {
      const [x, y] = [w[i - 15] ?? 0, w[i - 2] ?? 0];
      w[i] = i < 16 ? view.getInt32(at + 4 * i)
        : w[i - 16]! + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + w[i - 7]! + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + rounds[i]! + w[i]!) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = (state[i]! + word) | 0));
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => digest.setInt32(4 * i, word));
  return new Uint8Array(digest.buffer);
};
