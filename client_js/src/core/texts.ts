/**
 * What each code means, for people. The production build has an empty table in its place
 * (texts.production.ts): its messages are the code and what the text's places stand for.
 * {0} and {1} are those places; no value of a person ever is.
 */
export const TEXTS: Readonly<Record<string, string>> = {
  // mistakes of the app, when it opens the client
  consent_unsaid: "consent: say true or false, as the person did",
  privacy_level: "privacyLevel is none",
  delivery_range: "delivery.{0} is not in its range: {1}",
  collector_address: "`collector` is not an address such as https://host:port/prefix",
  key_characters: "the key holds characters that a header cannot carry, or none",
  key_over_http: "over plain http anybody on the way can read the key; use https",
  no_randomness: "no secure generator here: pass `randomness`, from the platform's own",
  bad_randomness: "`randomness` does not give random bytes",
  state_dir: "stateDir: name a directory of the client's own, which is kept as long as the app is installed",
  secret: "a secret has {0} bytes, not {1}: make it with newSecret(), once for a device",
  day: "{0} is no day such as 2026-11-21",
  budget: "budget needs consent, and a number above 0, up to {0}",
  nothing_to_reset: "the state can be used: nothing to reset",
  metrics_file: "{0}",
  not_json: "compiled metrics: not JSON",
  not_sealed: "compiled metrics: `digest` is missing or not theirs; compile them again",
  metric_kind: "{0}: is of a kind whose part is not there: pass `numbers()`, `pairs()`, `discover()` or `flows()` to `open`, in `kinds`",
  associations_missing: "the file has associations: pass `associations()` to `open`",
  code_missing: "{0}: its code table is not there, or of another version: pass the one of `/domains` to `discover`",
  places_missing: "{0}: is of kind 'location': pass the part for places to `open`",
  h3_missing: "{0}: has the grid h3: pass the library h3-js to `places`",
  // mistakes in a call: `lastRefusal`, and what is thrown in development
  metric_unknown: "metric '{0}' is not declared; declared are {1}",
  places_unknown: "no metric of kind 'location' is declared as '{0}'",
  value_type: "metric '{0}' takes a {1}",
  value_long: "metric '{0}' takes {1} characters at most",
  value_category: "metric '{0}': the value is not one of its categories",
  value_pair: "metric '{0}': the value of '{1}' is not one of its list",
  value_negative: "metric '{0}' takes no number below 0",
  value_fraction: "metric '{0}' takes whole numbers alone",
  no_sum: "metric '{0}' has no sum: use record",
  value_surrogate: "the string holds a lone surrogate; clean it first",
  wrong_points: "metric '{0}' takes {1}, nothing else",
  no_point: "a point {0}",
  no_time: "a time is not two numbers",
  wrong_call: "the call is wrong: {0}",
  // why nothing was recorded
  active: "values are recorded and reports are sent",
  no_consent: "nothing is recorded: the person does not consent",
  unwiped: "nothing is recorded: consent is withdrawn, but the state could not be wiped yet: {0}",
  do_not_track: "nothing is recorded: the platform says that the person wants no tracking",
  not_delivered: "values are recorded and wait: not delivered since {0}, because {1}",
  key_refused: "the collector refuses the key; reports wait",
  closed: "the client is closed",
  trouble: "nothing is recorded: {0}",
  full: "{0}: has all the reports that its period or its life may have",
  expired: "{0}: has expired",
  elsewhere: "{0}: is not declared for the platform that this is (see `platforms`)",
  late: "{0}: the time of the fix lies in a period that is over",
  ahead: "{0}: the time of the fix lies more than a day ahead of this device's clock",
  nothing_left: "{0}: is closed: what the ledger allows on this device is used up, for good",
  damaged: "{0}: is closed: what the ledger knew of it is damaged",
  weaker: "{0}: is closed: it first promised less than it does now ({1})",
  // trouble with the state
  state_damaged: "the stored state is not whole",
  secret_gone: "another tab withdrew consent, or the browser deleted the state",
  storage_refused: "the state cannot be used: {0}",
  storage_busy: "another process uses the state",
  journal_old:
    "the journal is missing, or older than the guard beside it, or of another installation: what was told " +
    "may have been forgotten; restore the newest, or call reset, which spends the budget again",
};
