"""The paper's experiments, in shape."""

import numpy as np
import pytest

from decoder import DecodeOptions
from simulations.experiments import paper

BONFERRONI = DecodeOptions(correction="bonferroni")


@pytest.mark.statistical
def test_more_reports_show_more_of_the_normal_variable() -> None:
    """Fixed seed. The paper's figure: nearly nothing at 10,000 reports, the bell at a million."""
    rng = np.random.default_rng(2014)
    few, some, many = (paper.normal(n, rng, BONFERRONI) for n in paper.NORMAL_REPORTS)
    assert few.true_positives < 10 < some.true_positives < many.true_positives
    assert many.true_positives >= 35
    assert few.false_positives + some.false_positives + many.false_positives == 0
    assert few.missed + some.missed + many.missed <= 7  # of about 64: 95 % intervals, 3.2 expected
    found = np.flatnonzero(many.decoding.candidates.detected)
    assert 45 < found.mean() < 55
    for experiment in (few, some, many):
        assert experiment.coverage > 0.85  # 101 intervals: below .87 once in 3,000


@pytest.mark.statistical
def test_the_exponential_experiment_finds_common_strings() -> None:
    """Fixed seed. 33 of 100 is what least squares on the true support finds on average."""
    experiment = paper.exponential(
        paper.EXPONENTIAL_REPORTS, np.random.default_rng(2014), BONFERRONI
    )
    assert experiment.true_positives >= 28
    assert experiment.false_positives <= 1
    assert experiment.decoding.candidates.detected[:20].sum() >= 18
    held, wrong = experiment.above_two_errors  # the paper: 47 and 2, by no honest rule
    assert 40 <= held <= 54
    assert 0 < wrong <= 7  # 2.3 expected of 100
