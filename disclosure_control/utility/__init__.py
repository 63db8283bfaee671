"""Measures of what a published table keeps of the original, and of what it discloses about
persons."""

from disclosure_control.utility.attacks import (
    Linkage,
    agreement_ratios,
    link_records,
    missing_person_share,
    origin_test,
    population_unique_risk,
)
from disclosure_control.utility.comparison import Measure, compare, to_csv, to_html
from disclosure_control.utility.distributions import column_shares, hellinger, kl_divergence
from disclosure_control.utility.prediction import Prediction, classification_metric, predict_column
from disclosure_control.utility.queries import counting_query_error
from disclosure_control.utility.radar import radar_picture

__all__ = [
    "Linkage",
    "Measure",
    "Prediction",
    "agreement_ratios",
    "classification_metric",
    "column_shares",
    "compare",
    "counting_query_error",
    "hellinger",
    "kl_divergence",
    "link_records",
    "missing_person_share",
    "origin_test",
    "population_unique_risk",
    "predict_column",
    "radar_picture",
    "to_csv",
    "to_html",
]
