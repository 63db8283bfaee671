// What is written here for its size against other implementations, at every length that matters.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { shake256 } from "../dist/core/shake.js";
import { sha256 } from "../dist/core/sha256.js";
import { add, highProduct, multiply, rotate, word, xorShift } from "../dist/core/words.js";
import { systemRandomness } from "../dist/ports/randomness.js";

test("SHAKE-256 and SHA-256 agree with OpenSSL's", () => {
  for (let size = 0; size < 420; size++) {
    const data = randomBytes(size);
    assert.equal(Buffer.from(sha256(data)).toString("hex"), createHash("sha256").update(data).digest("hex"), `${size}`);
    const length = 1 + ((size * 7) % 400);
    const wanted = createHash("shake256", { outputLength: length }).update(data).digest("hex");
    assert.equal(Buffer.from(shake256(data, length)).toString("hex"), wanted, `${size} ${length}`);
  }
});

test("words of 64 bits agree with BigInt", () => {
  const edges = [0, 1, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff];
  const drawn = Array.from({ length: 24 }, () => randomBytes(4).readUInt32LE());
  const halves = [...edges, ...drawn];
  const whole = ({ high, low }) => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  const after = (act, high, low) => {
    const made = word(high, low);
    act(made);
    return whole(made);
  };
  const mask = (1n << 64n) - 1n;
  for (const a of halves) {
    for (const b of halves) {
      const big = (BigInt(a) << 32n) | BigInt(b);
      assert.equal(BigInt(highProduct(a, b) >>> 0), (BigInt(a) * BigInt(b)) >> 32n);
      for (const c of edges) {
        assert.equal(after((w) => multiply(w, c, b), a, b), (big * ((BigInt(c) << 32n) | BigInt(b))) & mask);
        assert.equal(after((w) => add(w, b, c), a, b), (big + ((BigInt(c) << 32n) | BigInt(b))) & mask);
      }
      for (const by of [1, 27, 31, 33, 63]) {
        assert.equal(after((w) => rotate(w, by), a, b), ((big << BigInt(by)) | (big >> BigInt(64 - by))) & mask);
        assert.equal(after((w) => xorShift(w, by), a, b), big ^ (big >> BigInt(by)));
      }
    }
  }
});

test("bytes that are drawn ahead are given once, whatever is asked for", () => {
  const real = globalThis.crypto.getRandomValues;
  let number = 0;
  globalThis.crypto.getRandomValues = (bytes) => { // numbered, so that each can be known again
    for (let i = 0; i < bytes.length; i += 4) new DataView(bytes.buffer, bytes.byteOffset).setUint32(i, number++);
    return bytes;
  };
  try {
    const random = systemRandomness();
    const given = Buffer.concat([4, 32, 1024, 8, 5000, 0, 1020, 4096].map((size) => Buffer.from(random(size))));
    const numbers = Array.from({ length: given.length / 4 }, (_, i) => given.readUInt32BE(4 * i));
    assert.deepEqual(numbers, numbers.map((_, i) => i));
  } finally {
    globalThis.crypto.getRandomValues = real;
  }
});
