"""Encodings: the bit layouts that a metric kind can use, and the bits that each value sets.

To add an encoding, subclass `Encoding` and add an instance to `ENCODINGS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rappor_core.errors import ParameterError
from rappor_core.hashing import bloom_bits, mmh3_positions, normalize
from rappor_core.mechanism import PROBABILITY_SCALE

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.params import RapporParams

MD5_MAX_BITS = 256  # a position is one byte of the digest
MD5_MAX_HASHES = 16  # a digest has 16 bytes
MIN_PREFIX_BITS = 16  # the minimum number of bits in a report of a coded prefix


class Encoding:
    """The rule that determines which bits of B a value sets. Public and stateless."""

    name: str  # the name in `metrics.toml`, in the parameters, and in `params_id`
    # Whether positions are per-cohort hashes of the value (`rappor_core.hashing.bloom_positions`).
    # If not, positions follow from the value's index in the metric's list of values.
    hashed = False
    # Whether each value has its own bit, which is the same in every cohort.
    own_bits = False
    # Whether a report is a single bit, so that two values differ in one bit instead of two.
    single_bit = False
    # Whether exactly one of k bits is set in B, B' and S. Both rounds then draw one of k symbols,
    # and the symbol counts of a cohort follow a multinomial distribution.
    symbols = False
    # Whether all values share one entry in a device's ledger, so that the ledger does not reveal
    # which value was sent. Used for fresh reports, whose cost is the same for every value.
    one_entry = False
    value_names: tuple[str, ...] = ()  # the values, if they are the same for every metric
    fewest_set = 1  # the minimum number of bits that a value sets

    def check(self, params: RapporParams) -> None:
        """Check that the parameters suit the encoding. Raises ParameterError if they do not.

        Each parameter is already within its range. This base method requires exactly one hash.
        """
        if params.num_hashes != 1:
            raise ParameterError(
                f"num_hashes = {params.num_hashes}: encoding {self.name!r} sets one bit, use 1"
            )

    def max_permanent_responses(self, params: RapporParams, max_values: int) -> int:  # noqa: ARG002
        """Return an upper bound on the number of permanent responses that a device can store.

        Args:
            params: The parameters of the metric.
            max_values: The number of different values that the device may report.
        """
        return max_values

    def set_bits(self, params: RapporParams) -> tuple[int, int]:
        """Return the minimum and maximum number of bits that a value sets in B."""
        return self.fewest_set, min(params.num_hashes, params.num_bits)

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Encode a value in a cohort as the bits B.

        Args:
            metric: The metric to which the value belongs.
            value: The value. Private.
            cohort: The cohort, from 0.

        Returns:
            B as an integer of k bits. Private.

        Raises:
            ValueRefusedError: The metric does not accept the value.
        """
        index = metric.rules.index(metric, value)
        return _as_integer(self.index_positions(metric.params, index, cohort))

    def jittered_bits(self, metric: Metric, value: object, cohort: int, jitter: float) -> int:  # noqa: ARG002
        """Encode a value as `value_bits` does, but shift thresholds by the device's jitter.

        Args:
            metric: The metric to which the value belongs.
            value: The value. Private.
            cohort: The cohort, from 0.
            jitter: The device's constant, in [0, 1). Private.

        Returns:
            B as an integer of k bits. Private.
        """
        return self.value_bits(metric, value, cohort)

    def index_positions(self, params: RapporParams, index: int, cohort: int) -> tuple[int, ...]:
        """Return the bit positions of a listed value. Hashed encodings raise NotImplementedError.

        Args:
            params: The parameters of the metric.
            index: The index of the value in its list.
            cohort: The cohort, from 0.

        Returns:
            At most h positions, each in [0, k).
        """
        raise NotImplementedError(f"encoding {self.name!r} has no list of values")

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Check that the bits can encode a number of listed values.

        Args:
            params: The parameters of the metric.
            num_values: The number of values in the list.

        Raises:
            ParameterError: The bits cannot encode that many values.
        """

    def names_of_bits(self, params: RapporParams) -> Sequence[str]:  # noqa: ARG002
        """Return the value names that follow from the parameters alone; empty if none do."""
        return self.value_names


class HashedEncoding(Encoding):
    """An encoding whose bit positions are hashes of the value as a string."""

    hashed = True

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Return the bits that a value sets in a cohort: the hashes of its normalized text."""
        text = metric.rules.text(metric, value)
        return bloom_bits(normalize(text), cohort, metric.params)


class Bloom(HashedEncoding):
    """The encoding of any string as a Bloom filter."""

    name = "bloom"

    def check(self, params: RapporParams) -> None:
        """Require at least two bits. Limit `md5` to one hash per byte of a digest."""
        if params.num_bits < 2:
            raise ParameterError(f"num_bits = {params.num_bits}: a Bloom filter needs 2 or more")
        too_large = params.num_bits > MD5_MAX_BITS or params.num_hashes > MD5_MAX_HASHES
        if params.hash == "md5" and too_large:
            raise ParameterError(
                f"hash = 'md5' allows num_bits <= {MD5_MAX_BITS} and num_hashes <= "
                f"{MD5_MAX_HASHES}, not {params.num_bits} and {params.num_hashes}; use 'mmh3'"
            )


class OneHot(Encoding):
    """The encoding in which value i sets bit i, in every cohort."""

    name = "one_hot"
    own_bits = True

    def index_positions(self, params: RapporParams, index: int, cohort: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the single bit position of a value: its index in the list of values."""
        return (index,)

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Require the same number of values as bits. Raises ParameterError if they differ."""
        if num_values != params.num_bits:
            raise ParameterError(
                f"{num_values} candidates for num_bits = {params.num_bits}: encoding "
                f"{self.name!r} has one bit for each value; use the metric's own categories"
            )

    def names_of_bits(self, params: RapporParams) -> Sequence[str]:
        """Name each value after the bit that it sets."""
        return [f"bit {bit}" for bit in range(params.num_bits)]


class Boolean(Encoding):
    """The encoding of a Boolean value in one bit, which is set for true."""

    name = "boolean"
    own_bits = True
    single_bit = True
    value_names = ("true", "false")
    fewest_set = 0

    def check(self, params: RapporParams) -> None:
        """Require one hash and one bit. Raises ParameterError otherwise."""
        super().check(params)
        if params.num_bits != 1:
            raise ParameterError(f"num_bits = {params.num_bits}: a boolean is one bit, use 1")

    def index_positions(self, params: RapporParams, index: int, cohort: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the only bit for true (index 0), or no bits for false (index 1)."""
        return (0,) if index == 0 else ()

    def check_num_values(self, params: RapporParams, num_values: int) -> None:  # noqa: ARG002
        """Require exactly two values. Raises ParameterError otherwise."""
        if num_values != 2:
            raise ParameterError(f"{num_values} candidates for a boolean, which has two values")


class SymbolEncoding(Encoding):
    """An encoding whose report is one of k symbols; both rounds map symbols to symbols."""

    symbols = True

    def check(self, params: RapporParams) -> None:
        """Require one hash, and rounds in which every wrong symbol is equally likely.

        That is, p + (k - 1) q = 1 in each round. Raises ParameterError otherwise.
        """
        super().check(params)
        others, mechanism = params.num_bits - 1, params.mechanism
        if params.num_bits < 2 or params.hash != "mmh3":
            raise ParameterError(
                f"num_bits = {params.num_bits}, hash = {params.hash!r}: a symbol needs 2 or more "
                "bits, and mmh3"
            )
        for keep, lie in ((mechanism.p1, mechanism.q1), (mechanism.p2, mechanism.q2)):
            if keep + others * lie != PROBABILITY_SCALE:
                raise ParameterError(
                    f"{keep} + {others} * {lie} is not {PROBABILITY_SCALE}: the chances of the "
                    f"{params.num_bits} symbols must add up to 1; make them with "
                    "TwoRoundMechanism.symbols"
                )

    def max_permanent_responses(self, params: RapporParams, max_values: int) -> int:
        """Return the maximum number of permanent responses on a device: one for each symbol."""
        return min(max_values, params.num_bits)


class Symbol(SymbolEncoding, HashedEncoding):
    """The encoding of a value as one of k symbols, chosen by the cohort's hash."""

    name = "symbol"


class Ordered(SymbolEncoding):
    """The encoding of a number as one of g symbols, by counting the thresholds at or below it.

    Each cohort has g - 1 thresholds. The encoding `symbol` hashes the value; this encoding compares
    it with the thresholds. Everything else (noise, counters, ledger) works as with `symbol`.
    """

    name = "ordered"

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Return the symbol of a value as one set bit. Raises ValueRefusedError if invalid."""
        return self.jittered_bits(metric, value, cohort, 0.0)

    def jittered_bits(self, metric: Metric, value: object, cohort: int, jitter: float) -> int:
        """Return a number's symbol as one set bit; the device's jitter shifts the thresholds."""
        number, symbols = metric.rules.number(metric, value), metric.params.num_bits
        symbol: int = metric.details.symbol(number, cohort, symbols, jitter)
        return 1 << symbol

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Raise ParameterError, because a number's symbol depends on the cohort's thresholds."""
        del params, num_values
        raise ParameterError(
            "a metric of numbers has a curve, not a list of candidates: use decode_numbers, or "
            "rappor decode without candidates"
        )


class CodedPrefix(Encoding):
    """The encoding of a string as one of k bits: the hash of a prefix of its code.

    See `codes.prefix_groups`.
    """

    name = "coded_prefix"

    def check(self, params: RapporParams) -> None:
        """Require one hash of family mmh3 and enough bits. Raises ParameterError otherwise."""
        super().check(params)
        if params.num_bits < MIN_PREFIX_BITS or params.hash != "mmh3":
            raise ParameterError(
                f"num_bits = {params.num_bits}, hash = {params.hash!r}: a coded prefix needs "
                f"{MIN_PREFIX_BITS} or more bits, and mmh3"
            )

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Return the bit of a string: the hash of the code bits that the cohort's group uses."""
        groups, params = metric.details, metric.params
        data = normalize(metric.rules.text(metric, value))
        group = groups.group_of(cohort, params.num_cohorts)
        key = groups.key(groups.prefix(data, group), group)
        (position,) = mmh3_positions(key, cohort, params.num_bits, 1)
        return 1 << position

    def check_num_values(self, params: RapporParams, num_values: int) -> None:  # noqa: ARG002
        """Raise ParameterError, because no cohort reports whole strings."""
        raise ParameterError(
            "reports of coded prefixes are not decoded by a list of candidates: find strings with "
            "rappor discover, and count them with a metric of kind 'string'"
        )


class FlowSymbol(SymbolEncoding):
    """The encoding of a pair of usual cells; each cohort answers one question about the pair."""

    name = "flow_symbol"
    one_entry = True

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Return the symbol of a pair as one set bit. Raises ValueRefusedError if it is invalid."""
        pair = metric.rules.index(metric, value)
        symbol: int = metric.details.symbol(metric.params, pair, cohort)
        return 1 << symbol

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Raise ParameterError, because the symbol of a pair depends on the cohort's question."""
        del params, num_values
        raise ParameterError(
            "a metric of flows has a matrix, not a list of candidates: use rappor flows"
        )


ENCODINGS: dict[str, Encoding] = {
    encoding.name: encoding
    for encoding in (
        Bloom(),
        OneHot(),
        Boolean(),
        Symbol(),
        Ordered(),
        CodedPrefix(),
        FlowSymbol(),
    )
}


def encoding_named(name: str) -> Encoding:
    """Return the encoding that has a name. Raises ParameterError if the name is unknown."""
    if not isinstance(name, str) or name not in ENCODINGS:
        raise ParameterError(f"encoding = {name!r} is not one of {tuple(ENCODINGS)}")
    return ENCODINGS[name]


def _as_integer(positions: Sequence[int]) -> int:
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits
