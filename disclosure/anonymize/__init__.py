"""k-anonymity by merging the nearest rows, along value trees and number intervals."""

from disclosure.anonymize.columns import Columns, Hierarchy, IntervalColumn
from disclosure.anonymize.diversity import DiversityRule, class_diversity
from disclosure.anonymize.greedy import Anonymized, anonymize, specialize_column

__all__ = [
    "Anonymized",
    "Columns",
    "DiversityRule",
    "Hierarchy",
    "IntervalColumn",
    "anonymize",
    "class_diversity",
    "specialize_column",
]
