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

export const toBase64 = (bytes: Uint8Array): string => {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
};

export const fromBase64 = (text: string): Uint8Array =>
  Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** A property of the object's own: names come from files, and may be such as `constructor`. */
export const own = <T>(record: Record<string, T>, name: string): T | undefined =>
  Object.hasOwn(record, name) ? record[name] : undefined;
