/**
 * SHAKE-256 (FIPS 202), over lanes of 64 bits as two numbers of 32: word 2i is the low half of lane
 * i, word 2i + 1 its high half. test/hashes.test.mjs compares it with OpenSSL's, at every length.
 */

const RATE = 136; // bytes of a block of SHAKE-256

/** By step of rho and pi: the word of the lane that is reached, and by how much it is turned. */
const REACHED = new Uint8Array(24);
const TURNED = new Uint8Array(24);
/** By round: both halves of the constant of iota. */
const CONSTANTS = new Int32Array(48);

let [x, y] = [1, 0];
let register = 1;
for (let step = 0; step < 24; step++) {
  [x, y] = [y, (2 * x + 3 * y) % 5];
  REACHED[step] = 2 * (x + 5 * y);
  TURNED[step] = ((step + 1) * (step + 2)) / 2;
  for (let j = 0; j < 7; j++) {
    // bit 2^j - 1 of the constant, from a register of 8 bits
    if (register & 1) CONSTANTS[2 * step + (j > 5 ? 1 : 0)]! ^= 1 << ((1 << j) - 1);
    register = (register << 1) ^ (register >> 7 ? 0x171 : 0);
  }
}

/** The permutation, in place; its loops are unrolled where that is faster. */
const permute = (s: Int32Array): void => {
  for (let round = 0; round < 48; round += 2) {
    // theta
    const c0 = s[0]! ^ s[10]! ^ s[20]! ^ s[30]! ^ s[40]!;
    const c1 = s[1]! ^ s[11]! ^ s[21]! ^ s[31]! ^ s[41]!;
    const c2 = s[2]! ^ s[12]! ^ s[22]! ^ s[32]! ^ s[42]!;
    const c3 = s[3]! ^ s[13]! ^ s[23]! ^ s[33]! ^ s[43]!;
    const c4 = s[4]! ^ s[14]! ^ s[24]! ^ s[34]! ^ s[44]!;
    const c5 = s[5]! ^ s[15]! ^ s[25]! ^ s[35]! ^ s[45]!;
    const c6 = s[6]! ^ s[16]! ^ s[26]! ^ s[36]! ^ s[46]!;
    const c7 = s[7]! ^ s[17]! ^ s[27]! ^ s[37]! ^ s[47]!;
    const c8 = s[8]! ^ s[18]! ^ s[28]! ^ s[38]! ^ s[48]!;
    const c9 = s[9]! ^ s[19]! ^ s[29]! ^ s[39]! ^ s[49]!;
    const d0 = c8 ^ ((c2 << 1) | (c3 >>> 31));
    const d1 = c9 ^ ((c3 << 1) | (c2 >>> 31));
    const d2 = c0 ^ ((c4 << 1) | (c5 >>> 31));
    const d3 = c1 ^ ((c5 << 1) | (c4 >>> 31));
    const d4 = c2 ^ ((c6 << 1) | (c7 >>> 31));
    const d5 = c3 ^ ((c7 << 1) | (c6 >>> 31));
    const d6 = c4 ^ ((c8 << 1) | (c9 >>> 31));
    const d7 = c5 ^ ((c9 << 1) | (c8 >>> 31));
    const d8 = c6 ^ ((c0 << 1) | (c1 >>> 31));
    const d9 = c7 ^ ((c1 << 1) | (c0 >>> 31));
    for (let row = 0; row < 50; row += 10) {
      s[row]! ^= d0;
      s[row + 1]! ^= d1;
      s[row + 2]! ^= d2;
      s[row + 3]! ^= d3;
      s[row + 4]! ^= d4;
      s[row + 5]! ^= d5;
      s[row + 6]! ^= d6;
      s[row + 7]! ^= d7;
      s[row + 8]! ^= d8;
      s[row + 9]! ^= d9;
    }
    // rho and pi
    let low = s[2]!;
    let high = s[3]!;
    for (let step = 0; step < 24; step++) {
      const at = REACHED[step]!;
      const by = TURNED[step]!;
      const nextLow = s[at]!;
      const nextHigh = s[at + 1]!;
      s[at] = by & 32 ? (high << by) | (low >>> -by) : (low << by) | (high >>> -by);
      s[at + 1] = by & 32 ? (low << by) | (high >>> -by) : (high << by) | (low >>> -by);
      low = nextLow;
      high = nextHigh;
    }
    // chi
    for (let row = 0; row < 50; row += 10) {
      const a0 = s[row]!;
      const a1 = s[row + 1]!;
      const a2 = s[row + 2]!;
      const a3 = s[row + 3]!;
      const a4 = s[row + 4]!;
      const a5 = s[row + 5]!;
      const a6 = s[row + 6]!;
      const a7 = s[row + 7]!;
      const a8 = s[row + 8]!;
      const a9 = s[row + 9]!;
      s[row] = a0 ^ (~a2 & a4);
      s[row + 1] = a1 ^ (~a3 & a5);
      s[row + 2] = a2 ^ (~a4 & a6);
      s[row + 3] = a3 ^ (~a5 & a7);
      s[row + 4] = a4 ^ (~a6 & a8);
      s[row + 5] = a5 ^ (~a7 & a9);
      s[row + 6] = a6 ^ (~a8 & a0);
      s[row + 7] = a7 ^ (~a9 & a1);
      s[row + 8] = a8 ^ (~a0 & a2);
      s[row + 9] = a9 ^ (~a1 & a3);
    }
    // iota
    s[0]! ^= CONSTANTS[round]!;
    s[1]! ^= CONSTANTS[round + 1]!;
  }
};

/** The first `length` bytes of SHAKE-256 of some data. */
export const shake256 = (data: Uint8Array, length: number): Uint8Array => {
  const state = new Int32Array(50);
  let at = 0;
  for (let i = 0; i < data.length; i++) {
    state[at >> 2]! ^= data[i]! << (8 * (at & 3));
    if (++at === RATE) {
      permute(state);
      at = 0;
    }
  }
  state[at >> 2]! ^= 0x1f << (8 * (at & 3));
  state[33]! ^= 1 << 31; // the last bit of a block
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    if (i % RATE === 0) permute(state);
    out[i] = state[(i % RATE) >> 2]! >>> (8 * (i & 3));
  }
  return out;
};
