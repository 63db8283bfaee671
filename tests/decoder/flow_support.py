"""A made-up city of 48 cells, and the noise of single cohorts."""

from typing import Any

import numpy as np

from decoder.flows.decoding import decode_flows
from decoder.flows.space import SymbolCounts
from decoder.flows.tables import FlowDecoding
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from simulations.flows import city_metric

_DECODED: dict[Any, FlowDecoding] = {}


def flow_metric(epsilon: float = 2.0, cohorts: int = 100, symbols: int = 8) -> Metric:
    """A metric of flows of 48 cells in 12 zones."""
    shape = {"rows": 3, "columns": 4, "num_cohorts": cohorts, "num_symbols": symbols}
    return city_metric(epsilon, **shape)


def small_metric() -> Metric:
    """A metric of flows of 16 cells in 4 zones, whose fit takes a fifth of the time."""
    return city_metric(2.0, rows=2, columns=2, num_cohorts=100, num_symbols=8)


def noisy(
    counts: SymbolCounts, cohort: int, people: Floats, rng: np.random.Generator
) -> np.ndarray:
    """(g,) reports of people by class (C,) in a cohort."""
    size = counts.num_symbols
    symbols = np.arange(len(people)) if counts.symbols is None else counts.symbols[cohort]
    own = np.bincount(symbols, people, size).astype(int)
    chances = np.full((size, size), counts.lied)
    np.fill_diagonal(chances, counts.kept)
    return rng.multinomial(own, chances).sum(axis=0)


def decode_flows_once(
    counts: Aggregate,
    options: DecodeOptions | None = None,
    known: Floats | None = None,
    progress: object = None,
) -> FlowDecoding:
    """`decode_flows`, once for each input: the same counts give the same bits (`tests/kinds`)."""
    options = options or DecodeOptions()
    key = counts.to_json(), options, None if known is None else known.tobytes()
    if key not in _DECODED:
        _DECODED[key] = decode_flows(counts, options, known)
    return _DECODED[key]
