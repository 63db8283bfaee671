"""The prior of a map: log shares of the cells as a Gaussian field, and reserved values apart.

A reserved value (`other`, `no_data`) is no place: it is outside the graph, and what the evidence
says of the cells must not depend on how many answers are reserved. So each has a free parameter:
its log share, against the mean log share of the cells, has precision RESERVED_PRECISION at every
strength.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from decoder.typing import Floats

Graph = Literal["neighbours", "alike"]

RESERVED_PRECISION = 1e-3  # a standard deviation of 32 nats
_SLOPES = 0.3  # of the weight of bends
_ANCHOR = 0.003  # keeps the level of a component of the graph from drifting; 1 for a lone cell


def field_weights(slopes: Floats) -> Floats:
    """Precisions of the prior at strength 1, for eigenvalues of the graph's Laplacian, (n,)."""
    return slopes**2 + _SLOPES * slopes + _ANCHOR


@dataclass(frozen=True)
class Belief:
    """A prior of the map: precision `strength * structure` of the log shares about a common
    level."""

    graph: Graph
    strength: float


@dataclass(frozen=True)
class Prior:
    """The priors of one graph of cells, of any strength.

    structure: (n, n), sparse; the rows of reserved values are 0.  reserved: how many of the last
    shares are of reserved values, each with a parameter of its own.
    """

    structure: Any
    reserved: int

    @classmethod
    def of(cls, graph: Graph, laplacian: Any | None, size: int, reserved: int = 0) -> Prior:
        """Make the priors of a graph. laplacian: of the neighbours (n, n), None for no graph.
        size: n, with `reserved`."""
        if graph == "alike" or laplacian is None:
            own = np.ones(size)
            own[size - reserved :] = 0.0
            return cls(sparse.diags_array(own).tocsr(), reserved)
        own = np.where(laplacian.diagonal() > 0, _ANCHOR, 1.0)
        own[size - reserved :] = 0.0
        bends = laplacian @ laplacian + _SLOPES * laplacian
        return cls((bends + sparse.diags_array(own)).tocsr(), reserved)

    def precision(self, strength: float) -> Any:
        """The precision (n, n) at a strength, sparse, positive definite."""
        scaled = strength * self.structure
        if not self.reserved:
            return scaled
        own = np.zeros(scaled.shape[0])
        own[-self.reserved :] = RESERVED_PRECISION
        return (scaled + sparse.diags_array(own)).tocsr()

    def centred(self, field: Floats) -> Floats:
        """Log shares (n,) less the mean over the cells."""
        return np.asarray(field - self._cells(field).mean(axis=0))

    def uncentred(self, pull: Floats) -> Floats:
        """The slope in the log shares, from the slope in the centred ones."""
        result, cells = pull.copy(), self._cells(pull)
        self._cells(result)[...] -= pull.sum(axis=0) / len(cells)
        return result

    def _cells(self, values: Floats) -> Floats:
        return values[: len(values) - self.reserved]
