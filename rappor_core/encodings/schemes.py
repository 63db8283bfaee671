"""How a value becomes set bits: the encodings of strings, lists, truth values and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rappor_core.encodings.interface import Encoding, check_symbols
from rappor_core.errors import ParameterError
from rappor_core.hashing import bloom_bits, mmh3_positions, normalise
from rappor_core.params import MD5_MAX_BITS, MD5_MAX_HASHES, RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric


class HashedEncoding(Encoding):
    """An encoding whose bit positions are hashes of the value as a string."""

    hashed = True

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """The bits of a value: hashes of its normalised text in a cohort."""
        text = metric.rules.text(metric, value)
        return bloom_bits(normalise(text), cohort, metric.params)


class Bloom(HashedEncoding):
    """The encoding of any string as a Bloom filter."""

    name = "bloom"

    def check(self, params: RapporParams) -> None:
        """Require two bits or more; for `md5` no more hashes than a digest has bytes. Raises
        ParameterError."""
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
        """The one bit position of a value: its index in the list of values."""
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
        """The one bit for true (index 0), none for false (index 1)."""
        return (0,) if index == 0 else ()

    def check_num_values(self, params: RapporParams, num_values: int) -> None:  # noqa: ARG002
        """Require two values. Raises ParameterError."""
        if num_values != 2:
            raise ParameterError(f"{num_values} candidates for a boolean, which has two values")


class Symbol(HashedEncoding):
    """The encoding of a value as one of k symbols, by the cohort's hash; both rounds exchange
    symbols."""

    name = "symbol"
    symbols = True

    def check(self, params: RapporParams) -> None:
        """Check that a round replaces a symbol by each other one with the same probability: p +
        (g-1) q = 1.

        Raises ParameterError.
        """
        super().check(params)
        check_symbols(params)

    def max_permanent_responses(self, params: RapporParams, max_values: int) -> int:
        """Largest number of permanent responses of a device: one for each symbol."""
        return min(max_values, params.num_bits)


class Ordered(Encoding):
    """The encoding of a number as symbol s of g: s of the cohort's g - 1 cuts are at or below
    it.

    A comparison, where `symbol` hashes; coins, counters and the ledger are the same.
    """

    name = "ordered"
    symbols = True

    def check(self, params: RapporParams) -> None:
        """Require one hash, which is not used, and probabilities that add up. Raises
        ParameterError."""
        super().check(params)
        check_symbols(params)

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """The symbol of a value, as one set bit. Raises ValueRefusedError."""
        return self.jittered_bits(metric, value, cohort, 0.0)

    def jittered_bits(self, metric: Metric, value: object, cohort: int, jitter: float) -> int:
        """The bit of a number's symbol, with cuts that the device has moved by its secret
        constant."""
        number, symbols = metric.rules.number(metric, value), metric.params.num_bits
        symbol: int = metric.details.symbol(number, cohort, symbols, jitter)
        return 1 << symbol

    def max_permanent_responses(self, params: RapporParams, max_values: int) -> int:
        """Largest number of permanent responses of a device: one for each symbol."""
        return min(max_values, params.num_bits)

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Refuse: which symbol a number has depends on the cohort's cuts."""
        del params, num_values
        raise ParameterError(
            "a metric of numbers has a curve, not a list of candidates: use decode_numbers, or "
            "rappor decode without candidates"
        )


MIN_BITS = 16


class CodedPrefix(Encoding):
    """The encoding of a string as one of k bits, by the hash of a prefix of its code
    (`rappor_core.codes.prefix_groups`)."""

    name = "coded_prefix"

    def check(self, params: RapporParams) -> None:
        """Require one hash of family mmh3 into enough bits. Raises ParameterError."""
        super().check(params)
        if params.num_bits < MIN_BITS or params.hash != "mmh3":
            raise ParameterError(
                f"num_bits = {params.num_bits}, hash = {params.hash!r}: a coded prefix needs "
                f"{MIN_BITS} bits or more, and mmh3"
            )

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """The bit of a string: the hash of as many code bits as the cohort's group takes."""
        groups, params = metric.details, metric.params
        data = normalise(metric.rules.text(metric, value))
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


ENCODINGS: dict[str, Encoding] = {
    scheme.name: scheme
    for scheme in (Bloom(), OneHot(), Boolean(), Symbol(), Ordered(), CodedPrefix())
}
