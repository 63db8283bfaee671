"""k-anonymity by fusion of the nearest rows, along trees of values and intervals of numbers."""

from disclosure_control.k_anonymity.anonymise import Anonymised, anonymise
from disclosure_control.k_anonymity.choice import choose_k, loss_by_k, loss_picture
from disclosure_control.k_anonymity.columns import Columns, Hierarchy, IntervalColumn
from disclosure_control.k_anonymity.diversity import ClassDiversity, DiversityRule, class_diversity
from disclosure_control.k_anonymity.specialisation import specialise, specialise_column
from disclosure_control.k_anonymity.variants import anonymise_in_one_pass, anonymise_in_packets

__all__ = [
    "Anonymised",
    "ClassDiversity",
    "Columns",
    "DiversityRule",
    "Hierarchy",
    "IntervalColumn",
    "anonymise",
    "anonymise_in_one_pass",
    "anonymise_in_packets",
    "choose_k",
    "class_diversity",
    "loss_by_k",
    "loss_picture",
    "specialise",
    "specialise_column",
]
