"""Type aliases for arrays and tables."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]
Table: TypeAlias = Mapping[str, Sequence[str]]  # columns of text, by name
Strata: TypeAlias = tuple[tuple[str, str], ...]  # name and value, sorted by name
