/** Bytes and their texts. */

const TEXT = typeof TextEncoder === "undefined" ? undefined : new TextEncoder(); // older Hermes, jsdom under Jest
const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export const utf8 = (text: string): Uint8Array =>
  TEXT?.encode(text) ?? Uint8Array.from(unescape(encodeURIComponent(text)), (byte) => byte.charCodeAt(0));

export const toHex = (bytes: Uint8Array): string => {
  let text = "";
  for (const byte of bytes) text += DIGITS[byte];
  return text;
};

/** The inverse of `toHex`; the text must be an even number of hexadecimal digits. */
export const fromHex = (text: string): Uint8Array => {
  const bytes = new Uint8Array(text.length >> 1);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
};

export const concat = (parts: readonly Uint8Array[]): Uint8Array => {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
};

/** `size` bytes of a number, the most significant first. */
export const bigEndian = (value: number, size: number): Uint8Array => {
  const bytes = new Uint8Array(size);
  for (let i = size - 1; i >= 0; i--) {
    bytes[i] = value % 256;
    value = Math.floor(value / 256);
  }
  return bytes;
};

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Hermes had no `btoa` before React Native 0.74. */
export const toBase64 = (bytes: Uint8Array): string => {
  let text = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const word = (bytes[i]! << 16) | (bytes[i + 1]! << 8) | bytes[i + 2]!; // past the end: 0
    for (const by of [18, 12, 6, 0]) text += LETTERS[(word >> by) & 63];
  }
  const more = (bytes.length * 2) % 3; // letters of bytes that there are not
  return text.slice(0, text.length - more) + "==".slice(0, more);
};

/** Throws RangeError for what is not base64. */
export const fromBase64 = (text: string): Uint8Array => {
  const letters = text.replace(/={1,2}$/, "");
  const bytes = new Uint8Array((letters.length * 3) >> 2);
  let word = 0;
  for (let i = 0; i < letters.length; i++) {
    const value = LETTERS.indexOf(letters[i]!);
    if (value < 0 || letters.length % 4 === 1) throw new RangeError("base64");
    word = (word << 6) | value;
    if (i % 4) bytes[(i * 3 - 1) >> 2] = (word >> (6 - 2 * (i % 4))) & 255;
  }
  return bytes;
};

/** A property of the object's own: names come from files, and may be such as `constructor`. */
export const own = <T>(record: Record<string, T>, name: string): T | undefined =>
  Object.hasOwn(record, name) ? record[name] : undefined;
