"""Draw devices that hold a pair of values: linked reports bit by bit, or counts of a pair
metric."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np

from decoder.association.linked import LinkedReports, Side
from decoder.model.noise import BitNoise
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.pair import Pair
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

AT_ONCE = 100_000  # reports


def one_hot_side(name: str, count: int, f: float, p: float, q: float, cohorts: int = 1) -> Side:
    """One side of a pair: a metric of `count` values, each with a bit of its own.

    name: of the metric; its values are this name with 0, 1, ... behind it.
    """
    noise = BitNoise.of(TwoRoundMechanism.rappor(f, p, q))
    designs = np.broadcast_to(np.eye(count), (cohorts, count, count)).copy()
    return Side(name, tuple(f"{name}{i}" for i in range(count)), designs, noise)


def hashed_side(
    name: str, count: int, bits: int, cohorts: int, seed: int, f: float = 0.0, p: float = 0.25
) -> Side:
    """A metric in a Bloom filter of two hashes, q = .75."""
    rng = np.random.default_rng(seed)
    designs = np.zeros((cohorts, bits, count))
    for cohort in range(cohorts):
        for value in range(count):
            designs[cohort, rng.integers(bits, size=2), value] = 1
    noise = BitNoise.of(TwoRoundMechanism.rappor(f, p, 0.75))
    return Side(name, tuple(f"{name}{i}" for i in range(count)), designs, noise)


def drawn_reports(
    shares: Floats, count: int, first: Side, second: Side, rng: np.random.Generator
) -> LinkedReports:
    """Draw one linked report of each of `count` devices."""
    cells = rng.choice(shares.size, size=count, p=shares.ravel())
    values = np.divmod(cells, shares.shape[1])
    cohorts = rng.integers(len(first.designs), size=count)
    bits = []
    for side, held in zip((first, second), values, strict=True):
        drawn = np.empty((count, side.designs.shape[1]), dtype=np.uint8)
        for start in range(0, count, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            set_bits = side.designs[cohorts[part], :, held[part]]
            drawn[part] = rng.random(set_bits.shape) < side.noise.p_star + side.noise.gap * set_bits
        bits.append(drawn)
    return LinkedReports(cohorts, bits[0], bits[1])


def coupled_table(rows: int, columns: int, coupled: float) -> Floats:
    """Make a joint table with Zipf margins, of which a part of the mass couples equal quantiles,
    (M1, M2)."""
    margins = [1 / np.arange(1, count + 1) for count in (rows, columns)]
    first, second = (margin / margin.sum() for margin in margins)
    tops = np.cumsum(first)[:, None], np.cumsum(second)[None, :]
    bottoms = tops[0] - first[:, None], tops[1] - second[None, :]
    both = np.maximum(np.minimum(*tops) - np.maximum(*bottoms), 0.0)  # what overlaps
    if rows == columns:
        both = np.diag(first)  # without the rounding of sums
    return np.asarray((1 - coupled) * np.outer(first, second) + coupled * both)


def pair_metric(
    rows: int, columns: int, epsilon_one: float, beyond: float = 3.0, *, hashed: bool = False
) -> Metric:
    """Make a pair metric of two lists, mechanism l-osue: a bit for each pair, or one hash into
    128."""
    values = tuple(f"a{i}" for i in range(rows)), tuple(f"b{i}" for i in range(columns))
    pair = Pair(("first", "second"), values)
    mechanism = TwoRoundMechanism.optimised(epsilon_one + beyond, epsilon_one)
    return Metric(
        name="pairs",
        kind="pair",
        description="Simulated pairs",
        owner="simulation@example.org",
        expires=date(2099, 12, 31),
        params=RapporParams(128, 1, 32, mechanism)
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
