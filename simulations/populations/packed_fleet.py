"""Simulate every report of a large fleet as packed bits: 64 coins an operation.

`draws` takes the counts of a fleet straight from their binomial law. Here each device has its
permanent response and each report its own noise, as in the SDK, and the counts are sums of
reports. A coin of probability a / 2**16 is made for 64 bits at once from a random word for each
binary digit of a. Random words are a function of a key and a counter (SplitMix64: Steele, Lea and
Flood 2014), so that a device's reports are the same however the work is split. For simulation
alone: a device takes its randomness from the system.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from decoder.numerics.bit_tensor import compiled
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import PROBABILITY_BITS, PROBABILITY_SCALE
from rappor_core.params import RapporParams
from simulations.populations.draws import Counts, Floats, bits_of_value
from simulations.populations.packed_sums import Words, sum_words

_BLOCK = 1 << 15  # devices encoded before their reports are summed: they stay in the cache
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = tuple(map(np.uint64, (30, 27, 31)))
_NONE, _ALL, _ONE = np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(1)


@dataclass(frozen=True)
class PackedRound:
    """One noise round on packed bits: the binary digits of its two probabilities, as masks.

    digits: (2, d) words of ones or zeros, the least digit first, that of a set bit above that of a
    clear one.  sure: (2,) words, all ones where the probability is 1.
    """

    digits: Words
    sure: Words

    @classmethod
    def of(cls, high: int, low: int) -> PackedRound:
        """Make a round. high, low: P(1) of a set and of a clear bit, integers over 2**16."""
        first = next((i for i in range(PROBABILITY_BITS) if (high | low) >> i & 1),
                     PROBABILITY_BITS)  # fmt: skip
        masks = [[_ALL if p >> i & 1 else _NONE for i in range(first, PROBABILITY_BITS)]
                 for p in (high, low)]  # fmt: skip
        sure = [_ALL if p == PROBABILITY_SCALE else _NONE for p in (high, low)]
        return cls(np.array(masks, dtype=np.uint64).reshape(2, -1), np.array(sure, np.uint64))


@dataclass(frozen=True)
class PackedFleet:
    """Encoder of a whole fleet.

    params: of bits, not of symbols.  reports_each: reports of one value that a device sends.
    key: of all random words.
    """

    params: RapporParams
    reports_each: int
    key: int

    def __post_init__(self) -> None:
        """Refuse symbols, which are no independent bits. Raises ValueError."""
        if self.params.scheme.symbols:
            raise ValueError("a packed fleet draws bits; take draw_aggregate for symbols")

    @property
    def words(self) -> int:
        """Number of 64-bit words of a report."""
        return (self.params.num_bits + 63) // 64

    def encode(self, values: Words, holders: Counts, first: int) -> Words:
        """Encode reports of consecutive devices, (devices * reports_each, words).

        Args:
            values: Bloom bits of each value in this cohort, (n, words).
            holders: how many devices hold each, in this order, (n,).
            first: number of the first device in the whole fleet, which decides its random words.
        """
        m = self.params.mechanism
        kept, shown = PackedRound.of(m.p1, m.q1), PackedRound.of(m.p2, m.q2)
        rows = np.empty((int(holders.sum()) * self.reports_each, self.words), dtype=np.uint64)
        width = kept.digits.shape[1] + self.reports_each * shown.digits.shape[1]
        start = np.uint64((self.key + first * self.words * width * int(_STEP)) % (1 << 64))
        _encode(values, holders, self.reports_each, start,
                kept.digits, kept.sure, shown.digits, shown.sure, rows)  # fmt: skip
        left = self.params.num_bits % 64
        if left:
            rows[:, -1] &= np.uint64((1 << left) - 1)
        return rows

    def count(self, values: Words, holders: Counts, first: int) -> Counts:
        """Sums of the reports of `encode`, (k,), block by block."""
        total = np.zeros(self.params.num_bits, dtype=np.int64)
        ends = np.cumsum(holders)
        number = int(ends[-1]) if len(ends) else 0
        for low in range(0, number, _BLOCK):
            high = min(low + _BLOCK, number)
            part = np.minimum(ends, high) - np.maximum(ends - holders, low)
            rows = self.encode(values, np.maximum(part, 0), first + low)
            total += sum_words(rows, self.params.num_bits)
        return total


def draw_packed_fleet(
    values: list[str],
    shares: Floats,
    num_devices: int,
    params: RapporParams,
    rng: np.random.Generator,
    reports_each: int = 1,
    threads: int | None = None,
) -> tuple[Aggregate, Counts]:
    """Simulate a fleet report by report and add the reports up, with the same law as
    `draw_aggregate`.

    Args:
        values: what is held; shares: with which probability, (n,).
        num_devices: each sends `reports_each` reports of its one value.
        params: of bits, not of symbols.
        rng: draws cohorts, values and the key of all coins.
        threads: None: one a processor. The result does not depend on it.

    Returns:
        The aggregate, and the true number of holders of each value, (n,).

    Raises:
        ValueError: for symbols.
    """
    fleet = PackedFleet(params, reports_each, int(rng.integers(1 << 64, dtype=np.uint64)))
    cohorts = rng.multinomial(num_devices, np.full(params.num_cohorts, 1 / params.num_cohorts))
    holders = rng.multinomial(cohorts, shares)
    first = np.cumsum(cohorts) - cohorts

    def counted(cohort: int) -> list[int]:
        held = np.flatnonzero(holders[cohort])
        bits = packed_values([values[v] for v in held], held, cohort, params)
        found: list[int] = fleet.count(bits, holders[cohort][held], int(first[cohort])).tolist()
        return found

    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        counts = list(pool.map(counted, range(params.num_cohorts)))
    aggregate = Aggregate(
        metric="simulated",
        params=params,
        reports_per_cohort=tuple((cohorts * reports_each).tolist()),
        bit_counts=tuple(map(tuple, counts)),
    )
    return aggregate, holders.sum(axis=0)


def packed_values(values: list[str], numbers: Counts, cohort: int, params: RapporParams) -> Words:
    """Bloom bits of values in a cohort, packed, (n, words). numbers: places in the list of
    values."""
    words = (params.num_bits + 63) // 64
    rows = np.zeros((len(values), words), dtype=np.uint64)
    for row, value, number in zip(rows, values, numbers, strict=True):
        for bit in bits_of_value(value, int(number), cohort, params):
            row[bit // 64] |= _ONE << np.uint64(bit % 64)
    return rows


@compiled
def _word(state: Any) -> Any:
    """SplitMix64's output function."""
    z = (state ^ (state >> _SHIFTS[0])) * _FIRST
    z = (z ^ (z >> _SHIFTS[1])) * _SECOND
    return z ^ (z >> _SHIFTS[2])


@compiled
def _tossed(bits: Any, state: Any, digits: Any, sure: Any) -> Any:
    """64 coins, each of the probability of its bit; the state after them.

    From the least digit on, a coin with digit 1 is `or`ed with a random word and one with digit 0
    is `and`ed: (P + digit) / 2 each time. That is the majority of coin, word and digit.
    """
    of_set, of_clear = _NONE, _NONE
    for i in range(digits.shape[1]):
        state += _STEP
        word, one, zero = _word(state), digits[0, i], digits[1, i]
        of_set = (of_set & word) | (one & (of_set | word))
        of_clear = (of_clear & word) | (zero & (of_clear | word))
    return ((of_set | sure[0]) & bits) | ((of_clear | sure[1]) & ~bits), state


@compiled
def _encode(
    values: Any, holders: Any, each: int, state: Any,
    kept: Any, kept_sure: Any, shown: Any, shown_sure: Any, rows: Any,
) -> None:  # fmt: skip
    """Both rounds of every device: the permanent one once, the other for each report."""
    row = 0
    for value in range(len(holders)):
        for _ in range(holders[value]):
            for word in range(values.shape[1]):
                permanent, state = _tossed(values[value, word], state, kept, kept_sure)
                for report in range(each):
                    rows[row + report, word], state = _tossed(permanent, state, shown, shown_sure)
            row += each
