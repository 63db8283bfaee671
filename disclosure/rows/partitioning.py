"""Partitions of a histogram into blocks of cells that are counted together.

A partitioner sees a histogram with noise and nothing else of the table, so that whatever it does
costs nothing further. The default is a kd-tree; another one is given as an object, or registered
by name in `_HOMES`: a module that holds `PARTITIONER`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

import numpy as np

from disclosure.errors import TableError
from disclosure.typing import Floats, Integers

_HOMES = {"kd-tree": "disclosure.rows.kd_tree"}


class Partitioner(Protocol):
    """A method that groups the cells of a histogram which are counted together."""

    def partition(self, noisy: Floats, expected: Floats, epsilon: float) -> Integers:
        """Number the block of each cell.

        Args:
            noisy: counts with geometric noise of this epsilon; some are negative. Any shape, an
                axis a column.
            expected: what the block of all cells would give each cell, above 0, of the same shape:
                cells of a block are in proportion to it.
            epsilon: of the noise, which tells its variance.

        Returns:
            Numbers of blocks, from 0 and without gaps, of the shape of `noisy`.
        """
        ...


def partitioner_named(name: str) -> Partitioner:
    """Load a registered partitioner. Raises TableError for another name."""
    if name not in _HOMES:
        raise TableError(f"partitioner {name!r} is not one of {sorted(_HOMES)}")
    found: Partitioner = import_module(_HOMES[name]).PARTITIONER
    return found


def check_blocks(blocks: Integers, shape: tuple[int, ...]) -> Integers:
    """Return the block number of each cell as a flat array. Raises TableError unless blocks
    partition the shape."""
    if blocks.shape != shape or blocks.dtype.kind not in "iu":
        raise TableError(f"blocks of shape {blocks.shape}, whole numbers of {shape} are needed")
    flat = blocks.ravel().astype(np.int64)
    if flat.min() < 0 or not np.bincount(flat).all():
        raise TableError("blocks must be numbered from 0 without gaps")
    return flat
