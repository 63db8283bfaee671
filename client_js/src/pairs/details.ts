/** The two lists of a pair. */

export const SEPARATOR = " | ";

/** What a metric of kind `pair` asks for, as its definition says it. */
export interface PairDetails {
  readonly of: readonly [string, string];
  readonly values: readonly [readonly (string | boolean)[], readonly (string | boolean)[]];
}

/** Every pair as text, the second side running fastest. */
export const textsOf = ({ values: [first, second] }: PairDetails): string[] =>
  first.flatMap((one) => second.map((other) => `${one}${SEPARATOR}${other}`));
