/** JSON, refusing what parsers disagree on: duplicate keys, fractions for integers, surrogates. */

import { WireFormatError } from "./errors.js";

/** Parse. A number with a fraction or an exponent becomes NaN, which no field of the wire takes. */
export const parseStrictJson = (text: string): unknown => {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new WireFormatError("not JSON");
  }
  const scan = new Scanner(text);
  scan.value();
  return scan.fractions ? JSON.parse(text, (_, item: unknown) => (typeof item === "number" ? NaN : item)) : value;
};

/** Walks over text that is JSON, looking for what JSON.parse hides. */
class Scanner {
  fractions = false;
  private at = 0;

  constructor(private readonly text: string) {}

  value(): void {
    this.space();
    const mark = this.text[this.at];
    if (mark === "{" || mark === "[") this.items(mark === "{");
    else if (mark === '"') this.string();
    else {
      const start = this.at;
      while (this.at < this.text.length && !/[\s,\]}]/.test(this.text[this.at]!)) this.at++;
      if (/^-?\d+[.eE]/.test(this.text.slice(start, this.at))) this.fractions = true;
    }
    this.space();
  }

  private items(named: boolean): void {
    const names = new Set<string>();
    this.at++;
    this.space();
    while (this.text[this.at] !== "}" && this.text[this.at] !== "]") {
      if (named) {
        this.space();
        const name = this.string();
        if (names.has(name)) throw new WireFormatError("a key stands twice");
        names.add(name);
        this.space();
        this.at++; // the colon
      }
      this.value();
      if (this.text[this.at] === ",") this.at++;
    }
    this.at++;
  }

  private string(): string {
    const start = this.at++;
    while (this.text[this.at] !== '"') this.at += this.text[this.at] === "\\" ? 2 : 1;
    const value = JSON.parse(this.text.slice(start, ++this.at)) as string;
    if (/\p{Surrogate}/u.test(value)) throw new WireFormatError("a lone surrogate");
    return value;
  }

  private space(): void {
    while (/\s/.test(this.text[this.at] ?? "x")) this.at++;
  }
}
