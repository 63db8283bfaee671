"""Merging places, and rolling up values along a tree, until each number is large enough to show."""

from publication.aggregation.places import MergedPlaces, merge_by_floor, merge_by_significance
from publication.aggregation.roll_up import RolledUp, roll_up, sum_error
from publication.aggregation.trees import cell_tree, domain_tree, prefix_tree

__all__ = [
    "MergedPlaces",
    "RolledUp",
    "cell_tree",
    "domain_tree",
    "merge_by_floor",
    "merge_by_significance",
    "prefix_tree",
    "roll_up",
    "sum_error",
]
