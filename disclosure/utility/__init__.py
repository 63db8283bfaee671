"""Measures of what a published table keeps of the original, and of what it discloses about
persons."""

from disclosure.utility.attacks import (
    link_records,
    missing_person_share,
    origin_test,
)
from disclosure.utility.comparison import Measure, compare, to_csv
from disclosure.utility.distributions import column_shares, hellinger, kl_divergence
from disclosure.utility.prediction import Prediction, predict_column
from disclosure.utility.queries import counting_query_error

__all__ = [
    "Measure",
    "Prediction",
    "column_shares",
    "compare",
    "counting_query_error",
    "hellinger",
    "kl_divergence",
    "link_records",
    "missing_person_share",
    "origin_test",
    "predict_column",
    "to_csv",
]
