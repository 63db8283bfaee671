"""The noise between true shares and debiased bit shares: of the mechanism, and of sampling
(docs/method.md, "What we see")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decoder.numerics.bit_tensor import Positions, block_pair_sums, scatter_sums
from decoder.typing import Floats
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism

MIN_VARIANCE = 1e-6  # of a report bit: a probability of 0 or 1 is noiseless, the next is above it


@dataclass(frozen=True)
class BitNoise:
    """The probabilities of both rounds for one bit: P(B'=1) for B=1 and for B=0 (p1, q1), P(S=1)
    for B'=1 and for B'=0 (p2, q2)."""

    keep_one: float
    keep_zero: float
    show_one: float
    show_zero: float

    @classmethod
    def of(cls, mechanism: TwoRoundMechanism) -> BitNoise:
        """Return the mechanism's integers over 2**16 as probabilities, all exact in a double."""
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
        """q_star - p_star = (p1 - q1)(p2 - q2), by which a set bit raises the mean of a report."""
        return self.q_star - self.p_star

    def mirrored(self) -> BitNoise:
        """Return the probabilities for the complement of the bit: 1 - B, 1 - B', 1 - S."""
        return BitNoise(
            1 - self.keep_zero, 1 - self.keep_one, 1 - self.show_zero, 1 - self.show_one
        )

    def within(self, bit: int) -> float:
        """Variance that every report draws afresh, for a true `bit`; of a sum over r: r times."""
        keep = self.keep_one if bit else self.keep_zero
        one, zero = self.show_one * (1 - self.show_one), self.show_zero * (1 - self.show_zero)
        return keep * one + (1 - keep) * zero

    def between(self, bit: int) -> float:
        """Variance of the permanent bit, drawn once for a device; of a sum over r: r^2 times."""
        keep = self.keep_one if bit else self.keep_zero
        return keep * (1 - keep) * (self.show_one - self.show_zero) ** 2

    def mechanism_variance(self, share: Floats, repetition: float) -> Floats:
        """Variance of one report's bit around the device's own, averaged over bits set with
        `share`, in units of the debiased share; repetition: rho. Without the sampling."""
        one = self.within(1) + repetition * self.between(1)
        zero = self.within(0) + repetition * self.between(0)
        drawn = np.maximum(share * one + (1 - share) * zero, MIN_VARIANCE)
        return np.asarray(drawn / self.gap**2)

    def symbol_covariance(self, shares: Floats, repetition: float) -> Floats:
        """Covariance between two of the g symbols of one report, off the diagonal, (m, g, g), for
        shares (m, g) of sum 1 of the devices whose own symbol each is.

        A report has a 1 in one place: given the device, E S_b S_c = 0, so that what is fresh is
        -E S_b E S_c, and the permanent symbol adds (rho - 1) times its own.
        """
        pairs = shares[:, :, None] + shares[:, None, :]

        def product(same: float, other: float) -> Floats:
            return np.asarray(other**2 + other * (same - other) * pairs)

        permanent = (self.show_one - self.show_zero) ** 2 * product(self.keep_one, self.keep_zero)
        report = product(self.q_star, self.p_star)
        return np.asarray(-(report + (repetition - 1) * permanent) / self.gap**2)


@dataclass(frozen=True)
class RandomString:
    """First and second moments of the bits of a string hashed at random into one cohort.

    mean: a = P(bit set) = 1 - (1 - 1/k)^h.  both: P(two given bits set) =
    1 - 2 (1 - 1/k)^h + (1 - 2/k)^h. The h positions are independent and may coincide.
    """

    num_bits: int
    num_hashes: int

    @cached_property
    def mean(self) -> float:
        """Return the probability that a random string sets a given bit, a, in (0, 1)."""
        return 1 - self._none_of(1)

    @cached_property
    def both(self) -> float:
        """P(two given bits are both set)."""
        return 1 - 2 * self._none_of(1) + self._none_of(2)

    @cached_property
    def variance(self) -> float:
        """Variance of a bit of a random string, a (1 - a)."""
        return self.mean * (1 - self.mean)

    @cached_property
    def covariance(self) -> float:
        """Covariance between two bits of a random string; negative."""
        return self.both - self.mean**2

    @cached_property
    def covariance_matrix(self) -> Floats:
        """Covariance of the bits of a random string, C, (k, k), read-only."""
        matrix = np.full((self.num_bits, self.num_bits), self.covariance)
        np.fill_diagonal(matrix, self.variance)
        matrix.setflags(write=False)
        return matrix

    def _none_of(self, bits: int) -> float:
        return float((1 - min(bits, self.num_bits) / self.num_bits) ** self.num_hashes)


@dataclass(frozen=True)
class CohortNoise:
    """Covariance of the debiased bit shares of each cohort, about the population's. repetition:
    rho.  symbols: a report is one of k symbols, not k bits with separate noise."""

    bits: BitNoise
    random: RandomString
    reports: Floats
    repetition: float
    symbols: bool = False

    def repetition_of(self, ratio: float) -> float:
        """The repetition, at least 1, at which the noise is `ratio` times that of this model."""
        once, now = self.typical(1.0), self.typical(self.repetition)
        return max(1.0 + (ratio * now - once) / (self.typical(2.0) - once), 1.0)

    def typical(self, repetition: float) -> float:
        """N_j times the variance of a bit of mean share; linear in the repetition."""
        share = np.array([self.random.mean])
        mechanism = float(self.bits.mechanism_variance(share, repetition)[0])
        return mechanism + repetition * self.random.variance

    def covariance(self, positions: Positions, shares: Floats) -> Floats:
        """Covariance when the candidates hold `shares` (M,) and random strings the rest, (m, k, k).

        S_j = (diag(mechanism noise at the fitted bit shares) + rho Cov(bits of one device)) / N_j.
        Symbols have the noise of a multinomial instead; S_j is then 0 along the ones.
        """
        weights = np.maximum(shares, 0.0)  # so that Cov is a distribution's, positive semi-definite
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
        """`covariance` with a typical variance where symbols have none: nothing that is solved
        for, data or candidates, has a part along the ones of a cohort of symbols."""
        matrix = self.covariance(positions, shares)
        if not self.symbols:
            return matrix
        k = self.random.num_bits
        typical = np.trace(matrix, axis1=1, axis2=2) / (k - 1)
        return np.asarray(matrix + typical[:, None, None] / k)
