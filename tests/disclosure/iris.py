"""Iris as the thesis has it, and the grid of its Figure 3.3."""

from collections.abc import Sequence

import numpy as np
from sklearn.datasets import load_iris

from disclosure.anonymize import Hierarchy
from disclosure.co_clustering import GroupGrid, Partition, Recoded, recode
from disclosure.co_clustering.engine import Search

NUMBERS = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth"]
LEVELS = ("low", "mid", "high")
KINDS = ("setosa", "versicolor", "virginica")

# Figure 3.3: the parts of each group, as (column, interval or kind)
GROUPS = [
    ["Class setosa", "PetalLength low", "PetalWidth low"],
    ["SepalLength low", "SepalWidth high"],
    ["Class virginica", "PetalWidth high", "PetalLength high"],
    ["SepalLength high"],
    ["Class versicolor", "PetalWidth mid", "PetalLength mid"],
    ["SepalWidth low", "SepalLength mid"],
    ["SepalWidth mid"],
]
GRID = [[150, 77, 0, 0, 0, 7, 16], [0, 9, 142, 32, 11, 39, 22], [0, 8, 2, 10, 145, 67, 13]]


def iris() -> dict[str, list[str]]:
    """The file of UCI: scikit-learn's copy corrects two of its rows."""
    found = load_iris()
    numbers = found.data.copy()
    numbers[[34, 37]] = [4.9, 3.1, 1.5, 0.1]
    table = {
        name: list(map(str, numbers[:, column].tolist())) for column, name in enumerate(NUMBERS)
    }
    return {**table, "Class": [KINDS[kind] for kind in found.target]}


def iris_pairs() -> Recoded:
    """750 pairs: 150 rows and 15 parts, numbers in terciles."""
    return recode(iris(), [*NUMBERS, "Class"], numbers=NUMBERS, intervals=3)


def part_of(name: str) -> int:
    """The part of `Column level`, among the 15."""
    column, level = name.split()
    start = 3 * [*NUMBERS, "Class"].index(column)
    return start + (KINDS if column == "Class" else LEVELS).index(level)


def figure_grid() -> GroupGrid:
    """Figure 3.3 by hand: setosa; virginica and row 78; the other versicolor."""
    rows = np.repeat([0, 2, 1], 50)
    rows[77] = 1
    parts = np.empty(15, dtype=np.int64)
    for group, names in enumerate(GROUPS):
        parts[[part_of(name) for name in names]] = group
    return Search(iris_pairs(), 3).with_dendrogram(Partition(rows, parts)).finest


def flat(leaves: Sequence[str], root: str) -> Hierarchy:
    """A tree of one level: a value is kept, or published as `root`."""
    return Hierarchy(tuple((leaf, root) for leaf in leaves))


def fuse(tree: Hierarchy, first: str, second: str) -> str:
    """The label of the lowest common ancestor of two nodes."""
    a, b = tree.encode([first, second])
    return tree.labels[int(tree.fusions[a, b])]
