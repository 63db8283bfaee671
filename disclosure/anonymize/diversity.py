"""The diversity of a sensitive column within classes: l-diversity and t-closeness."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from disclosure.errors import TableError
from disclosure.typing import Floats, Integers

# Texts that mean "unknown", which do not count as diverse values.
MISSING = frozenset(("", "?", "-", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "ND"))


@dataclass(frozen=True)
class ClassDiversity:
    """Diversity measures for each class, (classes,), in the order of `np.unique(classes)`.

    Missing values (`MISSING`) do not count."""

    sizes: Integers  # Number of rows
    distinct: Integers  # Number of values of the sensitive column
    entropy: Floats  # In nats; its exp is the entropy l
    # Total variation distance to the whole table's distribution; 1 without known values
    closeness: Floats


@dataclass(frozen=True)
class DiversityRule:
    """A requirement on the values of a sensitive column within every class."""

    distinct: int = 1  # Minimum number of values (l-diversity)
    # Maximum total variation distance to the whole table (t-closeness); 1 for any
    closeness: float = 1.0

    def check(self, sensitive: Sequence[str]) -> None:
        """Raise TableError if the rule is invalid or if this column cannot meet it."""
        number = len(set(sensitive) - MISSING)
        if not 1 <= self.distinct <= number or not 0 <= self.closeness <= 1:
            raise TableError(
                f"distinct = {self.distinct} must be 1 to {number} (the values of the column), "
                f"and closeness = {self.closeness:g} in [0, 1]"
            )

    def is_met(self, counts: Integers, law: Floats) -> bool:
        """Return whether a class meets the rule.

        `counts` (values,) are the class's counts, `law` (values,) the shares in the whole table."""
        if np.count_nonzero(counts) < max(self.distinct, 1):
            return self.distinct <= 1 and self.closeness >= 1
        apart = np.abs(counts / counts.sum() - law).sum() / 2
        return bool(apart <= self.closeness + 1e-12)


def value_counts(of_class: Integers, sensitive: Sequence[str]) -> Integers:
    """Count each sensitive value that is not missing in each class, (classes, values).

    `of_class` (N,) contains the classes from 0 without gaps."""
    names, of_value = np.unique(np.array(sensitive), return_inverse=True)
    counts = np.zeros((of_class.max() + 1, len(names)), dtype=np.int64)
    np.add.at(counts, (of_class, of_value.ravel()), 1)
    return counts[:, ~np.isin(names, list(MISSING))]


def class_diversity(
    classes: Sequence[Hashable] | Integers, sensitive: Sequence[str]
) -> ClassDiversity:
    """Measure how a sensitive column is distributed within each class of published rows.

    Args:
        classes: The class of each row, (N,), such as `Anonymized.of_row` of the published rows.
        sensitive: The sensitive values, (N,).

    Raises:
        TableError: The lengths differ, or there are no rows.
    """
    if len(classes) != len(sensitive) or not len(sensitive):
        raise TableError(f"{len(classes)} classes, but {len(sensitive)} sensitive values")
    of_class = np.unique(np.array(classes), return_inverse=True)[1].ravel()
    counts = value_counts(of_class, sensitive)
    sizes = counts.sum(axis=1)
    shares = counts / np.maximum(sizes, 1)[:, None]
    apart = shares - counts.sum(axis=0) / max(int(sizes.sum()), 1)
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return ClassDiversity(
        sizes=np.bincount(of_class),
        distinct=(counts > 0).sum(axis=1),
        entropy=-(shares * logs).sum(axis=1),
        closeness=np.where(sizes > 0, np.abs(apart).sum(axis=1) / 2, 1.0),
    )
