"""Encodings: the layouts of bits from which a kind of metric chooses, and how a value sets them.

A new encoding is a subclass of `Encoding` and its instance in `ENCODINGS`.
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
MIN_PREFIX_BITS = 16  # of a report of a coded prefix


class Encoding:
    """How a value becomes set bits of B. Public, and without state.

    name: as in `metrics.toml`, in the parameters, and in `params_id`.
    hashed: positions are hashes of the value, by cohort (`rappor_core.hashing.bloom_positions`);
        otherwise they follow from the value's index in the metric's list of values.
    own_bits: each value has a bit that no other sets, the same in every cohort.
    single_bit: the report is one bit, so that two values differ in one bit, not two.
    symbols: exactly one bit of k is set, in B, B' and S: both rounds draw one of k symbols, and
        the symbols of a cohort's reports are multinomial.
    one_entry: all values share one entry of a device's ledger, which then does not tell which was
        sent; for fresh reports, whose cost is the same whatever their value.
    value_names: the values, where they are the same for every metric.
    fewest_set: the least number of bits that a value sets.
    """

    name: str
    hashed = False
    own_bits = False
    single_bit = False
    symbols = False
    one_entry = False
    value_names: tuple[str, ...] = ()
    fewest_set = 1

    def check(self, params: RapporParams) -> None:
        """Check that the parameters suit the encoding. Raises ParameterError.

        Each parameter is in its own range already. Here: one hash.
        """
        if params.num_hashes != 1:
            raise ParameterError(
                f"num_hashes = {params.num_hashes}: encoding {self.name!r} sets one bit, use 1"
            )

    def max_permanent_responses(self, params: RapporParams, max_values: int) -> int:  # noqa: ARG002
        """Bound the permanent responses that a device can come to hold.

        Args:
            params: Parameters of the metric.
            max_values: Different values that the device may report.

        Returns:
            The number of responses.
        """
        return max_values

    def set_bits(self, params: RapporParams) -> tuple[int, int]:
        """Return the fewest and the most bits that a value sets in B."""
        return self.fewest_set, min(params.num_hashes, params.num_bits)

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Encode a value in a cohort as the bits B.

        Args:
            metric: The metric that the value is for.
            value: Private.
            cohort: From 0.

        Returns:
            B as an integer of k bits. Private.

        Raises:
            ValueRefusedError: The metric does not accept the value.
        """
        index = metric.rules.index(metric, value)
        return _as_integer(self.index_positions(metric.params, index, cohort))

    def jittered_bits(self, metric: Metric, value: object, cohort: int, jitter: float) -> int:  # noqa: ARG002
        """Encode a value like `value_bits`, for a `jittered` kind.

        Args:
            metric: The metric that the value is for.
            value: Private.
            cohort: From 0.
            jitter: The device's constant, in [0, 1). Private.

        Returns:
            B as an integer of k bits. Private.
        """
        return self.value_bits(metric, value, cohort)

    def index_positions(self, params: RapporParams, index: int, cohort: int) -> tuple[int, ...]:
        """Find the bit positions of a listed value; encodings by hash have none.

        Args:
            params: Parameters of the metric.
            index: Index of the value in its list.
            cohort: From 0.

        Returns:
            At most h positions, each in [0, k).
        """
        raise NotImplementedError(f"encoding {self.name!r} has no list of values")

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Check that the bits suffice for a number of listed values.

        Args:
            params: Parameters of the metric.
            num_values: Values of the list.

        Raises:
            ParameterError: There are more values than the bits can encode.
        """

    def names_of_bits(self, params: RapporParams) -> Sequence[str]:  # noqa: ARG002
        """Return the names of the values of a metric whose definition is not known; none where not
        listed."""
        return self.value_names


class HashedEncoding(Encoding):
    """An encoding whose bit positions are hashes of the value as a string."""

    hashed = True

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Return the bits of a value: hashes of its normalized text in a cohort."""
        text = metric.rules.text(metric, value)
        return bloom_bits(normalize(text), cohort, metric.params)


class Bloom(HashedEncoding):
    """The encoding of any string as a Bloom filter."""

    name = "bloom"

    def check(self, params: RapporParams) -> None:
        """Require two bits or more; for `md5` no more hashes than a digest has bytes."""
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
        """Return the one bit position of a value: its index in the list of values."""
        return (index,)

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Require as many values as bits. Raises ParameterError."""
        if num_values != params.num_bits:
            raise ParameterError(
                f"{num_values} candidates for num_bits = {params.num_bits}: encoding "
                f"{self.name!r} has one bit for each value; take the metric's own categories"
            )

    def names_of_bits(self, params: RapporParams) -> Sequence[str]:
        """Names for values whose definition is unknown: by the bit that each sets."""
        return [f"bit {bit}" for bit in range(params.num_bits)]


class Boolean(Encoding):
    """The encoding of a truth value in one bit: true sets it, false sets none."""

    name = "boolean"
    own_bits = True
    single_bit = True
    value_names = ("true", "false")
    fewest_set = 0

    def check(self, params: RapporParams) -> None:
        """Require one hash and one bit. Raises ParameterError."""
        super().check(params)
        if params.num_bits != 1:
            raise ParameterError(f"num_bits = {params.num_bits}: a boolean is one bit, use 1")

    def index_positions(self, params: RapporParams, index: int, cohort: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the one bit for true (index 0), none for false (index 1)."""
        return (0,) if index == 0 else ()

    def check_num_values(self, params: RapporParams, num_values: int) -> None:  # noqa: ARG002
        """Require two values. Raises ParameterError."""
        if num_values != 2:
            raise ParameterError(f"{num_values} candidates for a boolean, which has two values")


class SymbolEncoding(Encoding):
    """An encoding whose report is one of k symbols, which both rounds exchange."""

    symbols = True

    def check(self, params: RapporParams) -> None:
        """Require one hash, and rounds that replace a symbol by each other one with the same
        probability: p + (k - 1) q = 1. Raises ParameterError."""
        super().check(params)
        others, mechanism = params.num_bits - 1, params.mechanism
        if params.num_bits < 2 or params.hash != "mmh3":
            raise ParameterError(
                f"num_bits = {params.num_bits}, hash = {params.hash!r}: a symbol needs 2 or more, "
                "mmh3"
            )
        for keep, lie in ((mechanism.p1, mechanism.q1), (mechanism.p2, mechanism.q2)):
            if keep + others * lie != PROBABILITY_SCALE:
                raise ParameterError(
                    f"{keep} + {others} * {lie} is not {PROBABILITY_SCALE}: the chances of the "
                    f"{params.num_bits} symbols must add up to 1; make them with "
                    "TwoRoundMechanism.symbols"
                )

    def max_permanent_responses(self, params: RapporParams, max_values: int) -> int:
        """Largest number of permanent responses of a device: one for each symbol."""
        return min(max_values, params.num_bits)


class Symbol(SymbolEncoding, HashedEncoding):
    """The encoding of a value as one of k symbols, by the cohort's hash."""

    name = "symbol"


class Ordered(SymbolEncoding):
    """A number as symbol s of g: s of the cohort's g - 1 cuts are at or below it.

    A comparison, where `symbol` hashes; coins, counters and the ledger are the same.
    """

    name = "ordered"

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Return the symbol of a value, as one set bit. Raises ValueRefusedError."""
        return self.jittered_bits(metric, value, cohort, 0.0)

    def jittered_bits(self, metric: Metric, value: object, cohort: int, jitter: float) -> int:
        """Return the bit of a number's symbol, with cuts moved by the device's secret constant."""
        number, symbols = metric.rules.number(metric, value), metric.params.num_bits
        symbol: int = metric.details.symbol(number, cohort, symbols, jitter)
        return 1 << symbol

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Refuse: which symbol a number has depends on the cohort's cuts."""
        del params, num_values
        raise ParameterError(
            "a metric of numbers has a curve, not a list of candidates: use decode_numbers, or "
            "rappor decode without candidates"
        )


class CodedPrefix(Encoding):
    """One of k bits, by the hash of a prefix of a string's code (`codes.prefix_groups`)."""

    name = "coded_prefix"

    def check(self, params: RapporParams) -> None:
        """Require one hash of family mmh3 into enough bits. Raises ParameterError."""
        super().check(params)
        if params.num_bits < MIN_PREFIX_BITS or params.hash != "mmh3":
            raise ParameterError(
                f"num_bits = {params.num_bits}, hash = {params.hash!r}: a coded prefix needs "
                f"{MIN_PREFIX_BITS} bits or more, and mmh3"
            )

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Return the bit of a string: the hash of as many code bits as the cohort's group takes."""
        groups, params = metric.details, metric.params
        data = normalize(metric.rules.text(metric, value))
        group = groups.group_of(cohort, params.num_cohorts)
        key = groups.key(groups.prefix(data, group), group)
        (position,) = mmh3_positions(key, cohort, params.num_bits, 1)
        return 1 << position

    def check_num_values(self, params: RapporParams, num_values: int) -> None:  # noqa: ARG002
        """Refuse a list of candidates: no cohort knows whole strings. Raises ParameterError."""
        raise ParameterError(
            "reports of coded prefixes are not decoded by a list of candidates: find strings with "
            "rappor discover, and count them with a metric of kind 'string'"
        )


class FlowSymbol(SymbolEncoding):
    """The encoding of a pair of usual cells; a cohort asks one question."""

    name = "flow_symbol"
    one_entry = True

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """Return the symbol of a pair, as one set bit. Raises ValueRefusedError."""
        pair = metric.rules.index(metric, value)
        symbol: int = metric.details.symbol(metric.params, pair, cohort)
        return 1 << symbol

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Refuse: which symbol a pair has depends on the question of the cohort."""
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
    """Return the encoding of a name. Raises ParameterError for an unknown one."""
    if not isinstance(name, str) or name not in ENCODINGS:
        raise ParameterError(f"encoding = {name!r} is not one of {tuple(ENCODINGS)}")
    return ENCODINGS[name]


def _as_integer(positions: Sequence[int]) -> int:
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits
