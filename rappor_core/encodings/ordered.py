"""`ordered`: between which of a cohort's public cuts of the number line a value lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rappor_core.encodings.interface import Encoding, check_symbols
from rappor_core.errors import ParameterError
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric


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


ENCODING = Ordered()
