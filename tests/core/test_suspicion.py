"""The figure of risk that a person reads, in Python and in TypeScript."""

import math

import pytest

from rappor_core.risk import believed, percent_up, rise_text

# what client_js/test/testing.test.mjs holds the other client to
BELIEVED = [
    (0, "1 %"),
    (1, "2.68 %"),
    (2, "6.95 %"),
    (3, "16.9 %"),
    (6, "80.3 %"),
    (math.inf, "100 %"),
]


@pytest.mark.parametrize(("epsilon", "percent"), BELIEVED)
def test_figures_are_those_of_the_other_client(epsilon: float, percent: str) -> None:
    assert percent_up(believed(epsilon)) == percent
    odds = 0.01 / 0.99 * math.exp(epsilon)  # Bayes' rule in odds
    assert believed(epsilon) == pytest.approx(odds / (1 + odds) if odds < math.inf else 1)
    bound = "no bound" if epsilon == math.inf else f"epsilon {epsilon:.2f}"
    assert rise_text(epsilon) == f"a suspicion of 1 % rises to at most {percent} ({bound})"
