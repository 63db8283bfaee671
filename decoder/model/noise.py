"""The noise between true shares and debiased bit shares, from the mechanism and sampling.

See docs/method.md, "What we see"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decoder.numerics.bit_tensor import Positions, block_pair_sums, scatter_sums
from decoder.typing import Floats
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism

MIN_VARIANCE = 1e-6  # of a report bit; only the probabilities 0 and 1 have a smaller variance


@dataclass(frozen=True)
class BitNoise:
    """The probabilities of both randomization rounds of one bit."""

    keep_one: float  # P(B'=1) for B=1 (p1)
    keep_zero: float  # P(B'=1) for B=0 (q1)
    show_one: float  # P(S=1) for B'=1 (p2)
    show_zero: float  # P(S=1) for B'=0 (q2)

    @classmethod
    def of(cls, mechanism: TwoRoundMechanism) -> BitNoise:
        """Convert the mechanism's integers over 2**16 to probabilities, all exact in a double."""
        rounds = (mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2)
        return cls(*(value / PROBABILITY_SCALE for value in rounds))

    @property
    def q_star(self) -> float:
        """P(S=1 given B=1)."""
        return self.keep_one * self.show_one + (1 - self.keep_one) * self.show_zero

    @property
    def p_star(self) -> float:
        """P(S=1 given B=0)."""
        return self.keep_zero * self.show_one + (1 - self.keep_zero) * self.show_zero

    @property
    def gap(self) -> float:
        """q_star - p_star = (p1 - q1)(p2 - q2), by which a set bit raises a report bit's mean."""
        return self.q_star - self.p_star

    def mirrored(self) -> BitNoise:
        """Return the probabilities for the complement of the bit: 1 - B, 1 - B', 1 - S."""
        return BitNoise(
            1 - self.keep_zero, 1 - self.keep_one, 1 - self.show_zero, 1 - self.show_one
        )

    def within(self, bit: int) -> float:
        """Return the variance of a report's bit from its fresh noise, given the true `bit`."""
        keep = self.keep_one if bit else self.keep_zero
        one, zero = self.show_one * (1 - self.show_one), self.show_zero * (1 - self.show_zero)
        return keep * one + (1 - keep) * zero

    def between(self, bit: int) -> float:
        """Return the variance of a report's bit from the permanent bit, drawn once per device."""
        keep = self.keep_one if bit else self.keep_zero
        return keep * (1 - keep) * (self.show_one - self.show_zero) ** 2

    def mechanism_variance(self, share: Floats, repetition: float) -> Floats:
        """Return the variance of a report's bit around the device's own bit, without sampling.

        The variance is averaged over bits that are set with probability `share`, in units of the
        debiased share. `repetition` is rho."""
        one = self.within(1) + repetition * self.between(1)
        zero = self.within(0) + repetition * self.between(0)
        drawn = np.maximum(share * one + (1 - share) * zero, MIN_VARIANCE)
        return np.asarray(drawn / self.gap**2)

    def symbol_covariance(self, shares: Floats, repetition: float) -> Floats:
        """Return the covariance (m, g, g) of two of the g symbols of a report, off the diagonal.

        The shares (m, g) of the devices with each symbol sum to 1. A report has a 1 in only one
        place: given the device, E S_b S_c = 0, so the newly drawn part is -E S_b E S_c, and the
        permanent symbol adds (rho - 1) times its own."""
        pairs = shares[:, :, None] + shares[:, None, :]

        def product(same: float, other: float) -> Floats:
            return np.asarray(other**2 + other * (same - other) * pairs)

        permanent = (self.show_one - self.show_zero) ** 2 * product(self.keep_one, self.keep_zero)
        report = product(self.q_star, self.p_star)
        return np.asarray(-(report + (repetition - 1) * permanent) / self.gap**2)


@dataclass(frozen=True)
class RandomString:
    """First and second moments of the bits of a string hashed at random into one cohort.

    The h positions are independent and may coincide. mean: a = P(bit set) = 1 - (1 - 1/k)^h. both:
    P(two given bits set) = 1 - 2 (1 - 1/k)^h + (1 - 2/k)^h."""

    num_bits: int
    num_hashes: int

    @cached_property
    def mean(self) -> float:
        """The probability, in (0, 1), that a random string sets a given bit."""
        return 1 - self._none_of(1)

    @cached_property
    def both(self) -> float:
        """The probability that two given bits are both set."""
        return 1 - 2 * self._none_of(1) + self._none_of(2)

    @cached_property
    def variance(self) -> float:
        """The variance a (1 - a) of a bit of a random string."""
        return self.mean * (1 - self.mean)

    @cached_property
    def covariance(self) -> float:
        """The covariance between two bits of a random string; negative."""
        return self.both - self.mean**2

    @cached_property
    def covariance_matrix(self) -> Floats:
        """The covariance C (k, k) of the bits of a random string, read-only."""
        matrix = np.full((self.num_bits, self.num_bits), self.covariance)
        np.fill_diagonal(matrix, self.variance)
        matrix.setflags(write=False)
        return matrix

    def _none_of(self, bits: int) -> float:
        return float((1 - min(bits, self.num_bits) / self.num_bits) ** self.num_hashes)


@dataclass(frozen=True)
class CohortNoise:
    """The covariance of each cohort's debiased bit shares around the population's shares."""

    bits: BitNoise
    random: RandomString
    reports: Floats
    repetition: float  # rho
    symbols: bool = False  # A report is one of k symbols, instead of k bits with separate noise

    def repetition_of(self, ratio: float) -> float:
        """Return the repetition, at least 1, at which the noise is `ratio` times this model's."""
        once, now = self.typical(1.0), self.typical(self.repetition)
        return max(1.0 + (ratio * now - once) / (self.typical(2.0) - once), 1.0)

    def typical(self, repetition: float) -> float:
        """Return N_j times the variance of a debiased bit with a random string's mean share."""
        share = np.array([self.random.mean])
        mechanism = float(self.bits.mechanism_variance(share, repetition)[0])
        return mechanism + repetition * self.random.variance

    def covariance(self, positions: Positions, shares: Floats) -> Floats:
        """Return the covariance (m, k, k) if candidates have `shares` (M,) and the rest is random.

        S_j = (diag(mechanism noise at the fitted bit shares) + rho Cov(bits of one device)) / N_j.
        Symbols have multinomial noise instead; S_j is then 0 along the vector of ones."""
        weights = np.maximum(shares, 0.0)  # so that Cov is positive semidefinite
        weights = weights / max(float(weights.sum()), 1.0)
        rest, random = max(1.0 - float(weights.sum()), 0.0), self.random
        listed = scatter_sums(positions, weights, random.num_bits)
        bit_shares = np.clip(listed + rest * random.mean, 0.0, 1.0)
        both = block_pair_sums(positions, weights, random.num_bits)
        both = both + rest * (random.covariance_matrix + random.mean**2)
        sampling = both - bit_shares[:, :, None] * bit_shares[:, None, :]
        mechanism = np.zeros_like(sampling)
        if self.symbols:
            mechanism = self.bits.symbol_covariance(bit_shares, self.repetition)
        diagonal = np.arange(random.num_bits)
        mechanism[:, diagonal, diagonal] = self.bits.mechanism_variance(bit_shares, self.repetition)
        mechanism += self.repetition * sampling
        return np.asarray(mechanism / self.reports[:, None, None])

    def invertible(self, positions: Positions, shares: Floats) -> Floats:
        """Return `covariance`, with a typical variance along (1, ..., 1) if there are symbols.

        In cohorts of symbols, data and candidates have no component along that vector."""
        matrix = self.covariance(positions, shares)
        if not self.symbols:
            return matrix
        k = self.random.num_bits
        typical = np.trace(matrix, axis1=1, axis2=2) / (k - 1)
        return np.asarray(matrix + typical[:, None, None] / k)
