/** One device and one metric: its cohort, both rounds, and the digests of the ledger. */

import { fromHex, toBase64, toHex, utf8 } from "./bytes.js";
import { coinPair, symbolCoin, type Coin } from "./coins.js";
import { cohortOf, deriveFrom, keyedInput } from "./derive.js";
import type { Metric } from "./metrics.js";
import { hasSymbols } from "./privacy.js";
import type { QueuedReport } from "./state.js";
import { valueBits } from "./values.js";

/** As many uniform bytes as asked for, from a secure generator. */
export type Randomness = (numBytes: number) => Uint8Array;

const REMEMBERED = 256;

/** What one device does with values of one metric. All but the cohort and reports is private. */
export class MetricEncoder {
  readonly cohort: number;
  private readonly permanentInput: Uint8Array;
  private readonly ledgerInput: Uint8Array;
  private readonly first: Coin;
  private readonly second: Coin;
  private readonly encode: (value: unknown) => Uint8Array;
  private readonly known = new Map<unknown, Uint8Array>();
  private readonly derived = new WeakMap<Uint8Array, { permanent?: Uint8Array; digest?: string }>();

  constructor(
    readonly metric: Metric,
    secret: Uint8Array,
    private readonly randomness: Randomness,
  ) {
    const { params } = metric.definition;
    const coin = (one: number, zero: number): Coin =>
      hasSymbols(params) ? symbolCoin(one, zero) : coinPair(one, zero, params.num_bits);
    this.cohort = cohortOf(secret, metric.line, params.num_cohorts);
    this.encode = metric.part?.encoder(metric, this.cohort, secret) ?? ((value) => valueBits(metric, value, this.cohort));
    const fields = [utf8(metric.line), fromHex(metric.paramsId)];
    this.permanentInput = keyedInput(secret, "permanent", fields);
    this.ledgerInput = keyedInput(secret, "ledger", fields);
    this.first = coin(params.p1, params.q1);
    this.second = coin(params.p2, params.q2);
  }

  /** B of a value. Throws ValueRefusedError. */
  valueBits(value: unknown): Uint8Array {
    return typeof value === "object" || (value as string)?.length > REMEMBERED
      ? this.encode(value)
      : remembered(this.known, value, () => this.encode(value));
  }

  /** B' of B: the same for life. */
  permanentBits(bits: Uint8Array): Uint8Array {
    const known = this.derivedOf(bits);
    if (known.permanent) return known.permanent;
    const size = this.first.numBytes;
    const random = size ? deriveFrom(this.permanentInput, bits, size) : new Uint8Array();
    return (known.permanent = this.first.toss(bits, random));
  }

  /** S of B: both rounds, the second one fresh at each call. */
  reportBits(bits: Uint8Array): Uint8Array {
    return this.second.toss(this.permanentBits(bits), this.randomness(this.second.numBytes));
  }

  /** A fresh report of B for a day. */
  report(bits: Uint8Array, day: number): QueuedReport {
    const { name: metric, paramsId: params_id } = this.metric;
    return { metric, params_id, cohort: this.cohort, day, bits: toBase64(this.reportBits(bits)) };
  }

  /** What represents a memoized response in the ledger: 32 hexadecimal digits. */
  digest(bits: Uint8Array): string {
    return (this.derivedOf(bits).digest ??= toHex(deriveFrom(this.ledgerInput, this.metric.part?.places ? bits.map(() => 0) : bits, 16)));
  }

  /** What is known of these very bytes: those of a remembered value are the same ones again. */
  private derivedOf(bits: Uint8Array): { permanent?: Uint8Array; digest?: string } {
    let known = this.derived.get(bits);
    if (!known) this.derived.set(bits, (known = {}));
    return known;
  }

  /** What must be memoized before any value: fallback and no data, or all values. */
  reservedBits(): Uint8Array[] {
    const { definition, part } = this.metric;
    const { fallback, no_data: noData, kind, categories } = definition;
    const all = part?.values(definition) ?? (kind === "boolean" ? [false, true] : categories);
    const values = fallback === null ? all : noData === undefined ? [fallback] : [fallback, noData];
    return [...values].map((value) => this.valueBits(value));
  }
}

/** Keep a derivation for speed; forget all of them where there are too many. */
const remembered = <K, V>(known: Map<K, V>, key: K, make: () => V): V => {
  const found = known.get(key);
  if (found !== undefined) return found;
  const made = make();
  if (known.size >= REMEMBERED) known.clear();
  known.set(key, made);
  return made;
};
