"""Trees of values for the tests of generalized tables."""

from collections.abc import Sequence

from disclosure.anonymize import Hierarchy


def flat(leaves: Sequence[str], root: str) -> Hierarchy:
    """A tree of one level: a value is kept, or published as `root`."""
    return Hierarchy(tuple((leaf, root) for leaf in leaves))


def fuse(tree: Hierarchy, first: str, second: str) -> str:
    """The label of the lowest common ancestor of two nodes."""
    a, b = tree.encode([first, second])
    return tree.labels[int(tree.fusions[a, b])]
