/** The first bits of a string's code, by a public table (docs/protocol.md, "Coded prefixes"). */

/** What a metric of kind `discover` asks for, as its definition says it. */
export interface DiscoverDetails {
  readonly code: string;
  readonly code_sha256: string;
  readonly code_table: string | null;
  readonly num_levels: number;
  readonly bits_per_level: number;
}

/** A code table. symbols and the keys of contexts: bytes in hexadecimal. */
export interface CodeTable {
  readonly version: 1;
  readonly name: string;
  readonly order: number;
  readonly lower_case: boolean;
  readonly symbols: string;
  readonly contexts: Readonly<Record<string, string>>;
}

/** Lengths of code words as digits of base 36: the words, canonical, as text of 0 and 1. */
export const wordsOf = (lengths: string): string[] => {
  const sizes = [...lengths].map((digit) => parseInt(digit, 36));
  const words: string[] = [];
  let [value, before] = [0, 0]; // below 2^35: a double holds it
  for (const place of sizes.map((_, i) => i).sort((a, b) => sizes[a]! - sizes[b]! || a - b)) {
    value *= 2 ** (sizes[place]! - before);
    before = sizes[place]!;
    words[place] = (value++).toString(2).padStart(before, "0");
  }
  return words;
};

/** From bytes to the first bits of their code, filled with zeros to whole bytes on the right. */
export type Coder = (data: Uint8Array, numBits: number) => Uint8Array;

const HEX = (byte: number): string => byte.toString(16).padStart(2, "0");

/** The code of a table, which was checked. text: its JSON. */
export const coderOf = (text: string): Coder => {
  const { order, lower_case: folded, symbols, contexts } = JSON.parse(text) as CodeTable;
  const places = new Map((symbols.match(/../g) ?? []).map((symbol, place) => [symbol, place]));
  const known = new Map<string, string[]>();
  const wordsAfter = (history: string): string[] => {
    let context = history;
    while (!Object.hasOwn(contexts, context)) context = context.slice(2);
    let words = known.get(context);
    if (!words) known.set(context, (words = wordsOf(contexts[context]!)));
    return words;
  };
  return (data, numBits) => {
    let [bits, history] = ["", "00".repeat(order)];
    for (let at = 0; at <= data.length && bits.length < numBits; at++) {
      const words = wordsAfter(history);
      if (at === data.length) {
        bits += words.at(-2)!; // END
        break;
      }
      const byte = data[at]!;
      const symbol = HEX(folded && byte >= 65 && byte <= 90 ? byte + 32 : byte);
      const place = places.get(symbol);
      bits += place === undefined ? words.at(-1)! + parseInt(symbol, 16).toString(2).padStart(8, "0") : words[place]!;
      history = (history + symbol).slice(2);
      if (!order) history = "";
    }
    bits = bits.slice(0, numBits).padEnd((numBits + 7) & ~7, "0");
    return Uint8Array.from(bits.match(/.{8}/g)!, (eight) => parseInt(eight, 2));
  };
};
