"""A small form of `rappor simulate decoder-calibration`: the promises, in the small settings.

Each bound lies 4 standard errors or more beyond the table in docs/evaluation/lists.md: a correct
decoder fails less than once in 1,000. The last test shows that the usual mistakes fail.
"""

import numpy as np
import pytest

from decoder.estimation.least_squares import Balance
from decoder.numerics.bit_tensor import one_thread
from simulations.experiments.calibration import CalibrationRun, draw, fit, run_cell
from simulations.experiments.calibration_settings import DISTRIBUTIONS
from simulations.experiments.calibration_table import summarize

RUNS = 3
MIN_RECALL = {"typical": 0.48, "loose": 0.73, "over_x2": 0.34}


@pytest.mark.statistical
@pytest.mark.parametrize(
    "configuration",
    ["typical", *(pytest.param(one, marks=pytest.mark.long) for one in ("loose", "over_x2"))],
)
def test_promises(configuration):
    scores = [
        run_cell(CalibrationRun("small", configuration, distribution, 100 + run))
        for distribution in DISTRIBUTIONS
        for run in range(RUNS)
    ]
    (row,) = summarize(scores)
    assert row.recall["fdr"].value > MIN_RECALL[configuration]
    assert row.false_proportion["fdr"].value < 0.10
    assert row.family_wise["bonferroni"].value <= 0.3
    assert 0.935 < row.coverage.value < 0.965
    assert 0.90 < row.coverage_detected["bh"].value <= 1.0
    assert 0.75 < row.wrong_z_squared.value < 1.25


def _forgetful(solve, random, start, steps):
    """A fit that believes its list to be complete: no unlisted strings, no excess variance."""
    return Balance(solve(0.0), 0.0, 1.0)


@pytest.mark.statistical
def test_forgetting_what_the_list_lacks_breaks_the_promises(monkeypatch):
    """Without tau and kappa intervals are too narrow; tests keep their null deviation."""
    monkeypatch.setattr("decoder.estimation.ep_iterations.balance", _forgetful)
    scores = [run_cell(CalibrationRun("small", "loose", name, 200)) for name in DISTRIBUTIONS]
    row = summarize(scores)[0]
    assert row.coverage.value < 0.85
    assert row.wrong_z_squared.value < 1.2  # each score is in the deviation of its own residual


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("method", "runs"), [("lasso", 30), ("cavity", 8)])
def test_one_cohort_with_unlisted_value_is_covered(method, runs):
    """.95 +- .004 and .008 (one standard error); .91 and .90 by Student's t alone."""
    cells = [
        CalibrationRun("one cohort", "heaviest missing", "one 0.50", 40 + run)
        for run in range(runs)
    ]
    covered = float(np.mean([run_cell(cell, method).coverage for cell in cells]))
    assert 0.93 < covered < 0.97


@pytest.mark.long
@pytest.mark.statistical
def test_lasso_errors_hold_where_shares_shift():
    """5,120 candidates of 512 rows, 90 held, 3 lists: errors in units of the stated ones.

    Their mean square is 1.7; 2.8 where a share that is not selected is thought to show whole,
    whatever the LASSO selects instead. Those of 3 lists vary by .11 and .23. Of the 20 clearly
    found in a list it is 1.1, and 2.4 where theirs is thought to; these vary by .13 and .34.
    """
    errors, found = [], []
    for run in range(3):
        sample = draw(CalibrationRun("10 a row", "loose", "zipf1", 76 + run))
        with one_thread():
            estimate = fit(sample, "lasso")
        held = sample.true_shares > 0
        errors.append(((estimate.shares - sample.true_shares) / estimate.std_errors)[held])
        found.append(errors[-1][estimate.z[held] > 4])
    assert (np.concatenate(errors) ** 2).mean() < 2.2
    assert (np.concatenate(found) ** 2).mean() < 1.6
