"""`RapporParams`: how a value becomes bits, and what happens to each bit. Public and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from rappor_core import privacy
from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism

Encoding = Literal["bloom", "one_hot", "boolean", "symbol"]
HashFamily = Literal["mmh3", "md5"]

MAX_BITS = 1 << 16
MAX_HASHES = 64
MAX_COHORTS = 1 << 16
MD5_MAX_BITS = 256  # a position is one byte of the digest
MD5_MAX_HASHES = 16  # a digest has 16 bytes


class RapporParams(Frozen):
    """Parameters of one kind of report.

    encoding: `bloom` (k bits, h hashes, by cohort), `one_hot` (basic RAPPOR: one bit a category),
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
    encoding: Encoding = "bloom"
    hash: HashFamily = "mmh3"

    def __post_init__(self) -> None:
        """Check each field alone, then together."""
        if self.encoding not in get_args(Encoding):
            raise ParameterError(f"encoding = {self.encoding!r} is not one of {get_args(Encoding)}")
        if self.hash not in get_args(HashFamily):
            raise ParameterError(f"hash = {self.hash!r} is not one of {get_args(HashFamily)}")
        _check_whole("num_bits", self.num_bits, MAX_BITS)
        _check_whole("num_hashes", self.num_hashes, MAX_HASHES)
        _check_whole("num_cohorts", self.num_cohorts, MAX_COHORTS)
        self._check_together()

    def _check_together(self) -> None:
        if self.encoding == "bloom":
            if self.num_bits < 2:
                raise ParameterError(f"num_bits = {self.num_bits}: a Bloom filter needs 2 or more")
            if self.hash == "md5" and (
                self.num_bits > MD5_MAX_BITS or self.num_hashes > MD5_MAX_HASHES
            ):
                raise ParameterError(
                    f"hash = 'md5' allows num_bits <= {MD5_MAX_BITS} and num_hashes <= "
                    f"{MD5_MAX_HASHES}, not {self.num_bits} and {self.num_hashes}; use 'mmh3'"
                )
        elif self.num_hashes != 1:
            raise ParameterError(
                f"num_hashes = {self.num_hashes}: encoding {self.encoding!r} sets one bit, use 1"
            )
        if self.encoding == "boolean" and self.num_bits != 1:
            raise ParameterError(f"num_bits = {self.num_bits}: a boolean is one bit, use 1")
        if self.encoding == "symbol":
            self._check_symbols()

    def _check_symbols(self) -> None:
        """A round over symbols lies with the same chance to each of the others: p + (g-1) q = 1."""
        others = self.num_bits - 1
        mechanism = self.mechanism
        if self.num_bits < 2 or self.hash != "mmh3":
            raise ParameterError(
                f"num_bits = {self.num_bits}, hash = {self.hash!r}: a symbol needs 2 or more, mmh3"
            )
        for kept, lie in ((mechanism.p1, mechanism.q1), (mechanism.p2, mechanism.q2)):
            if kept + others * lie != PROBABILITY_SCALE:
                raise ParameterError(
                    f"{kept} + {others} * {lie} is not {PROBABILITY_SCALE}: the chances of the "
                    f"{self.num_bits} symbols must add up to 1; make them with "
                    "TwoRoundMechanism.symbols"
                )

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
        encoding: Encoding = "bloom",
    ) -> RapporParams:
        """Make them from the paper's k, h, m, f, p, q (arXiv:1407.6981, section 2)."""
        mechanism = TwoRoundMechanism.rappor(prob_f, prob_p, prob_q)
        return cls(num_bits, num_hashes, num_cohorts, mechanism, encoding, hash)

    @property
    def prob_f(self) -> float:
        """f of RAPPOR, as rounded. Raises ParameterError where the first round is not RAPPOR's."""
        if self.mechanism.p1 + self.mechanism.q1 != PROBABILITY_SCALE:
            raise ParameterError("the permanent response is not symmetric: there is no prob_f")
        return 2 * self.mechanism.q1 / PROBABILITY_SCALE

    @property
    def prob_p(self) -> float:
        """P(S=1) for a permanent 0."""
        return self.mechanism.q2 / PROBABILITY_SCALE

    @property
    def prob_q(self) -> float:
        """P(S=1) for a permanent 1."""
        return self.mechanism.p2 / PROBABILITY_SCALE

    @property
    def q_star(self) -> float:
        """P(S=1 given B=1)."""
        return self.mechanism.q_star

    @property
    def p_star(self) -> float:
        """P(S=1 given B=0)."""
        return self.mechanism.p_star

    @property
    def epsilon_infinity(self) -> float:
        """Nats, for all reports of one memoised value, for life."""
        return privacy.epsilon_infinity(
            self.mechanism,
            self.num_hashes,
            single_bit=self.encoding == "boolean",
            symbol=self.encoding == "symbol",
        )

    @property
    def epsilon_one(self) -> float:
        """Nats, for one report."""
        return self.epsilon_n(1)

    def epsilon_n(self, num_reports: int) -> float:
        """Nats, for `num_reports` reports of one memoised value."""
        return privacy.epsilon_n(
            self.mechanism,
            self.num_hashes,
            num_reports,
            single_bit=self.encoding == "boolean",
            symbol=self.encoding == "symbol",
        )

    @property
    def report_bytes(self) -> int:
        """Bytes of one report's bits on the wire."""
        return (self.num_bits + 7) // 8

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files and digests; `from_dict` is the inverse."""
        mechanism = self.mechanism
        return {
            "encoding": self.encoding,
            "hash": self.hash,
            "num_bits": self.num_bits,
            "num_hashes": self.num_hashes,
            "num_cohorts": self.num_cohorts,
            "p1": mechanism.p1,
            "q1": mechanism.q1,
            "p2": mechanism.p2,
            "q2": mechanism.q2,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RapporParams:
        """Read `to_dict`'s form. Raises ParameterError for a missing or unknown field."""
        expected = {"encoding", "hash", "num_bits", "num_hashes", "num_cohorts"}
        expected |= {"p1", "q1", "p2", "q2"}
        if set(fields) != expected:
            missing, unknown = sorted(expected - set(fields)), sorted(set(fields) - expected)
            raise ParameterError(f"parameters lack {missing} and have unknown fields {unknown}")
        mechanism = TwoRoundMechanism(**{name: fields[name] for name in ("p1", "q1", "p2", "q2")})
        return cls(
            num_bits=fields["num_bits"],
            num_hashes=fields["num_hashes"],
            num_cohorts=fields["num_cohorts"],
            mechanism=mechanism,
            encoding=cast(Encoding, fields["encoding"]),
            hash=cast(HashFamily, fields["hash"]),
        )


def _check_whole(name: str, value: object, largest: int) -> None:
    if type(value) is not int or not 1 <= value <= largest:
        raise ParameterError(f"{name} = {shown(value)} is not a whole number from 1 to {largest}")
