"""Pair metrics, and the counts of devices that hold a pair of values."""

from dataclasses import replace
from datetime import date

import numpy as np

from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.pair_kind import Pair
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate


def coupled_table(rows: int, columns: int, coupled: float) -> Floats:
    """A joint table (M1, M2) with Zipf margins, of which a part couples equal quantiles."""
    margins = [1 / np.arange(1, count + 1) for count in (rows, columns)]
    first, second = (margin / margin.sum() for margin in margins)
    tops = np.cumsum(first)[:, None], np.cumsum(second)[None, :]
    bottoms = tops[0] - first[:, None], tops[1] - second[None, :]
    both = np.maximum(np.minimum(*tops) - np.maximum(*bottoms), 0.0)  # what overlaps
    if rows == columns:
        both = np.diag(first)  # without the rounding of sums
    return np.asarray((1 - coupled) * np.outer(first, second) + coupled * both)


def pair_metric(
    rows: int,
    columns: int,
    epsilon_one: float,
    beyond: float = 3.0,
    *,
    hashed: bool = False,
    num_bits: int = 128,
) -> Metric:
    """A pair metric of two lists by l-osue: a bit for each pair, or one hash into `num_bits`."""
    values = tuple(f"a{i}" for i in range(rows)), tuple(f"b{i}" for i in range(columns))
    pair = Pair(("first", "second"), values)
    mechanism = TwoRoundMechanism.optimized(epsilon_one + beyond, epsilon_one)
    return Metric(
        name="pairs",
        kind="pair",
        description="Simulated pairs",
        owner="simulation@example.org",
        expires=date(2099, 12, 31),
        params=RapporParams(num_bits, 1, 32, mechanism)
        if hashed
        else RapporParams(rows * columns, 1, 1, mechanism, "one_hot"),
        max_memoized_values=2,
        fallback=pair.texts()[0],
        details=pair,
    )


def drawn_pairs(metric: Metric, shares: Floats, count: int, rng: np.random.Generator) -> Aggregate:
    """The aggregate of `count` devices, one report each."""
    texts = metric.details.texts()
    found, _ = draw_aggregate(texts, shares.ravel(), count, metric.params, rng, metric.name)
    return replace(found, params_id=metric.params_id, definition=metric.to_dict())
