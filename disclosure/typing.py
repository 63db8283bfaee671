"""Type aliases for arrays and tables."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]
Strata: TypeAlias = tuple[tuple[str, str], ...]  # name and value, sorted by name
