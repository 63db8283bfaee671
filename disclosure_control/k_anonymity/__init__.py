"""k-anonymity by fusion of the nearest rows, along trees of values and intervals of numbers."""

from disclosure_control.k_anonymity.anonymise import Anonymised, anonymise
from disclosure_control.k_anonymity.columns import Columns, Hierarchy, IntervalColumn
from disclosure_control.k_anonymity.diversity import ClassDiversity, DiversityRule, class_diversity
from disclosure_control.k_anonymity.specialisation import specialise, specialise_column

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
