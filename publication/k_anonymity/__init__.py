"""k-anonymity by fusion of the nearest rows, along trees of values and intervals of numbers."""

from publication.k_anonymity.anonymise import Anonymised, anonymise
from publication.k_anonymity.choice import choose_k, loss_by_k, loss_picture
from publication.k_anonymity.columns import Columns, Hierarchy, Interval
from publication.k_anonymity.diversity import ClassDiversity, DiversityRule, class_diversity
from publication.k_anonymity.specialisation import specialise, specialise_column
from publication.k_anonymity.variants import anonymise_in_one_pass, anonymise_in_packets

__all__ = [
    "Anonymised",
    "ClassDiversity",
    "Columns",
    "DiversityRule",
    "Hierarchy",
    "Interval",
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
