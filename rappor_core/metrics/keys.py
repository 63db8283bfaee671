"""Keys of `metrics.toml`: what a declaration may say, each declared once.

Every kind lists its keys (`Kind.keys`). The parser, `rappor metrics check`, the planner and the
reference page (docs/metrics-keys.md) read them from there.
"""

from __future__ import annotations

from rappor_core.frozen import Frozen

TEXT, WHOLE, NUMBER, FLAG, DATE = "text", "whole number", "number", "true or false", "date"
TEXTS, WHOLES, NUMBERS = "list of text", "list of whole numbers", "list of numbers"
ALWAYS = "always"

DEFAULT_MIN_REPORTS = 1_000
DEFAULT_MIN_REPORTS_PER_COHORT = 100  # or min_reports, if that is less
DEFAULT_ACCEPT_DAYS = 7


class Key(Frozen):
    """A key of a `[metrics.NAME]` table.

    type: of its value, as text.  default: used where the key is missing; None if there is none.
    meaning: one sentence or two for the reference page.  needed_when: `ALWAYS`, or the condition
    as text; "" if the key is optional.
    """

    name: str
    type: str
    default: object
    meaning: str
    needed_when: str = ""


COMMON_KEYS = (
    Key("kind", TEXT, None, "What the metric asks; one of the kinds below.", ALWAYS),
    Key("description", TEXT, None, "What is collected, for the person and the reviewer.", ALWAYS),
    Key("owner", TEXT, None, "Who answers for it.", ALWAYS),
    Key("expires", DATE, None, "The last day on which it is collected, without quotes.", ALWAYS),
    Key(
        "period",
        TEXT,
        "day",
        "`day`, `week` (from Monday) or `month`, by UTC (of a location, by local date).",
    ),
    Key(
        "max_reports",
        WHOLE,
        None,
        "Reports for life; without it no bound.",
        "no permanent response (`prob_f = 0`, mode `window`), or `web` in `platforms`",
    ),
    Key(
        "min_reports",
        WHOLE,
        DEFAULT_MIN_REPORTS,
        "A day with fewer is merged with the next ones before it is served.",
    ),
    Key(
        "min_reports_per_cohort",
        WHOLE,
        None,
        f"So is a day with fewer in a cohort that is not empty; {DEFAULT_MIN_REPORTS_PER_COHORT}, "
        "or `min_reports` if that is less, where it is not given. "
        "See [threats](threats.md#what-an-answer-can-show-of-one-report).",
    ),
    Key(
        "accept_days",
        WHOLE,
        DEFAULT_ACCEPT_DAYS,
        "For how many days after it a day accepts reports, 0 to 90; 42 for a `flow`, or a "
        "`location` in mode `window` or `once`, by week or month "
        "([how to choose](location.md#apps-that-are-seldom-opened)).",
    ),
    Key(
        "keep_raw_days",
        WHOLE,
        0,
        "Days for which the collector keeps single reports; 0 keeps none.",
    ),
    Key(
        "platforms",
        TEXTS,
        ["app"],
        "Where it may run: `app` (the storage lasts as long as the app is installed), `web` (a "
        "browser, which may delete it).",
    ),
    Key(
        "lives",
        WHOLE,
        None,
        "Lives of a browser's storage, 1 to 10,000, by which the lifetime epsilon is multiplied.",
        "`web` in `platforms`",
    ),
)

MAX_MEMOIZED_VALUES = Key(
    "max_memoized_values",
    WHOLE,
    None,
    "Distinct values for life that are sent as themselves, `fallback` and `no_data` among them. It "
    "bounds the cost of the metric: so many times `epsilon_infinity`.",
    ALWAYS,
)
FALLBACK = Key(
    "fallback",
    TEXT,
    None,
    "What is sent above the cap; of a `category` or a `pair` one of its values.",
    "more values than `max_memoized_values`",
)
NO_DATA_KEY = Key(
    "no_data",
    TEXT,
    None,
    "What a device sends for a period in which nothing was recorded, so that silence is no "
    "information; it has a place in the cap. Without it nothing is sent.",
)
MAX_REPORTS_PER_PERIOD = Key("max_reports_per_period", WHOLE, 1, "Reports in each period.")
VALUE_KEYS = (MAX_MEMOIZED_VALUES, FALLBACK, MAX_REPORTS_PER_PERIOD)

_WITHOUT_EPSILONS = "no `epsilon_infinity`"
EPSILON_KEYS = (
    Key(
        "epsilon_infinity",
        NUMBER,
        None,
        "Nats; bound of all reports of one value. In place of the three probabilities.",
        "no probabilities",
    ),
    Key("epsilon_one", NUMBER, None, "Nats; bound of one report.", "`epsilon_infinity` is given"),
)
NOISE_KEYS = (
    Key(
        "prob_f",
        NUMBER,
        None,
        "Noise of the permanent response: each bit is drawn at random with this probability, once "
        "for life. 0 for none.",
        _WITHOUT_EPSILONS,
    ),
    Key(
        "prob_p",
        NUMBER,
        None,
        "Probability that a bit of a report is 1 where the permanent bit is 0.",
        _WITHOUT_EPSILONS,
    ),
    Key("prob_q", NUMBER, None, "The same where the permanent bit is 1.", _WITHOUT_EPSILONS),
    *EPSILON_KEYS,
    Key(
        "mechanism",
        TEXT,
        "rappor",
        "For epsilons: `rappor` and `l-sue` (symmetric), `l-osue` (fewer false ones), `loloha` "
        "(of symbols the only one).",
    ),
)
NUM_BITS = Key("num_bits", WHOLE, None, "Bits of a report, up to 65,536.", ALWAYS)
NUM_HASHES = Key(
    "num_hashes", WHOLE, None, "Bits that a value sets; the epsilons grow with it.", ALWAYS
)
NUM_COHORTS = Key(
    "num_cohorts",
    WHOLE,
    None,
    "Groups with hash functions of their own; public. Keep 1,000 devices or more in each.",
    ALWAYS,
)
HASH = Key("hash", TEXT, "mmh3", "`mmh3`, or `md5` for the files of google/rappor.")
EPSILON = Key("epsilon", NUMBER, None, "Nats of one report.", ALWAYS)
