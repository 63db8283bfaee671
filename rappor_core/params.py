"""`RapporParams`: how a value becomes bits, and what happens to each bit. Public and frozen."""

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
MAX_EPSILON = 1e6  # nats; beyond it a promise says nothing and numbers overflow


class RapporParams(Frozen):
    """The parameters of one kind of report: encoding, sizes and noise.

    encoding: a name of `rappor_core.encodings`, which `scheme` says more of: `bloom` (k bits, h
        hashes, by cohort), `one_hot` (basic RAPPOR: one bit a category),
        `boolean` (a single bit) or `symbol` (one hash into k symbols, of which exactly one is
        reported: LOLOHA, with the cohort's hash). All but `bloom` have h = 1; `one_hot` and
        `boolean` have no hash.
    num_bits: k, 1 to 65,536.  num_hashes: h, 1 to 64.  num_cohorts: m, 1 to 65,536.
    mechanism: the two rounds, with probabilities over 2**16.
    hash: `mmh3` or `md5` (google/rappor's; k <= 256, h <= 16); for `bloom` and `symbol`.

    Raises ParameterError, with the bad value, for a set that cannot work.
    """

    num_bits: int
    num_hashes: int
    num_cohorts: int
    mechanism: TwoRoundMechanism
    encoding: str = "bloom"
    hash: HashFamily = "mmh3"

    def __post_init__(self) -> None:
        """Check each field alone, then together."""
        encoding_named(self.encoding)
        if self.hash not in get_args(HashFamily):
            raise ParameterError(f"hash = {self.hash!r} is not one of {get_args(HashFamily)}")
        check_whole("num_bits", self.num_bits, 1, MAX_BITS)
        check_whole("num_hashes", self.num_hashes, 1, MAX_HASHES)
        check_whole("num_cohorts", self.num_cohorts, 1, MAX_COHORTS)
        self.scheme.check(self)

    @cached_property
    def scheme(self) -> Encoding:
        """Return the encoding of these parameters: positions, checks, epsilons."""
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
        """Make parameters from the paper's k, h, m, f, p, q (arXiv:1407.6981, section 2).

        Args:
            num_bits: k, of a report.
            num_hashes: h, bits that a value sets.
            num_cohorts: m.
            prob_f: f, noise of the permanent response, in [0, 1); 0 for none.
            prob_p: p, P(report bit 1) for a permanent 0, in [0, 1].
            prob_q: q, the same for a permanent 1; not p.
            hash: Family of the Bloom filter.
            encoding: `bloom`, or one bit a value.

        Raises:
            ParameterError: A number out of range, or probabilities that round to 0 or 1.
        """
        mechanism = TwoRoundMechanism.rappor(prob_f, prob_p, prob_q)
        return cls(num_bits, num_hashes, num_cohorts, mechanism, encoding, hash)

    @property
    def prob_f(self) -> float:
        """RAPPOR's f, as rounded. Raises ParameterError where the first round is not RAPPOR's."""
        if self.mechanism.p1 + self.mechanism.q1 != PROBABILITY_SCALE:
            raise ParameterError("the permanent response is not symmetric: there is no prob_f")
        return 2 * self.mechanism.q1 / PROBABILITY_SCALE

    @property
    def prob_p(self) -> float:
        """P(S=1) for a permanent 0."""
        return self.mechanism.rates[3]

    @property
    def prob_q(self) -> float:
        """P(S=1) for a permanent 1."""
        return self.mechanism.rates[2]

    @property
    def q_star(self) -> float:
        """Probability that a report bit is 1 where the Bloom bit is 1: P(S=1 given B=1)."""
        return self.mechanism.q_star

    @property
    def p_star(self) -> float:
        """Probability that a report bit is 1 where the Bloom bit is 0: P(S=1 given B=0)."""
        return self.mechanism.p_star

    @property
    def epsilon_infinity(self) -> float:
        """Bound of all reports of one memoized value, for life, nats."""
        return privacy.epsilon_infinity(self)

    @property
    def epsilon_one(self) -> float:
        """Bound of one report, nats."""
        return self.epsilon_n(1)

    def epsilon_n(self, num_reports: int) -> float:
        """Bound of `num_reports` reports of one memoized value, nats."""
        return privacy.epsilon_n(self, num_reports)

    def epsilon_per_report(self, num_reports: int) -> float:
        """Nats that each of `num_reports` reports of a life counts, whatever their values."""
        return privacy.epsilon_per_report(self, num_reports)

    @property
    def report_bytes(self) -> int:
        """Number of bytes of one report's bits on the wire."""
        return (self.num_bits + 7) // 8

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain values, for files and digests; `from_dict` reads them."""
        return {name: getattr(self, name) for name in _OWN} | self.mechanism.to_fields()

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RapporParams:
        """Read `to_dict`'s form. Raises ParameterError for a missing or unknown field."""
        expected = {*_OWN, *TwoRoundMechanism.field_names}
        if set(fields) != expected:
            missing, unknown = sorted(expected - set(fields)), sorted(set(fields) - expected)
            raise ParameterError(f"parameters lack {missing} and have unknown fields {unknown}")
        mechanism = {name: fields[name] for name in TwoRoundMechanism.field_names}
        scalars: dict[str, Any] = {name: fields[name] for name in _OWN}
        return cls(mechanism=TwoRoundMechanism(**mechanism), **scalars)


_OWN = ("encoding", "hash", "num_bits", "num_hashes", "num_cohorts")


def is_positive(value: object) -> bool:
    """Return whether a value is a number of nats that a device could spend."""
    return type(value) in (int, float) and 0 < value < MAX_EPSILON  # type: ignore[operator]
