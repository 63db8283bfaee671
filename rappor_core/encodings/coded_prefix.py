"""`coded_prefix`: one hash of the first bits of a string's code, how many by cohort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rappor_core.encodings.interface import Encoding
from rappor_core.errors import ParameterError
from rappor_core.hashing import mmh3_positions, normalise
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

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


ENCODING = CodedPrefix()
