"""Roll up values along a tree until each number is large enough to show."""

from disclosure.aggregation.roll_up import RolledUp, roll_up, sum_error
from disclosure.aggregation.trees import cell_tree, domain_tree, prefix_tree

__all__ = [
    "RolledUp",
    "cell_tree",
    "domain_tree",
    "prefix_tree",
    "roll_up",
    "sum_error",
]
