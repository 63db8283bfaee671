"""Metrics of places on square grids, for experiments."""

from __future__ import annotations

from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric

COHORTS = 64
_SQUARE = """
[metrics.places]
kind = "location"
description = "The usual place"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [0, 0, 8, 8]
rows = {side}
columns = {side}
levels = [0]
"""


def square_metric(side: int, keys: str) -> Metric:
    """A location metric of side * side cells; `keys`: further keys of its declaration."""
    (metric,) = parse_metrics(_SQUARE.format(side=side) + keys).parts("places")
    return metric
