"""Weights that an honest report may have."""

from collector.domain.plausibility import weight_range
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams


def test_a_symbol_report_has_one_certain_bit() -> None:
    """Any other weight is impossible: refused, also where improbable ones are only counted."""
    mechanism = TwoRoundMechanism.symbols(4, 2.0, 1.0)
    weights = weight_range(RapporParams(4, 1, 4, mechanism, "symbol"))
    assert (weights.lowest, weights.highest, weights.certain) == (1, 1, True)
    bits = RapporParams(64, 2, 4, TwoRoundMechanism.rappor(0.5, 0.5, 0.75))
    assert not weight_range(bits).certain
