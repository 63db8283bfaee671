"""k-anonymity by fusion of the nearest rows, along trees of values and intervals of numbers."""

from disclosure.anonymize.anonymise import Anonymised, anonymise
from disclosure.anonymize.columns import Columns, Hierarchy, IntervalColumn
from disclosure.anonymize.diversity import ClassDiversity, DiversityRule, class_diversity
from disclosure.anonymize.specialisation import specialise, specialise_column

__all__ = [
    "Anonymised",
    "ClassDiversity",
    "Columns",
    "DiversityRule",
    "Hierarchy",
    "IntervalColumn",
    "anonymise",
    "class_diversity",
    "specialise",
    "specialise_column",
]
