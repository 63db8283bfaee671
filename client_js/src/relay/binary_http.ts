/** Binary HTTP messages of known length (RFC 9292): requests are written, responses read. */

import { bigEndian, concat, utf8 } from "../core/bytes.js";

export const SIZE_STEP = 1024; // messages are padded to a multiple of so many bytes

const integer = (value: number): Uint8Array => {
  const code = value < 64 ? 0 : value < 16_384 ? 1 : 2; // a body has less than 2^30 bytes
  const bytes = bigEndian(value, 1 << code);
  bytes[0]! |= code << 6;
  return bytes;
};

const part = (bytes: Uint8Array): Uint8Array => concat([integer(bytes.length), bytes]);

/** A request, with zeros behind it. control: method, scheme, authority, path. */
export const encodeRequest = (control: readonly string[], fields: Readonly<Record<string, string>>, content: Uint8Array): Uint8Array => {
  const lines = Object.entries(fields).flatMap(([name, value]) => [part(utf8(name)), part(utf8(value))]);
  const message = concat([Uint8Array.of(0), ...control.map((text) => part(utf8(text))), part(concat(lines)), part(content), Uint8Array.of(0)]);
  return concat([message, new Uint8Array((SIZE_STEP - (message.length % SIZE_STEP)) % SIZE_STEP)]);
};

/** A final response. fields: by their names in lower case. */
export interface Answer {
  readonly status: number;
  readonly fields: ReadonlyMap<string, string>;
  readonly content: Uint8Array;
}

/** Reads from the first byte on; a part that is not there any more is empty (RFC 9292, section 3.8). */
class Reader {
  private at = 0;

  constructor(private readonly data: Uint8Array) {}

  get isOver(): boolean {
    return this.at === this.data.length;
  }

  integer(): number {
    const size = 1 << ((this.data[this.at] ?? 0) >> 6);
    return this.take(size).reduce((sum, byte, i) => sum * 256 + (i ? byte : byte & 63), 0);
  }

  part(): Uint8Array {
    return this.isOver ? new Uint8Array(0) : this.take(this.integer());
  }

  private take(size: number): Uint8Array {
    const taken = this.data.subarray(this.at, this.at + size);
    if (taken.length < size) throw new Error("a binary message that ends early");
    this.at += size;
    return taken;
  }
}

/** The inverse of what a collector writes. Throws for an invalid one. */
export const decodeResponse = (data: Uint8Array): Answer => {
  const reader = new Reader(data);
  if (reader.integer() !== 1) throw new Error("no binary response of known length");
  let status = reader.integer();
  for (; status >= 100 && status < 200; status = reader.integer()) reader.part();
  const [section, decoder, fields] = [new Reader(reader.part()), new TextDecoder(), new Map<string, string>()];
  while (!section.isOver) fields.set(decoder.decode(section.part()), decoder.decode(section.part()));
  return { status, fields, content: reader.part() };
};
