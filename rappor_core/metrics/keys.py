"""The keys of `metrics.toml`, each declared once.

Each kind lists its keys (`Kind.keys`). The parser, `rappor metrics check`, the planner and the
reference page (docs/metrics-keys.md) read them from there.
"""

from rappor_core.frozen import Frozen

TEXT, WHOLE, NUMBER, FLAG, DATE = "text", "whole number", "number", "true or false", "date"
TEXTS, WHOLES, NUMBERS = "list of text", "list of whole numbers", "list of numbers"
ALWAYS = "always"

DEFAULT_MIN_REPORTS = 1_000
DEFAULT_MIN_REPORTS_PER_COHORT = 100  # or `min_reports`, if it is smaller
DEFAULT_ACCEPT_DAYS = 7


class Key(Frozen):
    """A key of a `[metrics.NAME]` table."""

    name: str
    type: str  # the type of the value, as text
    default: object  # the value if the key is missing; None if there is no default
    meaning: str  # a sentence for the reference page; docs/metrics.md has the details
    needed_when: str = ""  # `ALWAYS`, the condition as text, or "" if the key is optional


COMMON_KEYS = (
    Key("kind", TEXT, None, "What the metric asks; one of the kinds below.", ALWAYS),
    Key("description", TEXT, None, "What is collected, for the person and the reviewer.", ALWAYS),
    Key("owner", TEXT, None, "Who answers for it.", ALWAYS),
    Key("expires", DATE, None, "The last day on which it is collected, without quotes.", ALWAYS),
    Key("period", TEXT, "day", "`day`, `week` (from Monday) or `month`."),
    Key("max_reports", WHOLE, None, "Reports for life.", "no permanent response, or `web`"),
    Key("min_reports", WHOLE, DEFAULT_MIN_REPORTS, "A day with fewer is merged with the next."),
    Key("min_reports_per_cohort", WHOLE, None, "The same of each cohort that is not empty."),
    Key("accept_days", WHOLE, DEFAULT_ACCEPT_DAYS, "Days for which a day accepts reports, to 90."),
    Key("keep_raw_days", WHOLE, 0, "Days for which single reports are kept; 0 keeps none."),
    Key("platforms", TEXTS, ["app"], "Where it may run: `app`, `web` (a browser)."),
    Key("lives", WHOLE, None, "Lives of a browser's storage, 1 to 10,000.", "`web` in `platforms`"),
)

MAX_MEMOIZED_VALUES = Key(
    "max_memoized_values",
    WHOLE,
    None,
    "Distinct values for life that are sent as themselves, `fallback` and `no_data` among them.",
    ALWAYS,
)
FALLBACK = Key("fallback", TEXT, None, "What is sent above the cap.", "more values than the cap")
NO_DATA_KEY = Key("no_data", TEXT, None, "What is sent for a period without a value.")
MAX_REPORTS_PER_PERIOD = Key("max_reports_per_period", WHOLE, 1, "Reports in each period.")
VALUE_KEYS = (MAX_MEMOIZED_VALUES, FALLBACK, MAX_REPORTS_PER_PERIOD)

EPSILON = Key("epsilon", NUMBER, None, "Nats of one report.", ALWAYS)
EPSILON_KEYS = (
    Key("epsilon_infinity", NUMBER, None, "Nats of all reports of one value.", "no probabilities"),
    Key("epsilon_one", NUMBER, None, "Nats of one report.", "`epsilon_infinity` is given"),
)
NOISE_KEYS = (
    Key("prob_f", NUMBER, None, "Noise of the permanent response, 0 for none.", "no epsilons"),
    Key("prob_p", NUMBER, None, "P(bit is 1) for a permanent 0.", "no epsilons"),
    Key("prob_q", NUMBER, None, "P(bit is 1) for a permanent 1.", "no epsilons"),
    *EPSILON_KEYS,
    Key("mechanism", TEXT, "rappor", "For epsilons: `rappor`, `l-sue`, `l-osue`, `loloha`."),
)
NUM_BITS = Key("num_bits", WHOLE, None, "Bits of a report, up to 65,536.", ALWAYS)
NUM_HASHES = Key("num_hashes", WHOLE, None, "Bits that a value sets.", ALWAYS)
NUM_COHORTS = Key("num_cohorts", WHOLE, None, "Public groups of devices.", ALWAYS)
HASH = Key("hash", TEXT, "mmh3", "`mmh3`, or `md5` for the files of google/rappor.")
