"""Faults planted in the client, one at a time: `rappor audit` must find each of them."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from tests.metric_texts import declaration

WEB = {"owner": "web@example.org", "expires": "2027-06-30"}
METRICS = declaration(
    "homepage", "string", **WEB, num_bits=128, num_hashes=2, num_cohorts=16, prob_f=0.5,
    prob_p=0.5, prob_q=0.75, max_memoized_values=4, fallback="other", no_data="none",
)  # fmt: skip
PLACES = declaration(
    "place", "location", **WEB, grid="square", box=[0, 0, 10, 10], rows=10, columns=10, levels=[0],
    slots=["night 22-6", "day 6-22"], mode="memo", num_bits=16, num_cohorts=4, mechanism="l-osue",
    epsilon_infinity=2.0, epsilon_one=1.0, max_memoized_values=3,
)  # fmt: skip
MOVED = declaration(
    "minutes", "number", **WEB, unit="min", of_period="sum", period="day", ask="mean", none="zero",
    edges={"scale": "linear", "from": 0, "to": 240, "bins": 4}, mode="memo", num_cohorts=10,
    epsilon_infinity=2.0, epsilon_one=1.8,
)  # fmt: skip
PAIRS = declaration(
    "engine_theme", "pair", **WEB, of=["engine", "theme"], max_memoized_values=3,
    values={"engine": ["a", "b"], "theme": ["light", "dark", "system"]}, fallback="b | system",
    epsilon_infinity=2.0, epsilon_one=1.0,
)  # fmt: skip
STRINGS = declaration(
    "extension", "discover", **WEB, num_bits=64, num_cohorts=20, max_memoized_values=2,
    max_reports=1, fallback="other", epsilon_infinity=2.0,
)  # fmt: skip
TWO_STRINGS = METRICS + declaration(
    "engine", "string", **WEB, num_bits=16, num_hashes=1, num_cohorts=16, prob_f=0.5, prob_p=0.25,
    prob_q=0.75, max_memoized_values=3, fallback="other",
)  # fmt: skip
APP_DEVICES = 8  # of each group, in the part `app`
CLIENT = "client"  # a test of tests/client


PART_OF = {
    "freshness": ("equal only by chance",),
    "answers": ("each report is the correct", "one report for each period", "answers of the kind"),
    "derivations": ("round has the", "another process", "derivations", "two metrics",
                    "of two values", "two sets", "values set the declared bits", "one cohort"),
    "device": ("device: 7 reports", "a value or", "values past", "reports in a life"),
}  # fmt: skip


class Fault(NamedTuple):
    """What a client does wrong.

    name: unique.  file: below the root.  old, new: exact texts; `old` occurs in the file once.
    seen_by: a part of the name of a check that must fail, or the test of tests/client that must.
    metrics: what is audited.
    """

    name: str
    file: str
    old: str
    new: str
    seen_by: str
    metrics: str = METRICS

    @property
    def part(self) -> str:
        """The part of the audit that has the check, or `CLIENT`."""
        if self.seen_by.startswith("tests/"):
            return CLIENT
        parts = (part for part, texts in PART_OF.items() if any(x in self.seen_by for x in texts))
        return next(parts, "encoder")


SILENT = METRICS.replace('no_data = "none"\n', "")
_READ = tomllib.loads((Path(__file__).parent / "faults.toml").read_text())


def _faults(rows: list[dict[str, str]]) -> tuple[Fault, ...]:
    """Make faults from their rows, whose `metrics` are a name of this module."""
    return tuple(
        Fault(**row | {"metrics": globals()[row.get("metrics", "METRICS")]}) for row in rows
    )


FAULTS = _faults(_READ["faults"])
_BY_NAME = {fault.name: fault for fault in FAULTS}
APP_FAULTS = (
    *(_BY_NAME[name]._replace(seen_by=seen_by) for name, seen_by in _READ["again"].items()),
    *_faults(_READ["app_faults"]),
)
