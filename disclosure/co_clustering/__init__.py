"""Co-clustering of a table's rows and values, and publishable results: trees, classes, rows.

No result has an epsilon. `docs/publication.md` states what each result protects against."""

from disclosure.co_clustering.engine import (
    co_cluster,
    merge_small_clusters,
    merge_until_diverse,
)
from disclosure.co_clustering.grid import CoClustering, GroupGrid
from disclosure.co_clustering.hierarchies import LearntHierarchies, learn_hierarchies
from disclosure.co_clustering.merges import Merge, Partition
from disclosure.co_clustering.publication import (
    Form,
    draw_numbers,
    generalize_clusters,
    micro_aggregate,
    publish,
    synthesize,
    value_shares,
)
from disclosure.co_clustering.recoding import Intervals, Recoded, Values, recode

__all__ = [
    "CoClustering",
    "Form",
    "GroupGrid",
    "Intervals",
    "LearntHierarchies",
    "Merge",
    "Partition",
    "Recoded",
    "Values",
    "co_cluster",
    "draw_numbers",
    "generalize_clusters",
    "learn_hierarchies",
    "merge_small_clusters",
    "merge_until_diverse",
    "micro_aggregate",
    "publish",
    "recode",
    "synthesize",
    "value_shares",
]
