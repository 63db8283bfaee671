"""`boolean`: a single bit, set for true and clear for false."""

from __future__ import annotations

from rappor_core.encodings.interface import Encoding
from rappor_core.errors import ParameterError
from rappor_core.params import RapporParams


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


ENCODING = Boolean()
