"""`symbol`: one hash into k symbols, of which exactly one is reported (LOLOHA, by cohort)."""

from __future__ import annotations

from rappor_core.encodings.bloom import HashedEncoding
from rappor_core.errors import ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.params import RapporParams


class Symbol(HashedEncoding):
    """One of k symbols, by the cohort's hash; the rounds exchange it for another one."""

    name = "symbol"
    symbols = True

    def check(self, params: RapporParams) -> None:
        """A round lies with the same chance to each of the others: p + (g-1) q = 1.

        Raises ParameterError.
        """
        super().check(params)
        others = params.num_bits - 1
        mechanism = params.mechanism
        if params.num_bits < 2 or params.hash != "mmh3":
            raise ParameterError(
                f"num_bits = {params.num_bits}, hash = {params.hash!r}: a symbol needs 2 or more, "
                "mmh3"
            )
        for kept, lie in ((mechanism.p1, mechanism.q1), (mechanism.p2, mechanism.q2)):
            if kept + others * lie != PROBABILITY_SCALE:
                raise ParameterError(
                    f"{kept} + {others} * {lie} is not {PROBABILITY_SCALE}: the chances of the "
                    f"{params.num_bits} symbols must add up to 1; make them with "
                    "TwoRoundMechanism.symbols"
                )

    def max_permanent_responses(self, params: RapporParams, max_values: int) -> int:
        """At most one for each symbol."""
        return min(max_values, params.num_bits)


ENCODING = Symbol()
