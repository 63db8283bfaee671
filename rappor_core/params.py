"""`RapporParams`: the encoding of a value as bits, and the noise on each bit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, get_args

from rappor_core import privacy
from rappor_core.encodings import Encoding, encoding_named
from rappor_core.errors import ParameterError, check_whole
from rappor_core.frozen import Frozen
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism

HashFamily = Literal["mmh3", "md5"]

MAX_BITS = 1 << 16
MAX_HASHES = 64
MAX_COHORTS = 1 << 16
MAX_EPSILON = 1e6  # nats; a larger epsilon protects nothing, and floats overflow


class RapporParams(Frozen):
    """The parameters of one kind of report: encoding, sizes and noise. Public and immutable.

    Raises ParameterError, which names the bad value, if the parameters cannot work together.
    """

    num_bits: int  # k, the number of bits in a report, 1 to 65,536
    num_hashes: int  # h, the number of hashes per value, 1 to 64
    num_cohorts: int  # m, the number of cohorts, 1 to 65,536
    mechanism: TwoRoundMechanism  # the two rounds, with probabilities in multiples of 2**-16
    # The name of an encoding in `rappor_core.encodings`, such as `bloom` (k bits, h hashes per
    # cohort), `one_hot` (basic RAPPOR: one bit per category), `boolean` (a single bit) or `symbol`
    # (one hash into k symbols, exactly one of which is reported: LOLOHA, with the cohort's hash).
    # All encodings but `bloom` have h = 1; `one_hot` and `boolean` do not hash.
    encoding: str = "bloom"
    # `mmh3`, or `md5` as in google/rappor (k <= 256, h <= 16). Used by `bloom` and `symbol`.
    hash: HashFamily = "mmh3"

    def __post_init__(self) -> None:
        encoding_named(self.encoding)
        if self.hash not in get_args(HashFamily):
            raise ParameterError(f"hash = {self.hash!r} is not one of {get_args(HashFamily)}")
        check_whole("num_bits", self.num_bits, 1, MAX_BITS)
        check_whole("num_hashes", self.num_hashes, 1, MAX_HASHES)
        check_whole("num_cohorts", self.num_cohorts, 1, MAX_COHORTS)
        self.scheme.check(self)

    @cached_property
    def scheme(self) -> Encoding:
        """Return the encoding, which defines bit positions, checks and epsilons."""
        return encoding_named(self.encoding)

    @classmethod
    def rappor(
        cls,
        *,
        num_bits: int,
        num_hashes: int,
        num_cohorts: int,
        prob_f: float,
        prob_p: float,
        prob_q: float,
        hash: HashFamily = "mmh3",
        encoding: str = "bloom",
    ) -> RapporParams:
        """Return parameters from the paper's k, h, m, f, p, q (arXiv:1407.6981, section 2).

        Args:
            num_bits: The number of bits in a report, k.
            num_hashes: The number of hashes per value, h.
            num_cohorts: The number of cohorts, m.
            prob_f: The noise of the permanent response, f, in [0, 1); 0 for no noise.
            prob_p: The probability p that a report bit is 1 for a permanent 0, in [0, 1].
            prob_q: The probability q that a report bit is 1 for a permanent 1; different from p.
            hash: The hash family of the Bloom filter.
            encoding: `bloom`, or an encoding with one bit per value.

        Raises:
            ParameterError: A number is out of range, or a probability rounds to 0 or 1.
        """
        mechanism = TwoRoundMechanism.rappor(prob_f, prob_p, prob_q)
        return cls(num_bits, num_hashes, num_cohorts, mechanism, encoding, hash)

    @property
    def prob_f(self) -> float:
        """Return RAPPOR's f, as rounded. Raises ParameterError if the mechanism is not RAPPOR's."""
        if self.mechanism.p1 + self.mechanism.q1 != PROBABILITY_SCALE:
            raise ParameterError("the permanent response is not symmetric: there is no prob_f")
        return 2 * self.mechanism.q1 / PROBABILITY_SCALE

    @property
    def prob_p(self) -> float:
        """Return P(S=1) for a permanent 0."""
        return self.mechanism.rates[3]

    @property
    def prob_q(self) -> float:
        """Return P(S=1) for a permanent 1."""
        return self.mechanism.rates[2]

    @property
    def q_star(self) -> float:
        """Return the probability that a report bit is 1 if the Bloom bit is 1: P(S=1 given B=1)."""
        return self.mechanism.q_star

    @property
    def p_star(self) -> float:
        """Return the probability that a report bit is 1 if the Bloom bit is 0: P(S=1 given B=0)."""
        return self.mechanism.p_star

    @property
    def epsilon_infinity(self) -> float:
        """Return the epsilon of all reports of one memoized value over a lifetime, in nats."""
        return privacy.epsilon_infinity(self)

    @property
    def epsilon_one(self) -> float:
        """Return the epsilon of one report, in nats."""
        return self.epsilon_n(1)

    def epsilon_n(self, num_reports: int) -> float:
        """Return the epsilon of `num_reports` reports of one memoized value, in nats."""
        return privacy.epsilon_n(self, num_reports)

    def epsilon_per_report(self, num_reports: int) -> float:
        """Return the nats to charge for each of `num_reports` reports."""
        return privacy.epsilon_per_report(self, num_reports)

    @property
    def report_bytes(self) -> int:
        """Return the number of bytes that a report's bits occupy."""
        return (self.num_bits + 7) // 8

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain values, for files and digests; `from_dict` reads them."""
        return {name: getattr(self, name) for name in _OWN} | self.mechanism.to_fields()

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RapporParams:
        """Read the plain values that `to_dict` returns. Raises ParameterError if invalid."""
        expected = {*_OWN, *TwoRoundMechanism.field_names}
        if set(fields) != expected:
            missing, unknown = sorted(expected - set(fields)), sorted(set(fields) - expected)
            raise ParameterError(f"parameters lack {missing} and have unknown fields {unknown}")
        mechanism = {name: fields[name] for name in TwoRoundMechanism.field_names}
        scalars: dict[str, Any] = {name: fields[name] for name in _OWN}
        return cls(mechanism=TwoRoundMechanism(**mechanism), **scalars)


_OWN = ("encoding", "hash", "num_bits", "num_hashes", "num_cohorts")


def is_positive(value: object) -> bool:
    """Return whether a value is a positive number of nats that a device could spend."""
    return type(value) in (int, float) and 0 < value < MAX_EPSILON  # type: ignore[operator]
