/** Mistakes of the app and of its files, by code. No message ever holds a value. */

import { TEXTS } from "./texts.js";

/** The text of a code with its places filled; without a text, the code and those values. */
export const say = (code: string, ...details: readonly (string | number)[]): string =>
  Object.hasOwn(TEXTS, code)
    ? TEXTS[code]!.replace(/\{(\d)\}/g, (_, at: string) => String(details[Number(at)]))
    : [code, ...details].join(" ");

/** An error with a code that stays the same, whatever the words. */
class CodedError extends Error {
  constructor(
    readonly code: string,
    ...details: readonly (string | number)[]
  ) {
    super(say(code, ...details));
  }
}

/** A compiled metrics file that is not one, or breaks a rule. */
export class MetricsFileError extends CodedError {
  override name = "MetricsFileError";
}

/** A value that the metric cannot encode. */
export class ValueRefusedError extends CodedError {
  override name = "ValueRefusedError";
}

/** A metric that is not declared. */
export class UnknownMetricError extends CodedError {
  override name = "UnknownMetricError";
}

/** An argument outside its range. */
export class ParameterError extends CodedError {
  override name = "ParameterError";
}

/** The status that a client has whose state cannot be used. */
export type StateCondition = "no_consent" | "state_corrupt" | "state_in_use" | "state_missing" | "state_unavailable";

/** State that cannot be read or written. */
export class StateError extends CodedError {
  override name = "StateError";
  constructor(
    readonly condition: StateCondition,
    code: string,
    ...details: readonly (string | number)[]
  ) {
    super(code, ...details);
  }
}

/** Bytes that are not a batch. */
export class WireFormatError extends Error {
  override name = "WireFormatError";
}
