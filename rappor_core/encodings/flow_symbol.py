"""`flow_symbol`: one of g symbols, of the class of a pair by the question of a cohort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rappor_core.encodings.interface import Encoding, check_symbols
from rappor_core.errors import ParameterError
from rappor_core.metrics.flow import flow_symbol, question_of
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric


class FlowSymbol(Encoding):
    """The encoding of a pair of usual cells (`rappor_core.metrics.flow`): a cohort asks one
    question."""

    name = "flow_symbol"
    symbols = True
    one_entry = True

    def check(self, params: RapporParams) -> None:
        """Require one hash, of family mmh3, and probabilities that add up. Raises
        ParameterError."""
        super().check(params)
        check_symbols(params)

    def value_bits(self, metric: Metric, value: object, cohort: int) -> int:
        """The symbol of a pair, as one set bit. Raises ValueRefusedError."""
        flow, question = metric.details, question_of(cohort)
        pair = flow.split(metric.rules.index(metric, value))
        return 1 << flow_symbol(metric.params, question, flow.class_of(question, *pair), cohort)

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        """Refuse: which symbol a pair has depends on the question of the cohort."""
        del params, num_values
        raise ParameterError(
            "a metric of flows has a matrix, not a list of candidates: use rappor flows"
        )


ENCODING = FlowSymbol()
