"""`one_hot`: basic RAPPOR, one bit for each value of a list (arXiv:1407.6981, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from rappor_core.encodings.interface import Encoding
from rappor_core.errors import ParameterError
from rappor_core.params import RapporParams


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


ENCODING = OneHot()
