"""The noise of each place mechanism has the mean and variance that intervals assume.

Devices answer r times about a bit or symbol that they hold, and one that they do not. A correct
mechanism fails one of the four comparisons (Z_LIMIT standard errors) with p < 3e-6; a variance or
probability that is 10 % off, or one report more or less, must fail at least one of them.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from client_sdk.randomization.metric_encoder import InstantaneousRound, PermanentRound
from client_sdk.testing import FixedRandomness
from decoder.model.noise import BitNoise
from rappor_core.mechanism import TwoRoundMechanism

pytestmark = pytest.mark.statistical

DEVICES = {1: 6_000, 6: 1_500}  # by number of reports; with 128 bits each, of which half are held
SYMBOL_DEVICES = {1: 140_000, 6: 100_000}
Z_LIMIT = 5.0
OFF = (0.9, 1.1)
BITS = 128
MECHANISMS = {
    "rappor": TwoRoundMechanism.rappor(0.5, 0.35, 0.65),
    "l-sue": TwoRoundMechanism.symmetric(2.0, 1.5),
    "l-osue": TwoRoundMechanism.optimized(2.0, 1.5),
    "loloha": TwoRoundMechanism.symbols(4, 2.0, 1.5),
    "one-shot": TwoRoundMechanism.one_shot(1.0),
}
SOME_LONG = [
    pytest.param(name, marks=pytest.mark.long if name == "loloha" else ()) for name in MECHANISMS
]  # of symbols many more devices are needed


class Sums(NamedTuple):
    """Sums over a device's reports: of bits that it holds, and of bits that it does not."""

    held: NDArray[np.float64]
    other: NDArray[np.float64]


class Stated(NamedTuple):
    """What such sums should have: mean, variance."""

    mean: float
    variance: float


def stated(mechanism: TwoRoundMechanism, reports: int) -> tuple[Stated, Stated]:
    """For a held bit, and for another: r q* or r p*, and r within + r^2 between."""
    noise = BitNoise.of(mechanism)
    means = reports * noise.q_star, reports * noise.p_star
    variances = (reports * noise.within(b) + reports**2 * noise.between(b) for b in (1, 0))
    held, other = map(Stated, means, variances)
    return held, other


@lru_cache
def drawn(name: str, reports: int) -> Sums:
    """Devices with a secret each, and both of their rounds."""
    mechanism, symbol = MECHANISMS[name], name == "loloha"
    k, fresh_bytes = 4 if symbol else BITS, FixedRandomness(7)
    own = 1 if symbol else (1 << BITS // 2) - 1
    fresh = InstantaneousRound(mechanism, k, fresh_bytes, symbol=symbol)
    size = (k + 7) // 8
    words = np.zeros(
        ((SYMBOL_DEVICES if symbol else DEVICES)[reports], reports, size), dtype=np.uint8
    )
    for device in range(len(words)):
        secret = device.to_bytes(32, "big")
        once = PermanentRound(secret, "m", "00" * 16, mechanism, k, symbol=symbol)
        permanent = once(own)
        shown = b"".join(fresh(permanent).to_bytes(size, "little") for _ in range(reports))
        words[device] = np.frombuffer(shown, dtype=np.uint8).reshape(reports, size)
    bits = np.unpackbits(words, axis=2, bitorder="little")[:, :, :k]
    totals = bits.sum(axis=1).astype(np.float64)
    half = 1 if symbol else BITS // 2
    return Sums(totals[:, :half].ravel(), totals[:, half : 2 * half].ravel())


def z_scores(seen: NDArray[np.float64], said: Stated) -> tuple[float, float]:
    """Z scores of the mean, by the stated variance, and of the variance, by the fourth moment."""
    mean = (seen.mean() - said.mean) / math.sqrt(said.variance / len(seen))
    squares = (seen - seen.mean()) ** 2
    return abs(float(mean)), abs(
        float((squares.mean() - said.variance) / squares.std())
    ) * math.sqrt(len(seen))


def worst(sums: Sums, mechanism: TwoRoundMechanism, reports: int) -> float:
    """The largest of the four comparisons."""
    held, other = stated(mechanism, reports)
    return max(*z_scores(sums.held, held), *z_scores(sums.other, other))


def neighbors(mechanism: TwoRoundMechanism) -> Iterator[TwoRoundMechanism]:
    """Each probability 10 % lower and higher; without a first round, only the second's."""
    names = ("p1", "q1", "p2", "q2") if mechanism.has_permanent_round else ("p2", "q2")
    known = {field: getattr(mechanism, field) for field in ("p1", "q1", "p2", "q2")}
    for field in names:
        for factor in OFF:
            value = round(known[field] * factor)
            if value <= 65_536:
                yield TwoRoundMechanism(**known | {field: value})


@pytest.mark.parametrize("name", SOME_LONG)
@pytest.mark.parametrize("reports", [1, 6])
def test_noise_is_as_stated_and_not_a_neighbors(name: str, reports: int) -> None:
    mechanism = MECHANISMS[name]
    sums = drawn(name, reports)
    assert worst(sums, mechanism, reports) < Z_LIMIT
    for seen, said in zip(sums, stated(mechanism, reports), strict=True):
        for factor in OFF:
            off = said._replace(variance=said.variance * factor**2)  # 10 % of the scale
            assert z_scores(seen, off)[1] > Z_LIMIT
    tried = list(neighbors(mechanism))
    assert len(tried) >= 3
    for neighbor in tried:
        assert worst(sums, neighbor, reports) > Z_LIMIT
    for number in {max(reports - 1, 1), reports + 1} - {reports}:
        assert worst(sums, mechanism, number) > Z_LIMIT


def test_bits_of_a_report_are_independent() -> None:
    """Carries of the Horner scheme must not leak from a bit to the next."""
    mechanism, size, sample = TwoRoundMechanism.rappor(0.3, 0.35, 0.65), 64, 3_000
    fresh = InstantaneousRound(mechanism, size, FixedRandomness(3))
    both = 0
    for _ in range(sample):
        report = fresh(0)
        both += (report & (report >> 1)).bit_count()
    pairs = sample * (size - 1)
    expected = (mechanism.q2 / 65536) ** 2
    error = math.sqrt(expected * (1 - expected) / pairs)
    assert abs(both / pairs - expected) < Z_LIMIT * 1.5 * error  # overlapping pairs: wider
    assert abs(both / pairs - expected * 1.1) > Z_LIMIT * 1.5 * error
