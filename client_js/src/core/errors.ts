/** Mistakes of the app and of its files. No message ever holds a value. */

/** A compiled metrics file that is not one, or breaks a rule. */
export class MetricsFileError extends Error {
  override name = "MetricsFileError";
}

/** A value that the metric cannot encode. */
export class ValueRefusedError extends Error {
  override name = "ValueRefusedError";
}

/** A metric that is not declared. */
export class UnknownMetricError extends Error {
  override name = "UnknownMetricError";
}

/** An argument outside its range. */
export class ParameterError extends Error {
  override name = "ParameterError";
}

/** State that cannot be read or written. `condition` is the status that the client then has. */
export class StateError extends Error {
  override name = "StateError";
  constructor(
    message: string,
    readonly condition: "no_consent" | "state_corrupt" | "state_in_use" | "state_rolled_back" | "state_unavailable",
  ) {
    super(message);
  }
}

/** Bytes that are not a batch. */
export class WireFormatError extends Error {
  override name = "WireFormatError";
}
