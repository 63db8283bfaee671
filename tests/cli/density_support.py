"""A location metric of two slots over nine cells, and the first day of its reports."""

from datetime import date

from tests.metric_texts import declaration

DECLARED = declaration(
    "places", "location", description="The usual place", expires="2099-12-31", grid="square",
    box=[0, 0, 8, 8], rows=3, columns=3, levels=[0], slots=["night 22-6", "day 6-22"], mode="memo",
    num_bits=16, num_cohorts=8, mechanism="l-osue", epsilon_infinity=3.0, epsilon_one=2.0,
    max_memoized_values=3,
)  # fmt: skip
DAY = date(2026, 11, 2)
