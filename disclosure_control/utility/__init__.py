"""Measures of what a published table keeps of the original, and of what it discloses about
persons."""

from disclosure_control.utility.attacks import (
    link_records,
    missing_person_share,
    origin_test,
)
from disclosure_control.utility.comparison import Measure, compare, to_csv
from disclosure_control.utility.distributions import column_shares, hellinger, kl_divergence
from disclosure_control.utility.prediction import Prediction, predict_column
from disclosure_control.utility.queries import counting_query_error

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
