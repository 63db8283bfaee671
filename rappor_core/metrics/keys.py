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
    Key("kind", TEXT, None, "One of the kinds below.", ALWAYS),
    Key("description", TEXT, None, "What you collect, for users and reviewers.", ALWAYS),
    Key("owner", TEXT, None, "The responsible team or person.", ALWAYS),
    Key("expires", DATE, None, "The last day of collection, without quotes.", ALWAYS),
    Key("period", TEXT, "day", "`day`, `week` (from Monday) or `month`."),
    Key("max_reports", WHOLE, None, "Reports in a lifetime.", "all noise is fresh or on `web`"),
    Key("min_reports", WHOLE, DEFAULT_MIN_REPORTS, "Smaller days are merged with the next."),
    Key("min_reports_per_cohort", WHOLE, None, "The same, for each nonempty cohort."),
    Key("accept_days", WHOLE, DEFAULT_ACCEPT_DAYS, "Days until a day closes, up to 90."),
    Key("keep_raw_days", WHOLE, 0, "Days to keep raw reports; 0 keeps none."),
    Key("platforms", TEXTS, ["app"], "Where the metric may run: `app`, `web` (browsers)."),
    Key("lives", WHOLE, None, "Lifetimes of a browser's storage, 1 to 10,000.", "on `web`"),
)

MAX_MEMOIZED_VALUES = Key(
    "max_memoized_values",
    WHOLE,
    None,
    "Cap on the values that a device ever reports, including `fallback` and `no_data`.",
    ALWAYS,
)
FALLBACK = Key("fallback", TEXT, None, "The value sent above the cap.", "values exceed the cap")
NO_DATA_KEY = Key("no_data", TEXT, None, "The value sent for a period without data.")
MAX_REPORTS_PER_PERIOD = Key("max_reports_per_period", WHOLE, 1, "Reports per device and period.")
VALUE_KEYS = (MAX_MEMOIZED_VALUES, FALLBACK, MAX_REPORTS_PER_PERIOD)

EPSILON = Key("epsilon", NUMBER, None, "Epsilon of one report.", ALWAYS)
EPSILON_KEYS = (
    Key("epsilon_infinity", NUMBER, None, "Epsilon of all reports of a value.", "no `prob_f`"),
    Key("epsilon_one", NUMBER, None, "Epsilon of one report.", "`epsilon_infinity` is given"),
)
NOISE_KEYS = (
    Key("prob_f", NUMBER, None, "Noise of the permanent response; 0: none.", "no epsilon is given"),
    Key("prob_p", NUMBER, None, "P(bit is 1) if the permanent bit is 0.", "no epsilon is given"),
    Key("prob_q", NUMBER, None, "P(bit is 1) if the permanent bit is 1.", "no epsilon is given"),
    *EPSILON_KEYS,
    Key("mechanism", TEXT, "rappor", "With epsilons: `rappor`, `l-sue`, `l-osue`, `loloha`."),
)
NUM_BITS = Key("num_bits", WHOLE, None, "Bits per report, up to 65,536.", ALWAYS)
NUM_HASHES = Key("num_hashes", WHOLE, None, "Bits that each value sets.", ALWAYS)
NUM_COHORTS = Key("num_cohorts", WHOLE, None, "Public groups of devices.", ALWAYS)
HASH = Key("hash", TEXT, "mmh3", "`mmh3`, or `md5` as in google/rappor.")
