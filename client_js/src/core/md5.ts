/** MD5 (RFC 1321), for metrics that take the hash of google/rappor's clients. No security in it. */

const SHIFTS = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];

const sine = (step: number): number => Math.floor(Math.abs(Math.sin(step + 1)) * 2 ** 32);

/** The digest of some bytes, 16 bytes. */
export const md5 = (data: Uint8Array): Uint8Array => {
  const padded = new Uint8Array(((data.length + 72) >> 6) << 6);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, data.length << 3, true);
  view.setUint32(padded.length - 4, Math.floor(data.length / 2 ** 29), true);
  const state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
  for (let at = 0; at < padded.length; at += 64) {
    let [a, b, c, d] = state as [number, number, number, number];
    for (let i = 0; i < 64; i++) {
      const round = i >> 4;
      const mixed = [(b & c) | (~b & d), (d & b) | (~d & c), b ^ c ^ d, c ^ (b | ~d)][round]!;
      const word = [i, 5 * i + 1, 3 * i + 5, 7 * i][round]! & 15;
      const sum = (a + mixed + sine(i) + view.getUint32(at + 4 * word, true)) | 0;
      const by = SHIFTS[4 * round + (i & 3)]!;
      [a, d, c, b] = [d, c, b, (b + ((sum << by) | (sum >>> (32 - by)))) | 0];
    }
    [a, b, c, d].forEach((word, i) => (state[i] = (state[i]! + word) | 0));
  }
  const digest = new DataView(new ArrayBuffer(16));
  state.forEach((word, i) => digest.setInt32(4 * i, word, true));
  return new Uint8Array(digest.buffer);
};
