"""The interface of an encoding, and the register of encodings.

A new encoding is a subclass of `Encoding`, its instance in the `ENCODINGS` of its module, and a
line in `_HOMES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from rappor_core import privacy
from rappor_core.errors import ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE

if TYPE_CHECKING:  # also read by tools that freeze an app, which look for imports
    from rappor_core.encodings import schemes as schemes
    from rappor_core.metrics.metric import Metric
    from rappor_core.params import RapporParams

_HOMES = {
    "bloom": "rappor_core.encodings.schemes",
    "one_hot": "rappor_core.encodings.schemes",
    "boolean": "rappor_core.encodings.schemes",
    "symbol": "rappor_core.encodings.schemes",
    "ordered": "rappor_core.encodings.schemes",
    "coded_prefix": "rappor_core.encodings.schemes",
    "flow_symbol": "rappor_core.metrics.flow_kind",
}
_LOADED: dict[str, Encoding] = {}


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

    def epsilon_infinity(self, params: RapporParams) -> float:
        """Bound of all reports of one memoised value, for life, nats."""
        return privacy.epsilon_infinity(
            params.mechanism, params.num_hashes, single_bit=self.single_bit, symbol=self.symbols
        )

    def epsilon_n(self, params: RapporParams, num_reports: int) -> float:
        """Bound of `num_reports` reports of one memoised value, nats."""
        return privacy.epsilon_n(
            params.mechanism,
            params.num_hashes,
            num_reports,
            single_bit=self.single_bit,
            symbol=self.symbols,
        )

    def epsilon_per_report(self, params: RapporParams, num_reports: int) -> float:
        """Nats that each of `num_reports` reports of a life counts, whatever their values."""
        return privacy.epsilon_per_report(
            params.mechanism,
            params.num_hashes,
            num_reports,
            single_bit=self.single_bit,
            symbol=self.symbols,
        )

    def max_permanent_responses(self, params: RapporParams, max_values: int) -> int:  # noqa: ARG002
        """Number of permanent responses that a device with `max_values` values can come to hold."""
        return max_values

    def set_bits(self, params: RapporParams) -> tuple[int, int]:
        """The fewest and the most bits that a value sets in B."""
        return self.fewest_set, min(params.num_hashes, params.num_bits)

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """The bits B of a value, as an integer of k bits. Private. Raises ValueRefusedError."""
        index = metric.rules.index(metric, value)
        return _as_integer(self.index_positions(metric.params, index, cohort))

    def jittered_bits(self, metric: Metric, value: object, cohort: int, jitter: float) -> int:  # noqa: ARG002
        """The bits of a value as of `value_bits`, for a `jittered` kind. jitter: the device's
        secret constant in [0, 1)."""
        return self.value_bits(metric, value, cohort)

    def index_positions(self, params: RapporParams, index: int, cohort: int) -> tuple[int, ...]:
        """Bit positions of the value with this index, h at most; for encodings that are not
        `hashed`."""
        raise NotImplementedError(f"encoding {self.name!r} has no list of values")

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Check that the bits suffice for this number of listed values. Raises ParameterError.

        Nothing to check where positions are hashed.
        """

    def names_of_bits(self, params: RapporParams) -> Sequence[str]:  # noqa: ARG002
        """Names of the values of a metric whose definition is not known; none where not listed."""
        return self.value_names


def check_symbols(params: RapporParams) -> None:
    """Check that a round replaces a symbol by each other one with the same probability: p +
    (g-1) q = 1.

    Raises ParameterError.
    """
    others, mechanism = params.num_bits - 1, params.mechanism
    if params.num_bits < 2 or params.hash != "mmh3":
        raise ParameterError(
            f"num_bits = {params.num_bits}, hash = {params.hash!r}: a symbol needs 2 or more, mmh3"
        )
    for kept, lie in ((mechanism.p1, mechanism.q1), (mechanism.p2, mechanism.q2)):
        if kept + others * lie != PROBABILITY_SCALE:
            raise ParameterError(
                f"{kept} + {others} * {lie} is not {PROBABILITY_SCALE}: the chances of the "
                f"{params.num_bits} symbols must add up to 1; make them with "
                "TwoRoundMechanism.symbols"
            )


def _as_integer(positions: Sequence[int]) -> int:
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits


def encoding_named(name: str) -> Encoding:
    """Load the encoding of a name. Raises ParameterError for an unknown one."""
    if not isinstance(name, str) or name not in _HOMES:
        raise ParameterError(f"encoding = {name!r} is not one of {tuple(_HOMES)}")
    if name not in _LOADED:
        _LOADED[name] = import_module(_HOMES[name]).ENCODINGS[name]
    return _LOADED[name]
