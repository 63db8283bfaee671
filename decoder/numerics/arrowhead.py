"""Symmetric matrices with small diagonal blocks and a border, solved by the Schur complement.

See Golub and Van Loan 2013, section 4.3. With d unknowns, of which b are in the border, the storage
is b (b + d) numbers."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from decoder.typing import Floats, Indices

_FULL = 0.2  # with a larger fraction of nonzero entries, dense algebra is faster


class Arrowhead:
    """A regular symmetric matrix (d, d), definite or not, with diagonal blocks and a border.

    `matrix` is sparse; `blocks` (q, Z) are the unknowns of each block in a column. No matrix entry
    connects two blocks. The other b = d - q Z unknowns are the border."""

    def __init__(self, matrix: Any, blocks: Indices) -> None:
        self.matrix, self.blocks = matrix, blocks
        size, count = blocks.shape
        self._inner = blocks.ravel()
        self._border = np.setdiff1d(np.arange(matrix.shape[0]), self._inner)
        self._corner, self._between = self._parts(matrix[self._border])
        within = self._parts(matrix[self._inner])[1].tocoo()
        self._block_values = np.zeros((count, size, size))
        self._block_values[within.row % count, within.row // count, within.col // count] = (
            within.data
        )
        inverse = np.linalg.inv(self._block_values)
        place = np.arange(size * count).reshape(size, count).T
        rows, columns = np.repeat(place, size, axis=1), np.tile(place, (1, size))
        # the inverse of the blocks alone, and the border entries times this inverse, (b, q Z)
        self._block_inverse = sparse.csr_array((inverse.ravel(), (rows.ravel(), columns.ravel())))
        self._reach = self._between @ self._block_inverse

    def _parts(self, rows: Any) -> tuple[Any, Any]:
        return rows[:, self._border], rows[:, self._inner]

    @cached_property
    def _factor(self) -> Any:
        corner = self._corner.toarray() - _product(self._reach, self._between.T)
        return linalg.lu_factor(corner, overwrite_a=True, check_finite=False)

    @cached_property
    def _border_inverse(self) -> Floats:
        eye = np.eye(len(self._border))
        return np.asarray(linalg.lu_solve(self._factor, eye, overwrite_b=True, check_finite=False))

    @cached_property
    def _between_inverse(self) -> Floats:
        return -_product(self._reach.T, self._border_inverse)

    @cached_property
    def _within_inverse(self) -> Floats:
        """The diagonal blocks of the matrix's inverse, (q, q, Z)."""
        size, count = self.blocks.shape
        inverse = np.array(np.moveaxis(np.linalg.inv(self._block_values), 0, -1), dtype=np.float64)
        reach = self._reach.T.tocsr()
        for row, column in np.ndindex(size, size):
            left = reach[row * count : (row + 1) * count]
            right = self._between_inverse[column * count : (column + 1) * count]
            inverse[row, column] -= left.multiply(right).sum(axis=1)
        return inverse

    @property
    def log_determinant(self) -> float:
        """The log of the absolute determinant."""
        of_blocks = np.linalg.slogdet(self._block_values)[1].sum()
        return float(of_blocks + np.log(np.abs(np.diag(self._factor[0]))).sum())

    def solve(self, values: Floats) -> Floats:
        """Multiply the inverse by values (d, ...)."""
        inner, solved = values[self._inner], np.empty_like(values)
        border = values[self._border] - self._reach @ inner
        border = linalg.lu_solve(self._factor, border, check_finite=False)
        solved[self._border] = border
        solved[self._inner] = self._block_inverse @ inner - self._reach.T @ border
        return solved

    def inverse_at(self, rows: Indices, columns: Indices) -> Floats:
        """Return entries (n,) of the inverse.

        The rows must all be in blocks, or all in the border; so must the columns. A row and a
        column that are both in blocks must be in the same block."""
        place = np.empty(self.matrix.shape[0], dtype=np.intp)
        for part in (self._border, self._inner):
            place[part] = np.arange(len(part))
        within = rows[0] in self._inner, columns[0] in self._inner
        row, column = place[rows], place[columns]
        if all(within):
            count = self.blocks.shape[1]
            return np.asarray(self._within_inverse[row // count, column // count, row % count])
        if any(within):
            return np.asarray(self._between_inverse[(row, column) if within[0] else (column, row)])
        return np.asarray(self._border_inverse[row, column])

    def forms(self, left: Any, right: Any) -> tuple[Floats, Floats, Floats]:
        """Return l' M^-1 l, l' M^-1 r and r' M^-1 r, (G,) each, for rows l, r of sparse (G, d)."""
        parts = [self._parts(rows) for rows in (left, right)]
        inner = [in_blocks for _, in_blocks in parts]
        border = [rest - in_blocks @ self._reach.T for rest, in_blocks in parts]

        within = [in_blocks @ self._block_inverse for in_blocks in inner]
        beyond = [_product(rest, self._border_inverse) for rest in border]

        def form(first: int, second: int) -> Floats:
            whole = inner[first].multiply(within[second]).sum(axis=1)
            return np.asarray(whole + border[first].multiply(beyond[second]).sum(axis=1))

        return form(0, 0), form(1, 0), form(1, 1)


def _product(left: Any, right: Any) -> Floats:
    if left.nnz > _FULL * np.prod(left.shape):
        left, right = _dense(left), _dense(right)
    return _dense(left @ right)


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())
