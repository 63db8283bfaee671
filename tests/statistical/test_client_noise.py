"""Report bits fall 1 with probability q_star and p_star, and not with a neighbour's.

Each test draws SAMPLE reports and compares the share of ones with the formula at Z_LIMIT standard
errors. One comparison raises a false alarm with probability 5.7e-7 (normal, two-sided, z = 5); with
fixed seeds a test that passed once passes always.
"""

from __future__ import annotations

import math

import pytest

from client_sdk.randomisation.rounds import InstantaneousRound, PermanentRound
from client_sdk.testing import FixedRandomness
from rappor_core.mechanism import TwoRoundMechanism

pytestmark = pytest.mark.statistical

NUM_BITS = 64
SAMPLE = 3_000  # reports, of 64 bits each
Z_LIMIT = 5.0
MECHANISMS = {
    "paper": TwoRoundMechanism.rappor(0.5, 0.5, 0.75),
    "odd": TwoRoundMechanism.rappor(0.3, 0.35, 0.65),
    "one-time": TwoRoundMechanism.rappor(0.0, 0.5, 0.75),
    "l-osue": TwoRoundMechanism.optimised(2.0, 1.0),
}


def share_of_ones(mechanism: TwoRoundMechanism, bits: int, seed: int) -> float:
    """Ones among SAMPLE devices with one report each: both rounds are drawn anew."""
    source = FixedRandomness(seed)
    fresh = InstantaneousRound(mechanism, NUM_BITS, source)
    ones = 0
    for device in range(SAMPLE):
        secret = seed.to_bytes(8, "big") + device.to_bytes(24, "big")
        permanent = PermanentRound(secret, "m", "00" * 16, mechanism, NUM_BITS)
        ones += fresh(permanent(bits)).bit_count()
    return ones / (SAMPLE * NUM_BITS)


def z_score(share: float, probability: float) -> float:
    error = math.sqrt(probability * (1 - probability) / (SAMPLE * NUM_BITS))
    return abs(share - probability) / error


@pytest.mark.parametrize("name", MECHANISMS)
def test_report_bits_have_the_stated_probabilities(name: str) -> None:
    mechanism = MECHANISMS[name]
    for bits, stated in (((1 << NUM_BITS) - 1, mechanism.q_star), (0, mechanism.p_star)):
        share = share_of_ones(mechanism, bits, seed=11)
        assert z_score(share, stated) < Z_LIMIT
        assert z_score(share, stated * 0.9) > Z_LIMIT
        assert z_score(share, stated * 1.1) > Z_LIMIT


def test_bits_of_a_report_are_independent() -> None:
    """Carries of the Horner scheme must not leak from a bit to the next."""
    mechanism = MECHANISMS["odd"]
    fresh = InstantaneousRound(mechanism, NUM_BITS, FixedRandomness(3))
    both = 0
    for _ in range(SAMPLE):
        report = fresh(0)
        both += (report & (report >> 1)).bit_count()
    pairs = SAMPLE * (NUM_BITS - 1)
    expected = (mechanism.q2 / 65536) ** 2
    error = math.sqrt(expected * (1 - expected) / pairs)
    assert abs(both / pairs - expected) < Z_LIMIT * 1.5 * error  # overlapping pairs: wider
    assert abs(both / pairs - expected * 1.1) > Z_LIMIT * 1.5 * error
