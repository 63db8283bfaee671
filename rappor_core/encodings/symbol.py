"""`symbol`: one hash into k symbols, of which exactly one is reported (LOLOHA, by cohort)."""

from __future__ import annotations

from rappor_core.encodings.bloom import HashedEncoding
from rappor_core.encodings.interface import check_symbols
from rappor_core.params import RapporParams


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


ENCODING = Symbol()
